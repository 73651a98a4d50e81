//! The state row of a metric: its head after a flush. The format is in `docs/formats/state-row.md`.

use std::borrow::Cow;

use plumbago_model::{Window, codec};

use crate::bytes::take;
use crate::shard::head::{Head, OCTET, Octet, Scratch};

/// Version 1: the open windows are those of the metric's coarse stages, in the same order.
const VERSION: u8 = 1;
/// Version 2: each open window comes with the resolution of its stage. Used for stores that daemons share,
/// and while the settings of a metric change. While settings change, the row has the windows of both the old
/// and the new stages.
const VERSION_RESOLUTIONS: u8 = 2;

/// The decoded contents of a state row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State<'a> {
    /// The metric's number in the journal.
    pub(crate) number: u32,
    /// The row, together with the store, covers the metric's journal records up to this sequence.
    pub(crate) sequence: u64,
    /// Slots before this one are in the store.
    pub(crate) base: u32,
    /// The newest slot that a point was applied to.
    pub(crate) newest: u32,
    /// Resolution of the raw stage in seconds. A head of another resolution cannot use the slots.
    pub(crate) resolution: u32,
    /// Open windows, one for each coarse stage.
    pub(crate) open: Vec<Window>,
    /// The resolution of the stage of each open window; empty in version 1. While the settings change, the old stages
    /// come first.
    pub(crate) resolutions: Vec<u32>,
    /// Future points: timestamp and value, in order of arrival.
    pub(crate) future: Vec<(u32, f64)>,
    /// Number of known slots in the chain and the octet.
    pub(crate) held: u32,
    /// The slots before the newest octet, encoded as in the head.
    pub(crate) chain: Cow<'a, [u8]>,
    /// The newest octet.
    pub(crate) octet: Octet,
}

impl<'a> State<'a> {
    /// Sets the held slots, which must be in time order and not before the base.
    pub(crate) fn hold(&mut self, pairs: &[(u32, f64)], scratch: &mut Scratch) {
        self.held = pairs.len() as u32;
        let mut chain = Vec::with_capacity(16 + 9 * pairs.len());
        self.octet = Head::encode(pairs, self.base, self.newest, scratch, &mut chain);
        self.chain = Cow::Owned(chain);
    }

    /// The same state with these open windows.
    pub(crate) fn with_open(&self, open: &[Window]) -> Self {
        Self { open: open.to_vec(), ..self.clone() }
    }

    /// The open window of coarse stage `k` + 1, whose resolution is given.
    pub(crate) fn open_of(&self, k: usize, resolution: u32) -> Option<Window> {
        let at = match self.resolutions.is_empty() {
            true => Some(k),
            false => self.resolutions.iter().position(|known| *known == resolution),
        };
        self.open.get(at?).copied()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(128 + self.open.len() * 12 + self.future.len() * 12 + self.chain.len());
        let has_resolutions = !self.resolutions.is_empty();
        out.push(if has_resolutions { VERSION_RESOLUTIONS } else { VERSION });
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.newest.to_le_bytes());
        out.extend_from_slice(&self.resolution.to_le_bytes());
        out.push(self.open.len() as u8);
        self.resolutions.iter().for_each(|resolution| out.extend_from_slice(&resolution.to_le_bytes()));
        for window in &self.open {
            out.extend_from_slice(&window.count.to_le_bytes());
            if window.count > 0 {
                out.extend_from_slice(&window.value.to_le_bytes());
            }
        }
        out.extend_from_slice(&(self.future.len() as u32).to_le_bytes());
        for (timestamp, value) in &self.future {
            out.extend_from_slice(&timestamp.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.held.to_le_bytes());
        codec::encode(&self.octet, &mut out);
        out.extend_from_slice(&self.chain);
        out
    }

    /// The metric's number. It may be readable even if the rest is damaged.
    pub(crate) fn number_of(bytes: &[u8]) -> Option<u32> {
        bytes.first().filter(|version| [VERSION, VERSION_RESOLUTIONS].contains(version))?;
        bytes.get(1..5)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Decodes a state row. Returns `None` if the bytes are damaged or have another version.
    pub(crate) fn decode(bytes: &'a [u8], values: &mut Vec<f64>) -> Option<Self> {
        let mut rest = bytes;
        let [version] = take::<1>(&mut rest)?;
        if ![VERSION, VERSION_RESOLUTIONS].contains(&version) {
            return None;
        }
        let mut state = Self {
            number: u32::from_le_bytes(take(&mut rest)?),
            sequence: u64::from_le_bytes(take(&mut rest)?),
            base: u32::from_le_bytes(take(&mut rest)?),
            newest: u32::from_le_bytes(take(&mut rest)?),
            resolution: u32::from_le_bytes(take(&mut rest)?),
            open: Vec::new(),
            resolutions: Vec::new(),
            future: Vec::new(),
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [f64::NAN; OCTET as usize],
        };
        let [windows] = take::<1>(&mut rest)?;
        for _ in 0..if version == VERSION_RESOLUTIONS { windows } else { 0 } {
            state.resolutions.push(u32::from_le_bytes(take(&mut rest)?));
        }
        for _ in 0..windows {
            let count = u32::from_le_bytes(take(&mut rest)?);
            let value = if count > 0 { f64::from_le_bytes(take(&mut rest)?) } else { 0.0 };
            state.open.push(Window { value, count });
        }
        for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
            state.future.push((u32::from_le_bytes(take(&mut rest)?), f64::from_le_bytes(take(&mut rest)?)));
        }
        state.held = u32::from_le_bytes(take(&mut rest)?);
        values.clear();
        let used = codec::decode(rest, OCTET as usize, values).ok()?;
        state.octet = values.as_slice().try_into().ok()?;
        state.chain = Cow::Borrowed(rest.get(used..)?);
        Some(state)
    }
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
            resolutions: Vec::new(),
            future: vec![(9000, 2.0)],
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
        let change = State { resolutions: vec![600, 3600], ..state.clone() };
        let bytes = change.encode();
        let read = State::decode(&bytes, &mut Vec::new()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{change:?}"));
        assert_eq!(State::number_of(&bytes), Some(7));
        assert_eq!(read.open_of(5, 600), Some(Window { value: 2.5, count: 3 }));
        assert_eq!(read.open_of(0, 60), None);
    }
}
