//! The journal's self-metrics.

use std::path::Path;

use plumbago_telemetry::{Counter, Gauge, Registry};

use crate::scan::Damage;

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
    damage: plumbago_telemetry::Damage,
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
            damage: plumbago_telemetry::Damage::of(registry),
        }
    }

    /// Notes the damaged places of a file, which are skipped.
    pub(crate) fn note_damage(&self, file: &Path, places: &[Damage]) {
        let Some(first) = places.first() else { return };
        self.corrupt_frames.add(places.len() as u64);
        let points: u64 = places.iter().map(|place| place.points).sum();
        self.damage.lose_points(points);
        self.damage.found(
            file,
            format!(
                "{} damaged places of this journal file are skipped, the first from byte {} to byte {}; up to {points} \
                 points in them are lost unless they were stored already. Nothing has to be done: the file is removed \
                 once its other points are stored",
                places.len(),
                first.from,
                first.to
            ),
        );
    }

    /// Notes synced bytes that are missing: those at the end of a file, or a whole file.
    pub(crate) fn note_missing(&self, file: &Path, bytes: u64) {
        self.corrupt_frames.add(1);
        let points = bytes / crate::frame::POINT_BYTES as u64;
        self.damage.lose_points(points);
        self.damage.found(
            file,
            format!(
                "{bytes} bytes of this journal file are missing, although they were on the disk: up to {points} points in \
                 them are lost unless they were stored already. Restore the file from a backup if there is one"
            ),
        );
    }

    /// Notes that a damaged frame at the end of a file was cut off.
    pub(crate) fn note_damaged_tail(&self, file: &Path, copy: &Path, tail: Damage) {
        self.corrupt_frames.add(1);
        self.damage.lose_points(tail.points);
        self.damage.found(
            file,
            format!(
                "the last frame of this journal file, from byte {} on, is damaged and was cut off; up to {} points in \
                 it are lost. {} is a copy of it, which may be removed",
                tail.from,
                tail.points,
                copy.display()
            ),
        );
    }
}
