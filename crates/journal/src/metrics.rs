//! The journal's self-metrics.

use plumbago_telemetry::{Counter, Gauge, Registry};

pub(crate) struct Metrics {
    pub(crate) written_points: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) refused: Counter,
    pub(crate) syncs: Counter,
    pub(crate) sync_errors: Counter,
    pub(crate) reopened: Counter,
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
                "points handed to the kernel: kill -9 does not lose them",
            ),
            written_bytes: counter(
                "plumbago_journal_written_bytes_total",
                "bytes of frames handed to the kernel",
            ),
            refused: counter(
                "plumbago_journal_refused_total",
                "hand-overs that failed; their frames are kept and tried again",
            ),
            syncs: counter("plumbago_journal_syncs_total", "syncs that succeeded"),
            sync_errors: counter("plumbago_journal_sync_errors_total", "syncs that failed"),
            reopened: counter(
                "plumbago_journal_reopened_total",
                "times the journal was opened again after a failed write",
            ),
            torn_tails: counter(
                "plumbago_journal_torn_tails_total",
                "journal files cut at a hole that power loss had left",
            ),
            corrupt_frames: counter(
                "plumbago_journal_corrupt_frames_total",
                "frames skipped in replay because they were damaged",
            ),
            segments: gauge("plumbago_journal_segments", "live segments"),
            bytes: gauge("plumbago_journal_bytes", "bytes of frames in live segments"),
            healthy: gauge("plumbago_journal_healthy", "1 while the journal takes points"),
        }
    }
}
