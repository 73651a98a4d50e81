//! Compares every slot of every stage of a daemon with the model of the points that it was sent.

use std::collections::HashMap;
use std::fmt::Write as _;

use plumbago_tests::daemon::Daemon;
use plumbago_tests::fold::floor;
use plumbago_tests::wait::wait_ok;

use crate::load::{self, GROUPS, Load, METHODS, Metric};

/// How often [`settled`] compares before it flushes the daemon.
const CHECKS_BEFORE_FLUSH: u32 = 40;

/// Whether the value of the daemon equals that of the model.
pub(crate) type Same = fn(Option<f64>, Option<f64>) -> bool;

/// Waits until every slot of every stage equals the model.
pub(crate) fn all(daemon: &Daemon, load: &Load, same: Same, what: &str) {
    judged(daemon, load, same, what, |_, _| true);
}

/// Waits until every raw slot equals the model.
pub(crate) fn raw(daemon: &Daemon, load: &Load, same: Same, what: &str) {
    judged(daemon, load, same, what, |stage, _| stage == 0);
}

/// Waits until every raw slot and every window that is closed equals the model. A window is open for a while after
/// its end.
pub(crate) fn closed(daemon: &Daemon, load: &Load, same: Same, what: &str) {
    judged(daemon, load, same, what, |stage, end| stage == 0 || end <= load.now - load::OPEN_AFTER_END);
}

/// Waits until the slots that `judge` selects equal the model. It selects them by their stage and their end.
fn judged(daemon: &Daemon, load: &Load, same: Same, what: &str, judge: impl Fn(usize, i64) -> bool) {
    let what = format!("{what}, from {} to {}", load.start, load.now);
    settled(daemon, &what, || complaints(daemon, load, same, &judge));
}

/// All differences between daemon and model, one per line.
fn complaints(daemon: &Daemon, load: &Load, same: Same, judged: impl Fn(usize, i64) -> bool) -> String {
    let mut complaints = String::new();
    for stage in 0..3 {
        let judge = |at: usize, slot, seen| {
            let metric = &load.metrics[at];
            let wanted = metric.shown(stage, slot, load.now);
            let differs = judged(stage, slot + metric.stages[stage].0) && !same(seen, wanted);
            differs.then(|| format!("wanted {wanted:?}"))
        };
        let seen = self::stage(daemon, load, stage, judge, &mut complaints);
        let wanted = load.metrics.iter().filter(|m| m.exists() && stage < m.stages.len()).count();
        if seen != wanted {
            let _ = writeln!(complaints, "stage {stage}: {seen} series instead of {wanted}");
        }
    }
    complaints
}

/// Reads a stage of all metrics and passes every slot to `judge`, which returns what is wrong with it. Returns
/// the number of series.
pub(crate) fn stage(
    daemon: &Daemon,
    load: &Load,
    stage: usize,
    judge: impl Fn(usize, i64, Option<f64>) -> Option<String>,
    complaints: &mut String,
) -> usize {
    let places: HashMap<&str, usize> =
        load.metrics.iter().enumerate().map(|(i, m)| (m.name.as_str(), i)).collect();
    let mut series_seen = 0;
    for (group, stages) in GROUPS.into_iter().filter(|(_, stages)| stage < stages.len()) {
        let from = first_time(stages, stage, load.start, load.now);
        for method in METHODS {
            let target = format!("load.{group}.{method}.*.*");
            for series in daemon.render_in_trouble(&target, from, load.now, load.now) {
                series_seen += 1;
                assert_eq!(series.step, stages[stage].0, "{}", series.name);
                let at = places[series.name.as_str()];
                for (slot, seen) in &series.slots {
                    if let Some(why) = judge(at, *slot, *seen) {
                        complain(complaints, &load.metrics[at], stage, *slot, *seen, &why);
                    }
                }
            }
        }
    }
    series_seen
}

/// Waits until there are no complaints. Late points reach the store after the others. If complaints remain, the
/// daemon is flushed once: a percentile of slots from two writers is complete only after its window was written.
pub(crate) fn settled(daemon: &Daemon, what: &str, complaints: impl Fn() -> String) {
    let mut checks = 0;
    wait_ok(what, || {
        checks += 1;
        if checks == CHECKS_BEFORE_FLUSH {
            daemon.flush();
        }
        let left = complaints();
        let (all, short) = (left.lines().count(), left.lines().take(30).collect::<Vec<_>>().join("\n"));
        if left.is_empty() { Ok(()) } else { Err(format!("{all} differences\n{short}")) }
    });
}

/// Equal bit for bit.
pub(crate) fn same(a: Option<f64>, b: Option<f64>) -> bool {
    a.map(f64::to_bits) == b.map(f64::to_bits)
}

/// The earliest start of a read that is still answered from this stage. The read then covers as much of the
/// test as possible.
fn first_time(stages: &[(i64, i64)], stage: usize, start: i64, now: i64) -> i64 {
    let (step, slots) = stages[stage];
    let oldest = now - step * slots;
    if stage == 0 {
        return oldest;
    }
    let (finer, slots) = stages[stage - 1];
    // A test may last longer than the stage.
    oldest.max(floor(start.min(now - finer * slots) - step, step))
}

fn complain(text: &mut String, metric: &Metric, stage: usize, slot: i64, seen: Option<f64>, why: &str) {
    let _ = writeln!(text, "{} stage {stage} slot {slot}: {seen:?}, {why}", metric.name);
}
