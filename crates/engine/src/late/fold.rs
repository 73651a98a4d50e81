//! A fold that is computed piece by piece, in the order of time. Its result equals that of folding all slots at once,
//! bit for bit.

use plumbago_model::{Aggregation, Window};

/// The state of a fold between two pieces.
#[derive(Debug)]
pub(crate) enum Fold {
    /// Raw slots, as folded so far.
    Slots(Window),
    /// Windows of a finer stage, as merged so far.
    Windows(Window),
    /// The raw slots so far: a percentile needs all of them at once.
    AllSlots(Vec<f64>),
    /// The windows of a finer stage so far: a percentile needs all of them at once.
    AllWindows(Vec<Window>),
}

impl Fold {
    /// An empty fold of slots of stage `source`.
    pub(crate) fn new(method: Aggregation, source: usize) -> Self {
        match (method.needs_all_slots(), source) {
            (false, 0) => Self::Slots(Window::default()),
            (false, _) => Self::Windows(Window::default()),
            (true, 0) => Self::AllSlots(Vec::new()),
            (true, _) => Self::AllWindows(Vec::new()),
        }
    }

    /// Adds the next slot. A slot with count 0 is unknown and changes nothing.
    pub(crate) fn add(&mut self, method: Aggregation, slot: Window) {
        if slot.count == 0 {
            return;
        }
        match self {
            Self::Slots(window) => method.fold(window, slot.value),
            Self::Windows(window) => method.fold_window(window, slot),
            Self::AllSlots(values) => values.push(slot.value),
            Self::AllWindows(windows) => windows.push(slot),
        }
    }

    /// Ends the fold and leaves an empty one, which keeps no memory.
    pub(crate) fn end(&mut self, method: Aggregation) -> Window {
        match self {
            Self::Slots(window) | Self::Windows(window) => std::mem::take(window),
            Self::AllSlots(values) => method.fold_all(std::mem::take(values).into_iter()),
            Self::AllWindows(windows) => method.merge_all(std::mem::take(windows).into_iter()),
        }
    }

    /// The largest number of bytes that the fold of this many slots of stage `source` keeps between two
    /// pieces.
    pub(crate) fn bytes(method: Aggregation, source: usize, slots: u32) -> usize {
        let each = match (method.needs_all_slots(), source) {
            (false, _) => 0,
            (true, 0) => size_of::<f64>(),
            (true, _) => size_of::<Window>(),
        };
        slots as usize * each
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(slots: &[Option<(i32, u32)>]) -> Vec<Window> {
        let window = |slot: &Option<(i32, u32)>| match slot {
            Some((value, count)) => Window { value: f64::from(*value) * 0.1, count: *count },
            None => Window::default(),
        };
        slots.iter().map(window).collect()
    }

    proptest! {
        #[test]
        fn a_fold_in_pieces_equals_the_fold_at_once(
            slots in prop::collection::vec(prop::option::of((-1000i32..1000, 1u32..50)), 0..200),
            cuts in prop::collection::vec(1usize..40, 1..20),
        ) {
            let windows = known(&slots);
            for method in ["average", "sum", "min", "max", "last", "count", "avg_zero", "absmax", "absmin", "median", "p1", "p999"] {
                let method: Aggregation = method.parse().unwrap();
                let (mut raw, mut coarse) = (Fold::new(method, 0), Fold::new(method, 2));
                let mut rest = windows.as_slice();
                for cut in cuts.iter().cycle() {
                    let (piece, left) = rest.split_at((*cut).min(rest.len()));
                    piece.iter().for_each(|slot| {
                        raw.add(method, Window { count: slot.count.min(1), ..*slot });
                        coarse.add(method, *slot);
                    });
                    rest = left;
                    if rest.is_empty() {
                        break;
                    }
                }
                let values = windows.iter().map(|w| if w.count == 0 { f64::NAN } else { w.value });
                prop_assert_eq!(raw.end(method), method.fold_all(values));
                prop_assert_eq!(coarse.end(method), method.merge_all(windows.iter().copied().filter(|w| w.count > 0)));
                prop_assert_eq!(raw.end(method).count, 0);
            }
        }
    }
}
