//! Maps the stages of a history to those of the metric.

use plumbago_model::{Aggregation, MetricConfig, Window};
use plumbago_store::HistoryStage;

use crate::shard::downsample::MetricLayout;

/// A slot of a history.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cell {
    pub(crate) slot: u32,
    /// The value and its count. In stage 0 the count is 1.
    pub(crate) window: Window,
    /// Whether readers of the history saw the slot, so that xFilesFactor must not hide it.
    pub(crate) is_shown: bool,
    /// Whether value and count are exactly those that the history has stored.
    pub(crate) is_exact: bool,
}

/// The slots of a history, arranged by the stages of the metric.
#[derive(Debug, Default)]
pub(crate) struct Arranged {
    /// For each stage its slots, in the order of time.
    pub(crate) stages: Vec<Vec<Cell>>,
    /// The number of points for which the metric has no stage.
    pub(crate) left_out: u64,
}

/// Puts the slots of each stage into the metric's stage of the same resolution. If the history lacks a stage,
/// its slots are folded from the history's finest stage whose resolution divides theirs. Slots that are older
/// than the retention at `now` (seconds since the epoch) are left out.
pub(crate) fn arrange(layout: &MetricLayout, history: &[HistoryStage], now: i64) -> Arranged {
    let config = &layout.config;
    let mut arranged = Arranged::default();
    let mut is_used = vec![false; history.len()];
    for (index, stage) in config.retention.stages().iter().enumerate() {
        let oldest = (now - stage.duration() as i64).max(0);
        let is_kept = |time: u32| i64::from(time) + i64::from(stage.resolution) > oldest;
        let same = history.iter().position(|from| from.resolution == stage.resolution);
        let fits = |from: &HistoryStage| {
            from.resolution < stage.resolution && stage.resolution.is_multiple_of(from.resolution)
        };
        let cells = match same.or_else(|| history.iter().position(fits)) {
            None => Vec::new(),
            Some(at) => {
                is_used[at] = true;
                let from = &history[at];
                let points = from.points.iter().copied().filter(|(time, _)| is_kept(*time));
                let windows = windows(from).filter(|(time, _)| is_kept(*time));
                let is_exact = !from.counts.is_empty();
                let slot = |time: u32| stage.slot(time);
                match (same.is_some(), is_exact) {
                    (true, true) => windows.map(|(time, window)| exact(slot(time), window)).collect(),
                    (true, false) => {
                        points.map(|(time, value)| direct(layout, index, slot(time), value)).collect()
                    }
                    (false, true) => merge(config, stage.resolution, windows),
                    (false, false) => fold(config, from.resolution, stage.resolution, points),
                }
            }
        };
        arranged.stages.push(cells);
    }
    let unused = history.iter().zip(is_used).filter(|(_, is_used)| !is_used);
    arranged.left_out = unused.map(|(from, _)| from.points.len() as u64).sum();
    arranged
}

fn direct(layout: &MetricLayout, stage: usize, slot: u32, value: f64) -> Cell {
    let raw = Window { value, count: 1 };
    let window = match stage {
        0 => raw,
        // `shown` returns `None` if the sum of the whole window would be too large for a float. The value
        // then counts as one slot, and xFilesFactor may hide it.
        _ => shown(layout, stage, value, 1).unwrap_or(raw),
    };
    Cell { slot, window, is_shown: true, is_exact: false }
}

fn exact(slot: u32, window: Window) -> Cell {
    Cell { slot, window, is_shown: false, is_exact: true }
}

/// The windows of a stage whose counts are known.
fn windows(from: &HistoryStage) -> impl Iterator<Item = (u32, Window)> {
    let counted = from.points.iter().zip(&from.counts);
    counted.map(|((time, value), count)| (*time, Window { value: *value, count: *count }))
}

/// Merges the windows of a finer stage into coarser windows.
fn merge(config: &MetricConfig, resolution: u32, windows: impl Iterator<Item = (u32, Window)>) -> Vec<Cell> {
    let mut merged: Vec<(u32, Vec<Window>)> = Vec::new();
    for (time, window) in windows {
        let slot = time / resolution;
        match merged.last_mut().filter(|(last, _)| *last == slot) {
            Some((_, windows)) => windows.push(window),
            None => merged.push((slot, vec![window])),
        }
    }
    let cell = |(slot, windows): (u32, Vec<Window>)| Cell {
        slot,
        window: config.aggregation.merge_all(windows.into_iter()),
        is_shown: false,
        is_exact: false,
    };
    merged.into_iter().map(cell).collect()
}

/// A window of a coarse stage for which readers get this value, as they did from whisper. Its count is that
/// of a full window, and at least `least`, so that xFilesFactor does not hide it.
pub(crate) fn shown(layout: &MetricLayout, stage: usize, value: f64, least: u32) -> Option<Window> {
    layout.config.aggregation.window_showing(value, layout.per[stage - 1].max(least))
}

/// Folds the slots of a finer stage into windows.
fn fold(
    config: &MetricConfig,
    from: u32,
    resolution: u32,
    points: impl Iterator<Item = (u32, f64)>,
) -> Vec<Cell> {
    let raw = config.retention.finest().resolution;
    let method = config.aggregation;
    let mut cells: Vec<(u32, Vec<f64>)> = Vec::new();
    for (time, value) in points {
        let slot = time / resolution;
        match cells.last_mut().filter(|(last, _)| *last == slot) {
            Some((_, values)) => values.push(value),
            None => cells.push((slot, vec![value])),
        }
    }
    // Each slot of a stage that is coarser than the raw stage counts as several raw slots.
    let weight = (from / raw).max(1);
    let cell = |(slot, values): (u32, Vec<f64>)| {
        let window = method.fold_all(values.into_iter());
        let weighs = matches!(method, Aggregation::Average | Aggregation::AvgZero);
        let value = if weighs { window.value * f64::from(weight) } else { window.value };
        Cell {
            slot,
            window: Window { value, count: window.count * weight },
            is_shown: false,
            is_exact: false,
        }
    };
    cells.into_iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn layout(retention: &str) -> MetricLayout {
        let config = MetricConfig {
            retention: retention.parse().unwrap(),
            aggregation: "average".parse().unwrap(),
            x_files_factor: 0.5,
        };
        MetricLayout::new(Arc::new(config))
    }

    fn stage(resolution: u32, points: &[(u32, f64)]) -> HistoryStage {
        HistoryStage { resolution, points: points.to_vec(), ..HistoryStage::default() }
    }

    #[test]
    fn a_stage_that_the_history_lacks_is_folded_from_a_finer_one() {
        let history = [
            stage(10, &[(900, 9.0), (1000, 1.0), (1010, 2.0), (1070, 7.0)]),
            stage(60, &[(960, 5.0), (1020, 6.0)]),
            stage(70, &[(700, 1.0)]),
        ];
        let layout = layout("10s:60s,30s:120s,60s:600s,120s:1200s");
        let arranged = arrange(&layout, &history, 1075);
        let cells = |stage: usize| {
            let cells = arranged.stages[stage].iter();
            cells
                .map(|cell| (cell.slot, cell.window.value, cell.window.count, cell.is_shown))
                .collect::<Vec<_>>()
        };
        assert_eq!(cells(0), [(101, 2.0, 1, true), (107, 7.0, 1, true)]);
        assert_eq!(cells(1), [(33, 3.0, 2, false), (35, 7.0, 1, false)]);
        assert_eq!(cells(2), [(16, 30.0, 6, true), (17, 36.0, 6, true)]);
        assert_eq!(cells(3), [(7, 9.0, 1, false), (8, 10.0, 3, false)]);
        assert_eq!(arranged.left_out, 1);
    }

    #[test]
    fn windows_with_counts_are_taken_as_they_are() {
        let counted = |resolution: u32, points: &[(u32, f64)], counts: &[u32]| HistoryStage {
            counts: counts.to_vec(),
            ..stage(resolution, points)
        };
        let history = [stage(10, &[(1000, 1.0)]), counted(30, &[(960, 7.0), (990, 5.0)], &[2, 3])];
        let layout = layout("10s:60s,30s:120s,60s:600s");
        let arranged = arrange(&layout, &history, 1005);
        let cells = |stage: usize| {
            let cells = arranged.stages[stage].iter();
            cells
                .map(|cell| (cell.slot, cell.window.value, cell.window.count, cell.is_exact))
                .collect::<Vec<_>>()
        };
        assert_eq!(cells(1), [(32, 7.0, 2, true), (33, 5.0, 3, true)]);
        // The finest stage whose resolution divides this one is the raw stage.
        assert_eq!(cells(2), [(16, 1.0, 1, false)]);
        let arranged = arrange(&layout, &history[1..], 1005);
        assert_eq!(arranged.stages[2][0].window, Window { value: 12.0, count: 5 });
    }
}
