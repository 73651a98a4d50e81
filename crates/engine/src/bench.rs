//! One shard without threads, for the benchmarks in `benches/`.

use std::path::Path;
use std::sync::Arc;

use plumbago_journal::{Journal, JournalError, JournalWriter};
use plumbago_model::{MetricConfig, PointBatch, SystemClock};
use plumbago_store::BlockLayout;
use plumbago_telemetry::Registry;

use crate::router::{Router, ShardBatch};
use crate::shard::creation::{CreateGate, NewMetric};
use crate::shard::flush::Extent;
use crate::shard::head_state::LifeEvent;
use crate::shard::jobs::Flushes;
use crate::shard::{ApplyContext, LATE_POINTS, Limits, Shard};
use crate::stats::{Reject, Stats};

/// A shard whose metrics are created at once and whose flushes are discarded.
pub struct BenchShard {
    shard: Shard,
    router: Router,
    writer: JournalWriter,
    gate: OpenGate,
}

struct OpenGate {
    config: Arc<MetricConfig>,
    next: u32,
    made: Vec<u32>,
}

impl CreateGate for OpenGate {
    fn is_full(&self) -> bool {
        false
    }
    fn admit(&mut self, _: i64) -> Result<(), Reject> {
        Ok(())
    }
    fn config_for(&self, _: &str) -> Arc<MetricConfig> {
        Arc::clone(&self.config)
    }
    fn next_number(&mut self) -> Option<u32> {
        self.next += 1;
        Some(self.next)
    }
    fn submit(&mut self, metric: NewMetric) {
        self.made.push(metric.at);
    }
}

impl BenchShard {
    /// Creates a shard with a journal in `dir`.
    ///
    /// # Errors
    /// The error of [`Journal::open`] if the journal cannot be opened.
    pub fn new(dir: &Path, config: MetricConfig) -> Result<Self, JournalError> {
        let registry = Registry::new();
        let settings = plumbago_journal::Config { min_free_bytes: 0, ..Default::default() };
        let journal = Journal::open(dir, settings, Arc::new(SystemClock), &registry)?;
        let limits = Limits {
            at_intervals: false,
            emit_open: false,
            future_max: 86_400,
            checkpoint_segments: 9,
            idle_after: 7200,
            late_points: LATE_POINTS,
        };
        Ok(Self {
            shard: Shard::new(BlockLayout { raw_slots: 40 }, limits, Stats::new(&registry)),
            router: Router::new(1, 1),
            writer: journal.writer(),
            gate: OpenGate { config: Arc::new(config), next: 0, made: Vec::new() },
        })
    }

    /// Looks up the metrics of a batch, journals and applies its points, and builds the flushes that become
    /// due.
    pub fn apply(&mut self, batch: PointBatch, now: i64) {
        let routed = self.router.route(&batch);
        let batch = Arc::new(batch);
        for (_, entries) in routed {
            let share = ShardBatch { batch: Arc::clone(&batch), entries };
            let mut context = ApplyContext { writer: &mut self.writer, gate: &mut self.gate, now };
            let applied = self.shard.apply(&share, 0, &mut context);
            assert!(applied.is_ok(), "the journal takes what a benchmark writes");
        }
        for at in self.gate.made.drain(..) {
            self.shard.heads[at].state.on_life(LifeEvent::Create);
        }
        self.flush();
    }

    /// Builds the state rows of the first `metrics` metrics and discards them.
    pub fn checkpoint(&mut self, metrics: u32) {
        let mut flushes = Flushes::default();
        for at in 0..metrics.min(self.shard.len() as u32) {
            self.shard.build(at, Extent::State, 1, &mut flushes);
        }
        self.shard.flush_done(flushes.plain.items);
    }

    /// Sweeps over all metrics, and discards the flushes.
    pub fn sweep(&mut self, now: i64) {
        let mut flushes = Flushes::default();
        let segment = self.writer.segment();
        while {
            self.shard.sweep(1000, segment, now, &mut flushes);
            !self.shard.sweep.is_over
        } {}
        self.shard.flush_done(flushes.plain.items);
        self.shard.flush_done(flushes.reading.items);
    }

    /// Whether no point was late.
    pub fn has_no_late_points(&self) -> bool {
        self.shard.late.is_idle()
    }

    fn flush(&mut self) {
        if self.shard.due.len() < 1000 {
            return;
        }
        self.shard.begin_due();
        while let Some(Flushes { plain, reading }) = self.shard.take_due(1000, 1) {
            self.shard.flush_done(plain.items);
            self.shard.flush_done(reading.items);
        }
    }
}
