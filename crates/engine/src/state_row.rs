//! The state row of a metric: what its head held when a flush was built. Layout in
//! `docs/formats/state-row.md`.

use plumbago_model::Window;

use crate::head::{Head, Pairs, Scratch};

const VERSION: u8 = 1;

/// A head between two runs of the process.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct State {
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
    /// Held slots.
    pub(crate) pairs: Pairs,
}

impl State {
    pub(crate) fn encode(&self, scratch: &mut Scratch) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.open.len() * 12 + self.pairs.len() * 3);
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
        Head::encode(&self.pairs, self.base, scratch, &mut out);
        out
    }

    /// `None` when the bytes are damaged or of another version.
    pub(crate) fn decode(bytes: &[u8], values: &mut Vec<f64>) -> Option<Self> {
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
            ..Self::default()
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
        Head::decode(rest, state.base, values, &mut state.pairs)?;
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
        let state = State {
            number: 7,
            sequence: 1 << 40,
            base: 100,
            newest: 130,
            resolution: 60,
            open: vec![Window { value: 2.5, count: 3 }, Window::default()],
            waiting: vec![(9000, 2.0)],
            pairs: vec![(100, 1.0), (101, -0.0), (129, f64::INFINITY), (130, 1e-300)],
        };
        let bytes = state.encode(&mut Scratch::default());
        assert_eq!(State::decode(&bytes, &mut Vec::new()), Some(state));
        for cut in 0..bytes.len() {
            let _ = State::decode(&bytes[..cut], &mut Vec::new());
        }
        assert_eq!(State::decode(&[9], &mut Vec::new()), None);
    }
}
