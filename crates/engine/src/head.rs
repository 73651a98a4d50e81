//! The head of a metric: its slots that no committed flush holds yet.
//!
//! Slots live in octets (8 slots from a multiple of 8). The newest octet is raw; older ones are
//! encoded in a chain of cells. Two cache lines a metric, and most points touch the first only.

use plumbago_model::{MetricId, codec};

use crate::pool::{Chain, Pool};

/// Slots that stay raw.
pub(crate) const OCTET: u32 = 8;
/// The raw slots, NaN for unknown.
pub(crate) type Octet = [f64; OCTET as usize];
/// Longest encoded group when a chain is written anew.
const GROUP_SLOTS: usize = 96;
/// Unknown slots that a group bridges rather than ends at.
const GROUP_GAP: u32 = 8;

/// Facts about a head, one bit each.
pub(crate) mod flag {
    /// Its metadata is in the store and the index.
    pub(crate) const CREATED: u16 = 1;
    /// A flush of it has been built and is not acknowledged.
    pub(crate) const IN_FLIGHT: u16 = 2;
    /// A slot that is in flight has changed.
    pub(crate) const TOUCHED: u16 = 4;
    /// A point arrived since the flush was built.
    pub(crate) const SINCE: u16 = 8;
    /// It stands in the list of due flushes.
    pub(crate) const DUE: u16 = 16;
    /// The store may hold slots of the block that the head starts in.
    pub(crate) const MERGE: u16 = 32;
    /// The flush in flight takes every slot.
    pub(crate) const ALL: u16 = 64;
    /// A late point is changing its open windows in the store.
    pub(crate) const STALE: u16 = 128;
    /// No point was ever applied, so its base is not chosen yet.
    pub(crate) const NEW: u16 = 256;
    /// Points may wait for their time.
    pub(crate) const WAITS: u16 = 512;
    /// A held slot has changed that the store was handed already.
    pub(crate) const REWRITE: u16 = 1024;
    /// Its metric was forgotten, and no other has it yet.
    pub(crate) const VACANT: u16 = 2048;
    /// A flush of it waits for late points that are on their way; those that come now wait for the flush.
    pub(crate) const HOLDS_LATE: u16 = 4096;
}

/// Slots and their values, in time order.
pub(crate) type Pairs = Vec<(u32, f64)>;

/// What became of a point given to a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It filled an unknown slot of the newest octet.
    Held,
    /// It replaced a slot.
    Replaced,
    /// It started a new octet: time to look whether the head is due.
    Advanced,
    /// Older than the head: its slot is in the store.
    Late,
}

/// One metric in memory: 128 bytes and its chain.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Head {
    raw: Octet,
    /// Hash of the name, the key of the registry.
    pub(crate) hash: [u32; 4],
    /// The metric's id.
    pub(crate) id: MetricId,
    /// The newest slot that a point was applied to.
    pub(crate) newest: u32,
    /// Slots below are in the store; the head holds the others.
    pub(crate) base: u32,
    chain: Chain,
    /// The metric's number in the journal.
    pub(crate) number: u32,
    /// The oldest journal segment with a point that only the journal holds; 0 for none.
    pub(crate) segment: u32,
    /// Its first open window in the shard's list.
    pub(crate) windows: u32,
    /// Its configuration in the shard's list.
    pub(crate) config: u16,
    pub(crate) flags: u16,
}

impl Head {
    pub(crate) fn new(
        hash: [u32; 4],
        id: MetricId,
        number: u32,
        windows: u32,
        config: u16,
        flags: u16,
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
            flags: flags | flag::NEW,
        }
    }

    pub(crate) fn is(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    pub(crate) fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    pub(crate) fn clear(&mut self, flags: u16) {
        self.flags &= !flags;
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
        self.set(flag::SINCE);
        if slot >= octet + OCTET {
            self.seal(pool, scratch);
            self.newest = slot;
            self.raw[(slot % OCTET) as usize] = value;
            // A whole flush may reach past the newest slot, and this one is in no row of it.
            if self.is(flag::ALL) {
                self.set(flag::TOUCHED);
            }
            return Applied::Advanced;
        }
        self.newest = self.newest.max(slot);
        let cell = &mut self.raw[(slot % OCTET) as usize];
        let known = !cell.is_nan();
        *cell = value;
        if known {
            if self.is(flag::ALL) {
                self.set(flag::TOUCHED);
            }
            return Applied::Replaced;
        }
        if self.is(flag::ALL) {
            self.set(flag::TOUCHED);
        }
        Applied::Held
    }

    /// The chain that the next point in order will append to; touches both cache lines.
    #[inline]
    pub(crate) fn about_to_seal(&self) -> Option<Chain> {
        let full = self.newest % OCTET == OCTET - 1 && !self.raw[(OCTET - 1) as usize].is_nan();
        full.then_some(self.chain)
    }

    /// Its encoded slots.
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// All held slots, in time order, appended to `out`.
    pub(crate) fn pairs(&self, pool: &Pool, scratch: &mut Scratch, out: &mut Pairs) {
        self.encoded_pairs(pool, scratch, out);
        let octet = self.newest & !(OCTET - 1);
        for (i, value) in self.raw.iter().enumerate() {
            if !value.is_nan() {
                out.push((octet + i as u32, *value));
            }
        }
    }

    /// Holds exactly these slots (in time order, none below the base) from now on.
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

    /// Something of its first and of its last cache line.
    pub(crate) fn ends(&self) -> u64 {
        self.raw[0].to_bits() ^ u64::from(self.flags)
    }

    /// Takes the slots of a state row as they are.
    pub(crate) fn adopt(&mut self, pool: &mut Pool, chain: &[u8], octet: Octet) {
        pool.release(&mut self.chain);
        pool.append(&mut self.chain, chain);
        self.raw = octet;
    }

    /// The slots before the newest octet as a chain, and the octet.
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

    /// The reverse of [`Head::encode`]; `None` when the bytes are damaged.
    pub(crate) fn decode(bytes: &[u8], base: u32, values: &mut Vec<f64>, out: &mut Pairs) -> Option<()> {
        let mut rest = bytes;
        while let Some((&n, tail)) = rest.split_first() {
            rest = tail;
            let mut slot = base.checked_add(read_varint(&mut rest)?)?;
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

    /// True when it holds no slot.
    pub(crate) fn is_empty(&self) -> bool {
        self.chain.is_empty() && self.raw.iter().all(|v| v.is_nan())
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

    /// Encodes the newest octet, which a later point is about to leave behind.
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
        self.set(flag::SINCE);
        if self.is(flag::IN_FLIGHT) {
            self.set(flag::TOUCHED);
        }
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

/// Room for decoding, one per shard.
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

/// A group: how many slots, where they start (from the base), their values.
fn put_group(out: &mut Vec<u8>, offset: u32, values: &[f64]) {
    out.push(values.len() as u8);
    put_varint(out, offset);
    codec::encode(values, out);
}

fn put_varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u32;
    for shift in (0..35).step_by(7) {
        let (&byte, tail) = bytes.split_first()?;
        *bytes = tail;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(base: u32) -> Head {
        let mut head = Head::new([0; 4], MetricId([0; 16]), 1, 0, 0, 0);
        (head.base, head.newest) = (base, base);
        head
    }

    #[test]
    fn a_head_takes_two_cache_lines() {
        assert_eq!(size_of::<Head>(), 128);
    }

    proptest! {
        /// Whatever the order, a head holds what a map holds, and a chain survives its round trip.
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
