//! The state row of a metric: what its head held when a flush was built. Layout in
//! `docs/formats/state-row.md`.

use std::borrow::Cow;

use plumbago_model::{Window, codec};

use crate::head::{Head, OCTET, Octet, Scratch};

const VERSION: u8 = 1;

/// A head between two runs of the process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State<'a> {
    /// The metric's number in the journal.
    pub(crate) number: u32,
    /// Journal records up to this one are in here or in the store.
    pub(crate) sequence: u64,
    /// Slots below are in the store.
    pub(crate) base: u32,
    /// The newest slot a point was applied to.
    pub(crate) newest: u32,
    /// Resolution of the raw stage; a head of another resolution cannot take the slots.
    pub(crate) resolution: u32,
    /// Open windows, one for each coarse stage.
    pub(crate) open: Vec<Window>,
    /// Points ahead of their time: timestamp and value.
    pub(crate) waiting: Vec<(u32, f64)>,
    /// Known slots in chain and octet.
    pub(crate) held: u32,
    /// The slots before the newest octet, in groups, as the head keeps them.
    pub(crate) chain: Cow<'a, [u8]>,
    /// The newest octet.
    pub(crate) octet: Octet,
}

impl<'a> State<'a> {
    /// Takes these slots (in time order, none below the base).
    pub(crate) fn hold(&mut self, pairs: &[(u32, f64)], scratch: &mut Scratch) {
        self.held = pairs.len() as u32;
        let mut chain = Vec::with_capacity(16 + 9 * pairs.len());
        self.octet = Head::encode(pairs, self.base, self.newest, scratch, &mut chain);
        self.chain = Cow::Owned(chain);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(128 + self.open.len() * 12 + self.waiting.len() * 12 + self.chain.len());
        out.push(VERSION);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.newest.to_le_bytes());
        out.extend_from_slice(&self.resolution.to_le_bytes());
        out.push(self.open.len() as u8);
        for window in &self.open {
            out.extend_from_slice(&window.count.to_le_bytes());
            if window.count > 0 {
                out.extend_from_slice(&window.value.to_le_bytes());
            }
        }
        out.extend_from_slice(&(self.waiting.len() as u32).to_le_bytes());
        for (timestamp, value) in &self.waiting {
            out.extend_from_slice(&timestamp.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.held.to_le_bytes());
        codec::encode(&self.octet, &mut out);
        out.extend_from_slice(&self.chain);
        out
    }

    /// The number alone.
    pub(crate) fn number_of(bytes: &[u8]) -> Option<u32> {
        bytes.get(1..5)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// `None` when the bytes are damaged or of another version.
    pub(crate) fn decode(bytes: &'a [u8], values: &mut Vec<f64>) -> Option<Self> {
        let mut rest = bytes;
        if take::<1>(&mut rest)? != [VERSION] {
            return None;
        }
        let mut state = Self {
            number: u32::from_le_bytes(take(&mut rest)?),
            sequence: u64::from_le_bytes(take(&mut rest)?),
            base: u32::from_le_bytes(take(&mut rest)?),
            newest: u32::from_le_bytes(take(&mut rest)?),
            resolution: u32::from_le_bytes(take(&mut rest)?),
            open: Vec::new(),
            waiting: Vec::new(),
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [f64::NAN; OCTET as usize],
        };
        let [windows] = take::<1>(&mut rest)?;
        for _ in 0..windows {
            let count = u32::from_le_bytes(take(&mut rest)?);
            let value = if count > 0 { f64::from_le_bytes(take(&mut rest)?) } else { 0.0 };
            state.open.push(Window { value, count });
        }
        for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
            state.waiting.push((u32::from_le_bytes(take(&mut rest)?), f64::from_le_bytes(take(&mut rest)?)));
        }
        state.held = u32::from_le_bytes(take(&mut rest)?);
        values.clear();
        let used = codec::decode(rest, OCTET as usize, values).ok()?;
        state.octet = values.as_slice().try_into().ok()?;
        state.chain = Cow::Borrowed(rest.get(used..)?);
        Some(state)
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>()?;
    *bytes = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_round_trip() {
        let mut state = State {
            number: 7,
            sequence: 1 << 40,
            base: 100,
            newest: 130,
            resolution: 60,
            open: vec![Window { value: 2.5, count: 3 }, Window::default()],
            waiting: vec![(9000, 2.0)],
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [1.0; OCTET as usize],
        };
        let pairs = [(100, 1.0), (101, -0.0), (129, f64::INFINITY), (130, 1e-300)];
        state.hold(&pairs, &mut Scratch::default());
        let bytes = state.encode();
        let read = State::decode(&bytes, &mut Vec::new()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{state:?}"));
        let mut slots = Vec::new();
        Head::decode(&read.chain, read.base, &mut Vec::new(), &mut slots).unwrap();
        assert_eq!(slots, pairs[..2]);
        for cut in 0..bytes.len() {
            let _ = State::decode(&bytes[..cut], &mut Vec::new());
        }
        assert!(State::decode(&[9], &mut Vec::new()).is_none());
    }
}
