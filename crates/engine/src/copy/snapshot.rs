//! The content of a metric as a history with values and counts: its rows, and what is only in memory. No I/O.

use std::collections::BTreeMap;

use plumbago_model::Window;
use plumbago_store::HistoryStage;

use crate::shard::downsample::{Closed, MetricLayout, fold};
use crate::shard::import::ImportHead;

/// The known slots of a stage.
pub(crate) type Slots = BTreeMap<u32, Window>;

/// The history of a metric. `stored` contains the known slots of each stage from the store. For a slot that
/// is also in the head, the head's value is used.
pub(crate) fn history(head: &ImportHead, stored: Vec<Vec<(u32, Window)>>) -> Vec<HistoryStage> {
    let mut stages: Vec<Slots> = stored.into_iter().map(|slots| slots.into_iter().collect()).collect();
    stages.resize_with(head.layout.coarse() + 1, Slots::new);
    for (slot, value) in &head.pairs {
        stages[0].insert(*slot, Window { value: *value, count: 1 });
    }
    match is_placed(head) && !head.layout.config.aggregation.needs_all_slots() {
        true => add_windows(head, &mut stages),
        false => fold_rest(head, &mut stages),
    }
    as_stages(&head.layout, stages)
}

/// The history of a metric from its tables alone, for a store that another process may be writing. If the raw
/// slots of a window have more points than its row, as is the case for an open window, the window is folded
/// from them.
pub(crate) fn of_tables(layout: &MetricLayout, stored: Vec<Vec<(u32, Window)>>) -> Vec<HistoryStage> {
    let mut stages: Vec<Slots> = stored.into_iter().map(|slots| slots.into_iter().collect()).collect();
    stages.resize_with(layout.coarse() + 1, Slots::new);
    if let Some((raw, coarse)) = stages.split_first_mut() {
        let raw: Vec<(u32, f64)> = raw.iter().map(|(slot, window)| (*slot, window.value)).collect();
        for (slots, per) in coarse.iter_mut().zip(&layout.per) {
            for part in raw.chunk_by(|a, b| a.0 / per == b.0 / per) {
                let folded = layout.config.aggregation.fold_all(part.iter().map(|(_, value)| *value));
                let known = slots.entry(part[0].0 / per).or_default();
                if folded.count > known.count {
                    *known = folded;
                }
            }
        }
    }
    as_stages(layout, stages)
}

/// Whether the head has a base. If not, the store has all points of the metric.
fn is_placed(head: &ImportHead) -> bool {
    head.base > 0 && !head.is_refolded
}

/// Adds the windows that are not in the store: the open ones, including the slots that the head holds.
fn add_windows(head: &ImportHead, stages: &mut [Slots]) {
    let layout = &head.layout;
    let mut open = head.open.clone();
    open.resize(layout.coarse(), Window::default());
    let until = head.pairs.last().map_or(head.base, |(slot, _)| slot + 1).max(head.base);
    let mut closed = Vec::new();
    fold(layout, head.base, until, &mut open, &head.pairs, &mut closed);
    let still_open = open.iter().zip(&layout.per).enumerate();
    closed.extend(still_open.filter(|(_, (value, _))| value.count > 0).map(|(k, (value, per))| Closed {
        stage: k + 1,
        window: until / per,
        value: *value,
    }));
    for Closed { stage, window, value } in closed {
        stages[stage].insert(window, value);
    }
}

/// Folds the windows that the store does not have yet from all of their raw slots. Needed if the head has no
/// open windows to continue from.
fn fold_rest(head: &ImportHead, stages: &mut [Slots]) {
    let layout = &head.layout;
    let Some((raw, coarse)) = stages.split_first_mut() else { return };
    for (slots, per) in coarse.iter_mut().zip(&layout.per) {
        let from = match is_placed(head) {
            true => head.base / per * per,
            false => slots.last_key_value().map_or(0, |(last, _)| (last + 1) * per),
        };
        let mut parts: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (slot, window) in raw.range(from..) {
            parts.entry(slot / per).or_default().push(window.value);
        }
        for (slot, values) in parts {
            slots.insert(slot, layout.config.aggregation.fold_all(values.into_iter()));
        }
    }
}

fn as_stages(layout: &MetricLayout, stages: Vec<Slots>) -> Vec<HistoryStage> {
    let stage = |(stage, slots): (usize, Slots)| {
        let resolution = layout.stage(stage).resolution;
        let counts =
            if stage == 0 { Vec::new() } else { slots.values().map(|window| window.count).collect() };
        let points = slots.into_iter().map(|(slot, window)| (slot.saturating_mul(resolution), window.value));
        HistoryStage { resolution, points: points.collect(), counts }
    };
    stages.into_iter().enumerate().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use plumbago_model::{MetricConfig, MetricId};

    use super::*;
    use crate::shard::state_row::State;

    fn head(method: &str, base: u32, pairs: &[(u32, f64)], open: &[(f64, u32)]) -> ImportHead {
        let config = MetricConfig {
            retention: "10s:100s,60s:600s".parse().unwrap(),
            aggregation: method.parse().unwrap(),
            x_files_factor: 0.0,
        };
        let state = State {
            number: 0,
            sequence: 0,
            base,
            newest: base,
            resolution: 10,
            open: Vec::new(),
            resolutions: Vec::new(),
            future: Vec::new(),
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [f64::NAN; 8],
        };
        ImportHead {
            at: 0,
            id: MetricId::of("a"),
            layout: Arc::new(MetricLayout::new(Arc::new(config))),
            base,
            pairs: pairs.to_vec(),
            open: open.iter().map(|(value, count)| Window { value: *value, count: *count }).collect(),
            open_at: base,
            state,
            dropped: 0,
            is_refolded: false,
        }
    }

    fn one(value: f64) -> Window {
        Window { value, count: 1 }
    }

    #[test]
    fn open_windows_go_on_with_the_slots_of_the_head() {
        // Slots 600 and 601 are in the store and in the open window; 603 and 607 in the head.
        let head = head("sum", 602, &[(603, 4.0), (607, 8.0)], &[(3.0, 2)]);
        let stored =
            vec![vec![(600, one(1.0)), (601, one(2.0))], vec![(99, Window { value: 9.0, count: 5 })]];
        let stages = history(&head, stored);
        assert_eq!(stages[0].points, [(6000, 1.0), (6010, 2.0), (6030, 4.0), (6070, 8.0)]);
        assert_eq!(stages[1].points, [(5940, 9.0), (6000, 7.0), (6060, 8.0)]);
        assert!(stages[0].counts.is_empty());
        assert_eq!(stages[1].counts, [5, 3, 1]);
    }

    #[test]
    fn without_a_head_the_newest_windows_are_folded_from_raw_slots() {
        let head = head("max", 0, &[], &[]);
        let stored = vec![
            vec![(595, one(1.0)), (600, one(5.0)), (601, one(2.0))],
            vec![(99, Window { value: 9.0, count: 6 })],
        ];
        let stages = history(&head, stored);
        assert_eq!(stages[1].points, [(5940, 9.0), (6000, 5.0)]);
        assert_eq!(stages[1].counts, [6, 2]);
    }

    #[test]
    fn percentiles_are_folded_from_all_slots() {
        let head = head("median", 602, &[(602, 4.0), (606, 8.0)], &[(0.0, 0)]);
        let stored = vec![vec![(599, one(9.0)), (600, one(1.0)), (601, one(2.0))], vec![(99, one(9.0))]];
        let stages = history(&head, stored);
        assert_eq!(stages[1].counts, [1, 3, 1]);
        assert_eq!(stages[1].points, [(5940, 9.0), (6000, 2.0), (6060, 8.0)]);
    }

    #[test]
    fn rows_of_windows_that_lack_raw_slots_are_folded_anew() {
        let layout = head("sum", 0, &[], &[]).layout;
        // Window 99: all raw slots but the last one have expired. Window 100: complete. Window 101: its row
        // was folded from fewer slots than the raw stage has. Window 102: no row.
        let raw = [(599, 1.0), (600, 2.0), (601, 3.0), (606, 4.0), (607, 5.0), (612, 6.0)];
        let window = |value: f64, count: u32| Window { value, count };
        let stored = vec![
            raw.map(|(slot, value)| (slot, one(value))).to_vec(),
            vec![(98, window(7.0, 3)), (99, window(9.0, 6)), (100, window(5.0, 2)), (101, window(4.0, 1))],
        ];
        let stages = of_tables(&layout, stored);
        assert_eq!(stages[0].points.len(), 6);
        assert_eq!(stages[1].points, [(5880, 7.0), (5940, 9.0), (6000, 5.0), (6060, 9.0), (6120, 6.0)]);
        assert_eq!(stages[1].counts, [3, 6, 2, 2, 1]);
    }
}
