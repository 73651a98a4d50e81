//! The head of a metric: the slots that are not in the store yet.
//!
//! Slots are grouped in octets of 8 slots, whose first slot is a multiple of 8. The newest octet is not
//! encoded. Older octets are encoded in a chain of cells. A head takes two cache lines.

use plumbago_model::{MetricId, codec};

use crate::bytes::{put_varint, take_varint};
use crate::shard::head_state::{FlushEvent, HeadState, mark};
use crate::shard::pool::{Chain, Pool};

/// Number of slots in an octet.
pub(crate) const OCTET: u32 = 8;
/// The values of an octet, NaN for unknown slots.
pub(crate) type Octet = [f64; OCTET as usize];
/// Largest number of slots in a group, when a chain is encoded again.
const GROUP_SLOTS: usize = 96;
/// Unknown slots in a row that a group may contain; with more, a new group begins.
const GROUP_GAP: u32 = 8;

/// Known slots and their values, in time order.
pub(crate) type Pairs = Vec<(u32, f64)>;

/// What happened to a point that was given to a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The point filled an unknown slot of the newest octet.
    Held,
    /// The point replaced the value of a slot.
    Replaced,
    /// The point started a new octet. The head may be due for a flush now.
    Advanced,
    /// The point is before the base of the head, and was not applied.
    Late,
}

/// The part of a metric that is in memory: 128 bytes and a chain.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Head {
    raw: Octet,
    /// The hash of the name, which is the key in the registry.
    pub(crate) hash: [u32; 4],
    /// The metric's id.
    pub(crate) id: MetricId,
    /// The newest slot that a point was applied to.
    pub(crate) newest: u32,
    /// Slots before this one are in the store; the head holds the others.
    pub(crate) base: u32,
    chain: Chain,
    /// The metric's number in the journal; 0 for none.
    pub(crate) number: u32,
    /// The oldest journal segment that has an unflushed point of the metric; 0 for none.
    pub(crate) segment: u32,
    /// The position of its first open window in the shard's list.
    pub(crate) windows: u32,
    /// The position of its layout in the shard's list.
    pub(crate) config: u16,
    pub(crate) state: HeadState,
}

impl Head {
    pub(crate) fn new(
        hash: [u32; 4],
        id: MetricId,
        number: u32,
        windows: u32,
        config: u16,
        state: HeadState,
    ) -> Self {
        Self {
            raw: [f64::NAN; OCTET as usize],
            hash,
            id,
            newest: 0,
            base: 0,
            chain: Chain::default(),
            number,
            segment: 0,
            windows,
            config,
            state,
        }
    }

    /// Whether any of the marks is set.
    #[inline]
    pub(crate) fn is(&self, marks: u16) -> bool {
        self.state.is(marks)
    }

    pub(crate) fn set(&mut self, marks: u16) {
        self.state.set(marks);
    }

    pub(crate) fn clear(&mut self, marks: u16) {
        self.state.clear(marks);
    }

    /// Whether a point of this slot is late.
    pub(crate) fn is_late(&self, slot: u32) -> bool {
        if self.is(mark::PLACED) { slot < self.base } else { self.is(mark::REFOLD) }
    }

    /// Puts a value into a slot.
    #[inline]
    pub(crate) fn apply(&mut self, pool: &mut Pool, scratch: &mut Scratch, slot: u32, value: f64) -> Applied {
        if slot < self.base {
            return Applied::Late;
        }
        let octet = self.newest & !(OCTET - 1);
        if slot < octet {
            return self.apply_encoded(pool, scratch, slot, value);
        }
        self.state.on_point(FlushEvent::Append);
        if slot >= octet + OCTET {
            self.seal(pool, scratch);
            self.newest = slot;
            self.raw[(slot % OCTET) as usize] = value;
            return Applied::Advanced;
        }
        self.newest = self.newest.max(slot);
        let cell = &mut self.raw[(slot % OCTET) as usize];
        let known = !cell.is_nan();
        *cell = value;
        if known { Applied::Replaced } else { Applied::Held }
    }

    /// Returns the chain if the newest octet is full, so that the next point in order will append the octet
    /// to it. Reads both cache lines.
    #[inline]
    pub(crate) fn about_to_seal(&self) -> Option<Chain> {
        let full = self.newest % OCTET == OCTET - 1 && !self.raw[(OCTET - 1) as usize].is_nan();
        full.then_some(self.chain)
    }

    /// The newest octet.
    pub(crate) fn newest_octet(&self) -> &Octet {
        &self.raw
    }

    /// The encoded slots.
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// Appends all held slots to `out`, in time order.
    pub(crate) fn pairs(&self, pool: &Pool, scratch: &mut Scratch, out: &mut Pairs) {
        self.encoded_pairs(pool, scratch, out);
        let octet = self.newest & !(OCTET - 1);
        for (i, value) in self.raw.iter().enumerate() {
            if !value.is_nan() {
                out.push((octet + i as u32, *value));
            }
        }
    }

    /// Replaces all held slots by these, which must be in time order and not before the base.
    pub(crate) fn refill(&mut self, pool: &mut Pool, scratch: &mut Scratch, pairs: &[(u32, f64)]) {
        pool.release(&mut self.chain);
        if let Some((slot, _)) = pairs.last() {
            self.newest = self.newest.max(*slot);
        }
        let mut chain = std::mem::take(&mut scratch.chain);
        chain.clear();
        self.raw = Self::encode(pairs, self.base, self.newest, scratch, &mut chain);
        pool.append(&mut self.chain, &chain);
        scratch.chain = chain;
    }

    /// Reads from both cache lines, in order to load them.
    pub(crate) fn ends(&self) -> u64 {
        self.raw[0].to_bits() ^ u64::from(self.config)
    }

    /// Replaces all held slots by those of a state row.
    pub(crate) fn adopt(&mut self, pool: &mut Pool, chain: &[u8], octet: Octet) {
        pool.release(&mut self.chain);
        pool.append(&mut self.chain, chain);
        self.raw = octet;
    }

    /// Encodes the slots before the newest octet into `chain` and returns the newest octet.
    pub(crate) fn encode(
        pairs: &[(u32, f64)],
        base: u32,
        newest: u32,
        scratch: &mut Scratch,
        chain: &mut Vec<u8>,
    ) -> Octet {
        let mut raw = [f64::NAN; OCTET as usize];
        let octet = newest & !(OCTET - 1);
        let split = pairs.partition_point(|(slot, _)| *slot < octet);
        for (slot, value) in &pairs[split..] {
            raw[(slot % OCTET) as usize] = *value;
        }
        encode_groups(&pairs[..split], base, scratch, chain);
        raw
    }

    /// Appends the slots of an encoded chain to `out`. Returns `None` if the bytes are damaged.
    pub(crate) fn decode(bytes: &[u8], base: u32, values: &mut Vec<f64>, out: &mut Pairs) -> Option<()> {
        let mut rest = bytes;
        while let Some((&n, tail)) = rest.split_first() {
            rest = tail;
            let mut slot = base.checked_add(take_varint(&mut rest)?)?;
            values.clear();
            let used = codec::decode(rest, usize::from(n), values).ok()?;
            rest = rest.get(used..)?;
            for value in values.iter() {
                if !value.is_nan() {
                    out.push((slot, *value));
                }
                slot = slot.checked_add(1)?;
            }
        }
        Some(())
    }

    /// Whether the head holds no slot.
    pub(crate) fn is_empty(&self) -> bool {
        self.chain.is_empty() && self.raw.iter().all(|v| v.is_nan())
    }

    /// Whether a flush in flight, a late point or a future point needs the head.
    pub(crate) fn is_needed(&self) -> bool {
        self.state.is_flushing() || self.state.has_late() || self.is(mark::FUTURE)
    }

    /// Whether the head can be dropped without losing anything: it holds no slot, and nothing needs it.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.is_empty() && !self.is_needed()
    }

    fn encoded_pairs(&self, pool: &Pool, scratch: &mut Scratch, out: &mut Pairs) {
        if self.chain.is_empty() {
            return;
        }
        scratch.bytes.clear();
        pool.read(self.chain, &mut scratch.bytes);
        let decoded = Self::decode(&scratch.bytes, self.base, &mut scratch.values, out);
        debug_assert!(decoded.is_some(), "chains hold what encode wrote");
    }

    /// Appends the newest octet to the chain, because the next point is after it.
    fn seal(&mut self, pool: &mut Pool, scratch: &mut Scratch) {
        let octet = self.newest & !(OCTET - 1);
        let Some(from) = self.raw.iter().position(|v| !v.is_nan()) else { return };
        let until = self.raw.iter().rposition(|v| !v.is_nan()).unwrap_or(from) + 1;
        let start = octet + from as u32;
        scratch.bytes.clear();
        put_group(&mut scratch.bytes, start - self.base, &self.raw[from..until]);
        pool.append(&mut self.chain, &scratch.bytes);
        self.raw = [f64::NAN; OCTET as usize];
    }

    fn apply_encoded(&mut self, pool: &mut Pool, scratch: &mut Scratch, slot: u32, value: f64) -> Applied {
        self.state.on_point(FlushEvent::Change);
        let mut pairs = std::mem::take(&mut scratch.pairs);
        pairs.clear();
        self.pairs(pool, scratch, &mut pairs);
        let applied = match pairs.binary_search_by_key(&slot, |(s, _)| *s) {
            Ok(at) => {
                pairs[at].1 = value;
                Applied::Replaced
            }
            Err(at) => {
                pairs.insert(at, (slot, value));
                Applied::Held
            }
        };
        self.refill(pool, scratch, &pairs);
        scratch.pairs = pairs;
        applied
    }
}

/// Buffers for encoding and decoding, kept to avoid allocations.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    chain: Vec<u8>,
    values: Vec<f64>,
    pairs: Pairs,
}

fn encode_groups(pairs: &[(u32, f64)], base: u32, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let mut rest = pairs;
    while let Some(&(start, _)) = rest.first() {
        scratch.values.clear();
        let mut slot = start;
        let mut taken = 0;
        for &(next, value) in rest {
            let gap = next - slot;
            if gap > GROUP_GAP || (next - start) as usize >= GROUP_SLOTS {
                break;
            }
            scratch.values.extend(std::iter::repeat_n(f64::NAN, gap as usize));
            scratch.values.push(value);
            slot = next + 1;
            taken += 1;
        }
        put_group(out, start - base, &scratch.values);
        rest = &rest[taken..];
    }
}

/// Appends a group: the number of slots, the distance of the first one from the base, and the values.
fn put_group(out: &mut Vec<u8>, offset: u32, values: &[f64]) {
    out.push(values.len() as u8);
    put_varint(out, offset);
    codec::encode(values, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shard::head_state::LateEvent;

    fn head(base: u32) -> Head {
        let mut head = Head::new([0; 4], MetricId([0; 16]), 1, 0, 0, HeadState::default());
        (head.base, head.newest) = (base, base);
        head
    }

    #[test]
    fn a_head_takes_two_cache_lines() {
        assert_eq!(size_of::<Head>(), 128);
    }

    #[test]
    fn a_head_holds_nothing_unless_a_point_needs_it() {
        let (mut pool, mut scratch) = (Pool::default(), Scratch::default());
        let mut head = head(1000);
        assert!(head.holds_nothing());
        head.state.on_flush(FlushEvent::BuildPart);
        assert!(!head.holds_nothing());
        head.state.on_flush(FlushEvent::Commit);
        head.state.on_late(LateEvent::Arrive);
        assert!(!head.holds_nothing());
        head.state.on_late(LateEvent::Store);
        head.set(mark::FUTURE);
        assert!(!head.holds_nothing());
        head.clear(mark::FUTURE);
        assert!(head.holds_nothing());
        for slot in [1000, 1100] {
            // The second point moves the first into the chain.
            head.apply(&mut pool, &mut scratch, slot, 1.0);
            assert!(!head.holds_nothing());
        }
        head.refill(&mut pool, &mut scratch, &[]);
        assert!(head.holds_nothing());
    }

    proptest! {
        /// A head holds the same slots as a map, whatever the order in which points arrive.
        #[test]
        fn a_head_is_a_map_of_slots(points in prop::collection::vec((1000u32..1400, -5i32..5), 1..300)) {
            let (mut pool, mut scratch) = (Pool::default(), Scratch::default());
            let mut head = head(1000);
            let mut model = std::collections::BTreeMap::new();
            for (slot, value) in points {
                let value = f64::from(value) / 2.0;
                let applied = head.apply(&mut pool, &mut scratch, slot, value);
                let replaced = model.insert(slot, value).is_some();
                prop_assert_eq!(applied == Applied::Replaced, replaced);
            }
            let expected: Pairs = model.into_iter().collect();
            let mut pairs = Pairs::new();
            head.pairs(&pool, &mut scratch, &mut pairs);
            prop_assert_eq!(&pairs, &expected);
            head.refill(&mut pool, &mut scratch, &expected);
            pairs.clear();
            head.pairs(&pool, &mut scratch, &mut pairs);
            prop_assert_eq!(&pairs, &expected);
            head.refill(&mut pool, &mut scratch, &[]);
            prop_assert_eq!(pool.used(), 0);
            prop_assert!(head.is_empty());
        }

        #[test]
        fn damaged_chains_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Head::decode(&bytes, 5, &mut Vec::new(), &mut Pairs::new());
        }
    }
}
