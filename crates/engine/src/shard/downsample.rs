//! The downsampler: folds raw slots into the windows of all coarser stages, in slot order. Every stage is
//! folded from stage 0, and not from the previous stage.

use std::sync::Arc;

use plumbago_model::{MetricConfig, MetricId, Stage, Window};
use plumbago_store::{Run, SlotRange};

/// The settings of a metric, and values derived from them for the hot path.
#[derive(Debug, Clone)]
pub(crate) struct MetricLayout {
    /// The settings of the metric.
    pub(crate) config: Arc<MetricConfig>,
    /// The raw stage.
    pub(crate) raw: Stage,
    /// Number of raw slots in a window of each coarse stage.
    pub(crate) per: Vec<u32>,
    /// Seconds per slot of each coarse stage.
    pub(crate) coarse_resolutions: Vec<u32>,
}

impl MetricLayout {
    pub(crate) fn new(config: Arc<MetricConfig>) -> Self {
        let raw = config.retention.finest();
        let coarse = config.retention.stages()[1..].iter().map(|stage| stage.resolution);
        let coarse_resolutions: Vec<u32> = coarse.collect();
        let per = coarse_resolutions.iter().map(|resolution| resolution / raw.resolution).collect();
        Self { config, raw, per, coarse_resolutions }
    }

    /// The stage with this index; 0 is raw.
    pub(crate) fn stage(&self, index: usize) -> Stage {
        self.config.retention.stages()[index]
    }

    /// Number of coarse stages.
    pub(crate) fn coarse(&self) -> usize {
        self.per.len()
    }

    /// The stage that a stage is folded from; see
    /// [`Retention::source_of`](plumbago_model::Retention::source_of).
    pub(crate) fn source(&self, stage: usize) -> usize {
        self.config.retention.source_of(stage)
    }

    /// Number of slots of stage `from` in one window of stage `of`.
    pub(crate) fn ratio(&self, of: usize, from: usize) -> u32 {
        self.stage(of).resolution / self.stage(from).resolution
    }

    /// The range `from..until` of a stage, for a read.
    pub(crate) fn range(&self, id: MetricId, stage: usize, from: u32, until: u32) -> SlotRange {
        SlotRange {
            id,
            stage: self.stage(stage),
            stage_index: stage as u8,
            aggregation: self.config.aggregation,
            from,
            until,
        }
    }

    /// A run of a stage that begins with the slot `first_slot` and has no values yet.
    pub(crate) fn run(&self, id: MetricId, stage: usize, first_slot: u32) -> Run {
        Run {
            id,
            stage: self.stage(stage),
            stage_index: stage as u8,
            aggregation: self.config.aggregation,
            first_slot,
            len: 0,
            at: 0,
            whole: false,
        }
    }
}

/// A window that is complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Closed {
    /// The stage index; 1 is the first coarse stage.
    pub(crate) stage: usize,
    /// The number of the window (timestamp ÷ resolution of the stage).
    pub(crate) window: u32,
    /// The folded value and its count.
    pub(crate) value: Window,
}

/// Folds the slots `base..until` into the open windows and appends the windows that become complete to
/// `closed`. Before the call, `open` holds for each coarse stage the window of slot `base`; after the call,
/// that of slot `until`. `pairs` are the known slots of the range.
pub(crate) fn fold(
    layout: &MetricLayout,
    base: u32,
    until: u32,
    open: &mut [Window],
    pairs: &[(u32, f64)],
    closed: &mut Vec<Closed>,
) {
    let method = layout.config.aggregation;
    for (k, per) in layout.per.iter().enumerate() {
        let mut window = base / per;
        let mut value = open[k];
        let mut end = (window + 1) * per;
        for &(slot, v) in pairs {
            if slot >= end {
                if value.count > 0 {
                    closed.push(Closed { stage: k + 1, window, value });
                }
                window = slot / per;
                end = (window + 1) * per;
                value = Window::default();
            }
            method.fold(&mut value, v);
        }
        if until / per != window {
            if value.count > 0 {
                closed.push(Closed { stage: k + 1, window, value });
            }
            value = Window::default();
        }
        open[k] = value;
    }
}

/// The windows that end within `base..until` and may have a value: the window of slot `base`, whose first
/// slots may be in the store, and every window with a pair. Used for methods that need all slots of a window
/// at once.
pub(crate) fn windows_ended(per: u32, base: u32, until: u32, pairs: &[(u32, f64)]) -> Vec<u32> {
    let mut windows = vec![base / per];
    for (slot, _) in pairs {
        if windows.last() != Some(&(slot / per)) {
            windows.push(slot / per);
        }
    }
    windows.retain(|w| *w < until / per);
    windows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(method: &str) -> MetricLayout {
        MetricLayout::new(Arc::new(MetricConfig {
            retention: "1s:100,5s:100,20s:100".parse().unwrap(),
            aggregation: method.parse().unwrap(),
            x_files_factor: 0.0,
        }))
    }

    proptest! {
        /// Folding a range part by part gives the same windows as folding it at once.
        #[test]
        fn cuts_do_not_matter(values in prop::collection::vec(prop::option::of(-1000i32..1000), 1..120), cuts in prop::collection::vec(1usize..20, 1..30)) {
            for method in ["average", "sum", "min", "max", "last", "count", "absmax"] {
                let layout = layout(method);
                let pairs: Vec<(u32, f64)> = values.iter().enumerate()
                    .filter_map(|(i, v)| v.map(|v| (7 + i as u32, f64::from(v) * 0.1))).collect();
                let mut open = [Window::default(); 2];
                let mut closed = Vec::new();
                let mut base = 7;
                for cut in &cuts {
                    let until = base + *cut as u32;
                    let part: Vec<_> = pairs.iter().copied().filter(|(s, _)| (base..until).contains(s)).collect();
                    fold(&layout, base, until, &mut open, &part, &mut closed);
                    base = until;
                }
                for got in &closed {
                    let per = layout.per[got.stage - 1];
                    let slots = pairs.iter().filter(|(s, _)| s / per == got.window && *s < base).map(|(_, v)| *v);
                    prop_assert_eq!(got.value, layout.config.aggregation.fold_all(slots));
                }
                for (k, per) in layout.per.iter().enumerate() {
                    let expected = (7 / per..base / per).filter(|w| pairs.iter().any(|(s, _)| s / per == *w && *s < base)).count();
                    prop_assert_eq!(closed.iter().filter(|c| c.stage == k + 1).count(), expected);
                }
            }
        }
    }
}
