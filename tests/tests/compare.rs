//! Every slot of every stage of a daemon beside the model of the load that it was sent.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use plumbago_tests::daemon::Daemon;
use plumbago_tests::fold::floor;

use crate::load::{GROUPS, Load, METHODS, Metric};

/// How long the late points may take to reach the store before a flush is asked for.
const LATE: Duration = Duration::from_secs(3);

/// Says whether what is seen is what is wanted.
pub(crate) type Same = fn(Option<f64>, Option<f64>) -> bool;

/// Every slot of every stage is the model's.
pub(crate) fn all(daemon: &Daemon, load: &Load, same: Same, what: &str) {
    let what = format!("{what}, from {} to {}", load.start, load.now);
    settled(daemon, &what, || complaints(daemon, load, same));
}

/// What is not as the model has it, a line each.
pub(crate) fn complaints(daemon: &Daemon, load: &Load, same: Same) -> String {
    let mut complaints = String::new();
    for stage in 0..3 {
        let judge = |at: usize, slot, seen| {
            let wanted = load.metrics[at].shown(stage, slot, load.now);
            (!same(seen, wanted)).then(|| format!("wanted {wanted:?}"))
        };
        let seen = self::stage(daemon, load, stage, judge, &mut complaints);
        let wanted = load.metrics.iter().filter(|m| m.exists() && stage < m.stages.len()).count();
        if seen != wanted {
            let _ = writeln!(complaints, "stage {stage}: {seen} series instead of {wanted}");
        }
    }
    complaints
}

/// Reads a stage of all metrics and lets `judge` look at every slot.
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

/// Panics unless there is nothing to complain of in the end: late points reach the store behind the
/// others, so a first look may be too early.
pub(crate) fn settled(daemon: &Daemon, what: &str, complaints: impl Fn() -> String) {
    let start = Instant::now();
    while start.elapsed() < LATE {
        if complaints().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    daemon.flush();
    let left = complaints();
    let (all, short) = (left.lines().count(), left.lines().take(30).collect::<Vec<_>>().join("\n"));
    assert!(left.is_empty(), "{what}: {all} differences\n{short}");
}

/// The same bits.
pub(crate) fn same(a: Option<f64>, b: Option<f64>) -> bool {
    a.map(f64::to_bits) == b.map(f64::to_bits)
}

/// The earliest time whose read is answered by this stage and that covers the whole test, as far as
/// one read can.
fn first_time(stages: &[(i64, i64)], stage: usize, start: i64, now: i64) -> i64 {
    if stage == 0 {
        return now - stages[0].0 * stages[0].1;
    }
    let (finer, slots) = stages[stage - 1];
    floor(start.min(now - finer * slots) - stages[stage].0, stages[stage].0)
}

fn complain(text: &mut String, metric: &Metric, stage: usize, slot: i64, seen: Option<f64>, why: &str) {
    let _ = writeln!(text, "{} stage {stage} slot {slot}: {seen:?}, {why}", metric.name);
}
