//! The self-metrics of jobs.

use plumbago_telemetry::{Counter, Gauge, Registry};

use crate::report::Report;

/// The self-metrics of one job.
#[derive(Debug)]
pub(crate) struct Stats {
    registry: Registry,
    job: String,
    scanned: Counter,
    runs: Counter,
    failures: Counter,
    running: Gauge,
    last_success: Gauge,
    seen: u64,
}

impl Stats {
    pub(crate) fn new(registry: &Registry, job: &str) -> Self {
        let labels = [("job", job)];
        Self {
            registry: registry.clone(),
            job: job.to_owned(),
            scanned: registry.counter(
                "plumbago_maintenance_scanned_total",
                "rows that a job looked at",
                &labels,
            ),
            runs: registry.counter("plumbago_maintenance_runs_total", "runs that completed", &labels),
            failures: registry.counter(
                "plumbago_maintenance_failures_total",
                "runs that ended early",
                &labels,
            ),
            running: registry.gauge("plumbago_maintenance_running", "1 while the job runs", &labels),
            last_success: registry.gauge(
                "plumbago_maintenance_last_success_seconds",
                "when the job last completed, in seconds since the epoch",
                &labels,
            ),
            seen: 0,
        }
    }

    pub(crate) fn started(&mut self, report: &Report) {
        self.seen = report.scanned;
        self.running.set(1.0);
    }

    pub(crate) fn page(&mut self, report: &Report) {
        self.scanned.add(report.scanned - self.seen);
        self.seen = report.scanned;
    }

    pub(crate) fn ended(&self, report: &Report, before: &Report, now: i64, dry_run: bool) {
        self.running.set(0.0);
        if report.finished {
            self.runs.add(1);
            self.last_success.set(now as f64);
        } else {
            self.failures.add(1);
        }
        if dry_run {
            return;
        }
        for (kind, done) in &report.done {
            let labels = [("job", self.job.as_str()), ("kind", kind.as_str())];
            let earlier = before.done.get(kind).copied().unwrap_or(0);
            self.registry
                .counter("plumbago_maintenance_done_total", "changes made by jobs", &labels)
                .add(done - earlier);
        }
    }
}
