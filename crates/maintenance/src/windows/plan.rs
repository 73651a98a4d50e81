//! Decides which windows of a metric can be compared with the slots that they were folded from. No I/O.

use std::ops::Range;

use plumbago_model::{MetricConfig, MetricId, Stage};
use plumbago_store::SlotRange;

/// Raw slots after the end of a window in which its writers may not have stored it. A metric without new
/// points is flushed whole after 40 slots.
const ALLOWANCE_SLOTS: i64 = 60;
/// Largest number of slots that one piece reads, unless a single window has more.
const SLOTS_MAX: u32 = 50_000;

/// The windows that a run compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Windows with a part in this range of time (seconds since the epoch).
    Range(i64, i64),
    /// The window of each stage at this time and the one before it.
    Around {
        at: i64,
        /// Leaves out windows that could have been compared by this time.
        compared_until: i64,
    },
}

/// When windows can be compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// Seconds after the end of a window, in addition to the allowance.
    pub(crate) after: i64,
}

/// Consecutive windows of one stage, and the stage that they are folded from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) stage: usize,
    pub(crate) source: usize,
    pub(crate) windows: Range<u32>,
}

impl Piece {
    /// The slots of the source in one window.
    pub(crate) fn ratio(&self, stages: &[Stage]) -> u32 {
        stages[self.stage].resolution / stages[self.source].resolution
    }

    /// The range of the windows, and the range of the slots that they are folded from.
    pub(crate) fn ranges(&self, id: MetricId, config: &MetricConfig) -> (SlotRange, SlotRange) {
        let stages = config.retention.stages();
        let range = |index: usize, slots: Range<u32>| SlotRange {
            id,
            stage: stages[index],
            stage_index: index as u8,
            aggregation: config.aggregation,
            from: slots.start,
            until: slots.end,
        };
        let (windows, ratio) = (self.windows.clone(), self.ratio(stages));
        (range(self.stage, windows.clone()), range(self.source, windows.start * ratio..windows.end * ratio))
    }
}

/// The pieces of one stage, and when the next window of the scope can be compared (seconds since the epoch).
pub(crate) fn pieces(
    config: &MetricConfig,
    stage: usize,
    scope: Scope,
    times: Times,
) -> (Vec<Piece>, Option<i64>) {
    let stages = config.retention.stages();
    let resolution = i64::from(stages[stage].resolution);
    let due = |window: u32| due(stages, stage, window, times.after);
    let wanted = match scope {
        Scope::Range(from, until) => {
            let oldest = times.now - stages[stage].duration() as i64;
            slot(from.max(oldest), resolution)..slot(until.min(times.now) + resolution - 1, resolution)
        }
        Scope::Around { at, .. } => {
            let window = slot(at, resolution);
            window.saturating_sub(1)..window + 1
        }
    };
    let compared_until = match scope {
        Scope::Range(..) => i64::MIN,
        Scope::Around { compared_until, .. } => compared_until,
    };
    let next = wanted.clone().map(due).find(|due| *due > times.now);
    let mut pieces: Vec<Piece> = Vec::new();
    for window in wanted.filter(|window| (compared_until + 1..=times.now).contains(&due(*window))) {
        let Some(source) = source(config, stage, i64::from(window) * resolution, times.now) else { continue };
        let ratio = stages[stage].resolution / stages[source].resolution;
        match pieces.last_mut() {
            Some(last)
                if (last.source, last.windows.end) == (source, window)
                    && (last.windows.len() as u32 + 1).saturating_mul(ratio) <= SLOTS_MAX =>
            {
                last.windows.end = window + 1;
            }
            _ => pieces.push(Piece { stage, source, windows: window..window + 1 }),
        }
    }
    (pieces, next)
}

/// When a window can be compared. All its writers have stored it by then.
fn due(stages: &[Stage], stage: usize, window: u32, after: i64) -> i64 {
    let end = (i64::from(window) + 1) * i64::from(stages[stage].resolution);
    end + after + ALLOWANCE_SLOTS * i64::from(stages[0].resolution)
}

/// The finest stage that still has the whole window. A percentile that is computed from another stage has
/// another value, so a percentile has no source unless that is the stage from which it was computed.
fn source(config: &MetricConfig, stage: usize, start: i64, now: i64) -> Option<usize> {
    let stages = config.retention.stages();
    let covers = |finer: &usize| now - start <= stages[*finer].duration() as i64;
    let source = (0..stage).find(covers)?;
    let is_exact = !config.aggregation.needs_all_slots() || source == config.retention.source_of(stage);
    is_exact.then_some(source)
}

fn slot(time: i64, resolution: i64) -> u32 {
    u32::try_from(time.max(0) / resolution).unwrap_or(u32::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000 / 86_400 * 86_400;

    fn config(retention: &str, method: &str) -> MetricConfig {
        MetricConfig {
            retention: retention.parse().unwrap(),
            aggregation: method.parse().unwrap(),
            x_files_factor: 0.0,
        }
    }

    fn found(config: &MetricConfig, stage: usize, scope: Scope, now: i64) -> Vec<(usize, i64, i64)> {
        let resolution = i64::from(config.retention.stages()[stage].resolution);
        let (pieces, _) = pieces(config, stage, scope, Times { now, after: 600 });
        let times = |piece: &Piece| {
            let start = i64::from(piece.windows.start) * resolution - NOW;
            (piece.source, start / resolution, i64::from(piece.windows.len() as u32))
        };
        pieces.iter().map(times).collect()
    }

    #[test]
    fn closed_windows_are_folded_from_the_finest_stage_that_covers_them() {
        let hours = config("10s:6h,60s:2d,3600s:1y", "sum");
        let all = Scope::Range(NOW - 172_800, NOW);
        // Not all writers may have stored the window that has just ended.
        assert_eq!(found(&hours, 2, all, NOW), [(1, -48, 42), (0, -6, 5)]);
        assert_eq!(found(&hours, 2, all, NOW + 1200).last(), Some(&(0, -5, 5)));
        assert_eq!(found(&hours, 2, Scope::Range(NOW - 5000, NOW - 4000), NOW), [(0, -2, 1)]);
        // Stage 0 no longer has the first slots.
        assert_eq!(found(&hours, 2, Scope::Range(NOW - 21_600, NOW - 18_000), NOW + 1), [(1, -6, 1)]);
        assert_eq!(found(&hours, 2, Scope::Range(NOW - 200_000, NOW - 172_801), NOW), []);
    }

    #[test]
    fn a_percentile_is_compared_only_with_the_slots_it_was_computed_from() {
        let hours = config("10s:6h,60s:2d,3600s:1y", "p95");
        assert_eq!(found(&hours, 2, Scope::Range(NOW - 172_800, NOW), NOW), [(0, -6, 5)]);
    }

    #[test]
    fn the_windows_at_a_time_are_compared_once_each() {
        let hours = config("10s:6h,3600s:1y", "sum");
        let at = NOW + 1800;
        let around = |compared_until| Scope::Around { at, compared_until };
        let (all, next) = pieces(&hours, 1, around(0), Times { now: at, after: 600 });
        assert_eq!(all[0].windows.len(), 1);
        assert_eq!(next, Some(NOW + 3600 + 600 + 600));
        let later = Times { now: NOW + 4800, after: 600 };
        let (all, next) = pieces(&hours, 1, around(at), later);
        assert_eq!((all[0].windows.clone(), next), ((NOW / 3600) as u32..(NOW / 3600) as u32 + 1, None));
        assert_eq!(pieces(&hours, 1, around(NOW + 4800), later).0, []);
    }

    #[test]
    fn long_ranges_are_read_in_pieces() {
        let days = config("1s:30d,86400s:1y", "sum");
        let pieces = found(&days, 1, Scope::Range(NOW - 5 * 86_400, NOW), NOW + 3600);
        assert_eq!(pieces, [(0, -5, 1), (0, -4, 1), (0, -3, 1), (0, -2, 1), (0, -1, 1)]);
    }
}
