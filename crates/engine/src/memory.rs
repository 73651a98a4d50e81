//! Enforces the memory ceiling (`engine.memory_max`): limits how many metrics may be created, and pauses
//! reading.
//!
//! The memory of a metric is never freed, so new metrics are refused at the ceiling. The memory of queues is
//! temporary, so reading pauses until they are drained. Growth between two measurements is limited too: each
//! measurement grants as many new metrics as fit, and no more are created before the next measurement.
//! `docs/decisions/memory-ceiling.md` gives the reasons for the numbers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use plumbago_model::ByteSize;
use plumbago_telemetry::Conditions;

/// Number of bytes that a metric permanently takes once its head is full, without its name in the index.
const METRIC_BYTES: u64 = 256;
/// Bytes that a new metric takes temporarily: its first points, its name until it is in the store, and rows
/// of the store and the journal that are not written yet.
const CREATION_BYTES: u64 = 1024;
/// The time between two measurements.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two measurements while little memory is left.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// While no points arrive, only one of this many measurements is made.
const QUIET_ROUNDS: u32 = 10;

/// Name of the condition under which new metrics are refused.
pub(crate) const FULL: &str = "memory";
/// Name of the condition under which reading from senders pauses.
pub(crate) const PAUSED: &str = "memory_paused";

/// The number of metrics that may be created before the next measurement. All shards share it.
#[derive(Debug)]
pub(crate) struct Allowance {
    granted: AtomicI64,
    taken: AtomicU64,
    full: AtomicBool,
}

impl Default for Allowance {
    /// An allowance without a limit.
    fn default() -> Self {
        Self { granted: AtomicI64::new(i64::MAX), taken: AtomicU64::new(0), full: AtomicBool::new(false) }
    }
}

impl Allowance {
    /// Whether a shard must wait for the next measurement before it creates a metric.
    pub(crate) fn is_used_up(&self) -> bool {
        self.granted.load(Ordering::Relaxed) <= 0 && !self.is_full()
    }

    /// Whether new metrics are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Counts one new metric against the allowance. Returns `false` if it must be refused.
    pub(crate) fn take(&self) -> bool {
        if self.is_full() {
            return false;
        }
        self.granted.fetch_sub(1, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Number of new metrics counted since the start.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// One measurement of memory and queues.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Memory of the process, in bytes.
    pub(crate) used: u64,
    /// Memory of heads, tables and cells, in bytes.
    pub(crate) heads: u64,
    /// Memory of the index, in bytes.
    pub(crate) index: u64,
    /// Number of metrics that have a head.
    pub(crate) metrics: u64,
    /// Number of new metrics that are not in the metadata store yet.
    pub(crate) pending: u64,
    /// Number of points in the queues of the shards.
    pub(crate) queued: u64,
}

/// Counters, since the start, of everything that takes memory in the engine. If they are equal, nothing has
/// happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Number of points that were received.
    pub(crate) received: u64,
    /// Number of points that the shards have applied.
    pub(crate) applied: u64,
    /// Number of metrics whose creation has begun.
    pub(crate) begun: u64,
    /// Number of metrics that are in the metadata store.
    pub(crate) created: u64,
}

/// Skips measurements while nothing happens, because each of them makes the kernel count the memory.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    before: Progress,
    left_out: u32,
}

impl Quiet {
    /// Whether memory must be measured now: if something has happened, or if something is refused or paused.
    /// Otherwise memory is measured from time to time, because requests take memory too.
    pub(crate) fn needs_measurement(&mut self, ceiling: &Ceiling, now: Progress) -> bool {
        let is_quiet = std::mem::replace(&mut self.before, now) == now && !ceiling.full && !ceiling.paused;
        self.left_out = if is_quiet { (self.left_out + 1) % QUIET_ROUNDS } else { 0 };
        self.left_out == 0
    }
}

/// Compares measurements with the ceiling.
#[derive(Debug)]
pub(crate) struct Ceiling {
    /// Limit on the memory of the process, in bytes. 0 means no limit.
    max: u64,
    /// The part of `max` that caches, buffers and requests can grow to, in bytes.
    reserved: u64,
    conditions: Conditions,
    full: bool,
    paused: bool,
}

impl Ceiling {
    pub(crate) fn new(max: u64, reserved: u64, conditions: Conditions) -> Self {
        Self { max, reserved, conditions, full: false, paused: false }
    }

    /// Whether reading from senders is paused.
    pub(crate) fn pauses_reading(&self) -> bool {
        self.paused
    }

    /// Evaluates a measurement and renews the allowance. Returns the time to wait before the next
    /// measurement.
    pub(crate) fn evaluate(&mut self, sample: &Sample, allowance: &Allowance) -> Duration {
        if self.max == 0 {
            return PAUSE;
        }
        let room = self.room(sample);
        self.full = if self.full { room < self.max / 32 } else { room < self.max / 128 };
        let drains = sample.queued > 0 || sample.pending > 0;
        let high = if self.paused { self.max - self.max / 32 } else { self.max };
        self.paused = drains && sample.used > high;
        // Set the grant before the flag. Otherwise a shard could see no grant and no flag, and wait
        // needlessly. Pending creations take memory only for a time, so they delay further creations, but
        // cause no refusals.
        let now = room.saturating_sub(sample.pending * CREATION_BYTES);
        let granted = if self.full { 0 } else { now / (METRIC_BYTES + CREATION_BYTES) };
        allowance.granted.store(i64::try_from(granted).unwrap_or(i64::MAX), Ordering::Relaxed);
        allowance.full.store(self.full, Ordering::Relaxed);
        self.report(sample);
        if room < self.max / 4 { SHORT_PAUSE } else { PAUSE }
    }

    /// Bytes that new metrics may still take. Two limits apply: the memory of the process now must stay below
    /// nine tenths of the ceiling, and the memory to which metrics, caches and requests can grow must stay
    /// below the ceiling.
    fn room(&self, sample: &Sample) -> u64 {
        let kept = sample.heads.max(sample.metrics * METRIC_BYTES) + sample.index;
        let now = (self.max - self.max / 10).saturating_sub(sample.used);
        let later = self.max.saturating_sub(self.reserved).saturating_sub(kept);
        now.min(later)
    }

    fn report(&self, sample: &Sample) {
        let (used, max) = (ByteSize(sample.used & !0xf_ffff), ByteSize(self.max));
        if self.full {
            let text = format!(
                "there is no memory for more metrics: {used} of {max} (engine.memory_max) are in use, and the rest is \
                 reserved for points of existing metrics, caches and requests; points of new metrics are \
                 refused (memory_limited), known metrics continue; raise engine.memory_max or send fewer \
                 metrics"
            );
            self.conditions.begin(FULL, text);
        } else {
            self.conditions.end(FULL);
        }
        if self.paused {
            let text = format!(
                "the process uses {used} of memory and may use {max} (engine.memory_max): reading from \
                 senders pauses until \
                 queued points are applied; raise engine.memory_max if this happens often"
            );
            self.conditions.begin(PAUSED, text);
        } else {
            self.conditions.end(PAUSED);
        }
    }
}

#[cfg(test)]
mod tests {
    use plumbago_telemetry::Registry;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn ceiling() -> Ceiling {
        Ceiling::new(128 * MIB, 64 * MIB, Conditions::new(&Registry::new()))
    }

    fn sample(used: u64) -> Sample {
        Sample { used: used * MIB, ..Sample::default() }
    }

    fn names(ceiling: &Ceiling) -> Vec<&'static str> {
        ceiling.conditions.list().iter().map(|held| held.name).collect()
    }

    #[test]
    fn a_grant_is_smaller_than_the_room() {
        let (mut ceiling, allowance) = (ceiling(), Allowance::default());
        assert_eq!(ceiling.evaluate(&sample(20), &allowance), PAUSE);
        let granted = allowance.granted.load(Ordering::Relaxed) as u64;
        assert_eq!(granted, 64 * MIB / (METRIC_BYTES + CREATION_BYTES));
        for _ in 0..granted {
            assert!(!allowance.is_used_up() && allowance.take());
        }
        assert!(allowance.is_used_up(), "the next metric waits for a measurement");
        assert_eq!(allowance.taken(), granted);
        // Pending metrics will take memory that the process has not allocated yet.
        ceiling.evaluate(&Sample { pending: granted, ..sample(20) }, &allowance);
        assert!((allowance.granted.load(Ordering::Relaxed) as u64) < granted / 4);
    }

    #[test]
    fn new_metrics_are_refused_at_the_ceiling_and_taken_again_well_below_it() {
        let (mut ceiling, allowance) = (ceiling(), Allowance::default());
        assert_eq!(ceiling.evaluate(&sample(115), &allowance), SHORT_PAUSE);
        assert!(!allowance.take() && !allowance.is_used_up(), "refused, not deferred");
        assert_eq!(names(&ceiling), [FULL]);
        let text = ceiling.conditions.list()[0].text.clone();
        assert!(text.contains("115MiB of 128MiB (engine.memory_max)"), "{text}");
        ceiling.evaluate(&sample(113), &allowance);
        assert!(!allowance.take(), "a little room is not enough");
        ceiling.evaluate(&sample(100), &allowance);
        assert!(allowance.take());
        assert!(names(&ceiling).is_empty());
    }

    #[test]
    fn what_metrics_and_caches_may_come_to_take_counts_now() {
        let (mut ceiling, allowance) = (ceiling(), Allowance::default());
        let metrics = 60 * MIB / METRIC_BYTES;
        ceiling.evaluate(&Sample { metrics, index: 4 * MIB, ..sample(50) }, &allowance);
        assert!(!allowance.take());
        ceiling.evaluate(&Sample { metrics, index: 4 * MIB, heads: MIB, ..sample(50) }, &allowance);
        assert!(!allowance.take());
    }

    #[test]
    fn reading_pauses_only_while_something_drains() {
        let (mut ceiling, allowance) = (ceiling(), Allowance::default());
        ceiling.evaluate(&Sample { queued: 1, ..sample(130) }, &allowance);
        assert!(ceiling.pauses_reading());
        assert_eq!(names(&ceiling), [FULL, PAUSED]);
        ceiling.evaluate(&Sample { queued: 1, ..sample(126) }, &allowance);
        assert!(ceiling.pauses_reading(), "until it is well below");
        ceiling.evaluate(&sample(130), &allowance);
        assert!(!ceiling.pauses_reading(), "a pause would free nothing");
        assert_eq!(names(&ceiling), [FULL]);
    }

    #[test]
    fn a_quiet_engine_is_measured_rarely_and_a_busy_one_always() {
        let (mut ceiling, allowance, mut quiet) = (ceiling(), Allowance::default(), Quiet::default());
        let idle = Progress { received: 5, applied: 5, ..Progress::default() };
        assert!(quiet.needs_measurement(&ceiling, idle));
        let measured = |quiet: &mut Quiet, ceiling: &Ceiling, rounds: u32| {
            (0..rounds).filter(|_| quiet.needs_measurement(ceiling, idle)).count()
        };
        assert_eq!(measured(&mut quiet, &ceiling, 3 * QUIET_ROUNDS), 3);
        measured(&mut quiet, &ceiling, QUIET_ROUNDS / 2);
        assert!(quiet.needs_measurement(&ceiling, Progress { received: 6, ..idle }));
        assert!(quiet.needs_measurement(&ceiling, idle));
        ceiling.evaluate(&sample(130), &allowance);
        assert_eq!(measured(&mut quiet, &ceiling, 7), 7, "new metrics are refused");
    }

    #[test]
    fn without_a_ceiling_nothing_is_refused() {
        let (mut ceiling, allowance) =
            (Ceiling::new(0, 0, Conditions::new(&Registry::new())), Allowance::default());
        ceiling.evaluate(&Sample { queued: 1, ..sample(1 << 20) }, &allowance);
        assert!(allowance.take() && !allowance.is_used_up() && !ceiling.pauses_reading());
    }
}
