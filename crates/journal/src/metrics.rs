//! The journal's self-metrics.

use plumbago_telemetry::{Counter, Gauge, Registry};

pub(crate) struct Metrics {
    pub(crate) written_points: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) refused: Counter,
    pub(crate) syncs: Counter,
    pub(crate) sync_errors: Counter,
    pub(crate) rewrites: Counter,
    pub(crate) torn_tails: Counter,
    pub(crate) corrupt_frames: Counter,
    pub(crate) segments: Gauge,
    pub(crate) bytes: Gauge,
    pub(crate) healthy: Gauge,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        Self {
            written_points: counter(
                "plumbago_journal_written_points_total",
                "points written to the journal's files: kill -9 does not lose them",
            ),
            written_bytes: counter(
                "plumbago_journal_written_bytes_total",
                "bytes of frames written to the journal's files",
            ),
            refused: counter(
                "plumbago_journal_refused_total",
                "frames that could not be written; they are kept in memory and tried again",
            ),
            syncs: counter("plumbago_journal_syncs_total", "syncs of the journal that succeeded"),
            sync_errors: counter("plumbago_journal_sync_errors_total", "syncs of the journal that failed"),
            rewrites: counter(
                "plumbago_journal_rewrites_total",
                "times that everything since the last good sync was written again, because a sync failed",
            ),
            torn_tails: counter(
                "plumbago_journal_torn_tails_total",
                "journal files whose end was cut off at a start, because a write was not finished",
            ),
            corrupt_frames: counter(
                "plumbago_journal_corrupt_frames_total",
                "damaged places in journal files that replay skipped",
            ),
            segments: gauge("plumbago_journal_segments", "live segments of the journal"),
            bytes: gauge("plumbago_journal_bytes", "bytes of frames in live segments"),
            healthy: gauge("plumbago_journal_healthy", "1 while the journal accepts points, else 0"),
        }
    }
}
