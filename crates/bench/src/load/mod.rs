//! Sends points over TCP and reports what each point costs the server.

pub mod names;

mod http;
mod progress;
mod protocol;
mod sender;
pub(crate) mod values;
mod workload;

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use plumbago_model::ByteSize;

use self::names::Shape;
use self::progress::with_progress;
pub use self::protocol::Protocol;
use self::sender::{Endpoint, Lines};
use self::workload::{Chunks, STEP, Workload};
use crate::server::{HELD, JOURNALED, Metrics, RECEIVED, process};
use crate::{BenchError, Report, Server};

/// What to send.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Number of metrics that get points.
    pub metrics: usize,
    /// Number of points per metric, one minute apart; the last one is about now.
    pub points: u32,
    /// Number of TCP connections. Each sends an equal share of the metrics.
    pub connections: usize,
    /// Whether the creation of the metrics is measured too. If not, one point of each metric is sent before
    /// the measurement.
    pub new: bool,
    /// Largest number of points per second; 0 for no limit.
    pub rate: u64,
    /// Seed of the values; the same seed gives the same values.
    pub seed: u64,
    /// The scheme of the names.
    pub names: Shape,
    /// A text that is put in front of every name.
    pub prefix: String,
    /// The form of the points.
    pub protocol: Protocol,
    /// Number of points per request, for protocols that have requests.
    pub batch: usize,
    /// Points are generated before the clock starts if all of them fit into this size; otherwise they are generated
    /// while sending.
    pub buffer: ByteSize,
}

/// The server that the load is sent to.
#[derive(Debug)]
pub struct Target {
    /// `host:port` of a listener for lines, or of the API for requests.
    pub address: String,
    /// How to observe the server.
    pub server: Server,
    /// The data directory; without it, disk use is not reported.
    pub data_dir: Option<PathBuf>,
}

/// Sends the load, waits until the server is idle, and adds the figures to `report`.
///
/// # Errors
///
/// [`BenchError::Io`] if the points cannot be sent, [`BenchError::Timeout`] if the server does not become
/// idle.
pub fn measure(options: &LoadOptions, target: &Target, report: &mut Report) -> Result<(), BenchError> {
    let memory_at_start = target.server.memory();
    let workload = options.workload();
    let to = Endpoint { address: &target.address, protocol: options.protocol, rate: options.rate };
    if !options.new {
        let first = Workload { start: workload.start - STEP, points: 1, ..workload.clone() };
        let lines = options.lines(&first, ByteSize(0));
        let points = options.metrics as u64;
        let at_once = Endpoint { rate: 0, ..to };
        with_progress("creating the metrics", points, |sent| sender::send(at_once, lines, sent))?;
        target.server.wait_until_idle()?;
    }
    let lines = options.lines(&workload, options.buffer);
    let before = Snapshot::take(target);
    let send = |sent: &_| sender::send(to, lines, sent);
    with_progress("sending", options.total(), send)?;
    let accepted = Snapshot::take(target);
    let idle = target.server.wait_until_idle()?;
    let after = Snapshot::take(target);

    report_load(options, report);
    let points = options.total() as f64;
    let seconds = accepted.at.duration_since(before.at).as_secs_f64();
    report.figure("accepted in", seconds, "s");
    report.figure("accepted", points / seconds, "points/s");
    report.figure("idle after", idle.since.max(accepted.at).duration_since(before.at).as_secs_f64(), "s");
    let per_million = |cpu_seconds: f64| cpu_seconds / (points / 1e6);
    let until_accepted = accepted.cpu_seconds - before.cpu_seconds;
    report.figure("server until accepted", per_million(until_accepted), "CPU s/M points");
    let until_idle = idle.cpu_seconds.max(accepted.cpu_seconds) - before.cpu_seconds;
    report.figure("server until idle", per_million(until_idle), "CPU s/M points");
    let sender = accepted.own_cpu_seconds - before.own_cpu_seconds;
    report.figure("sender", per_million(sender), "CPU s/M points");
    report_memory(options, target, memory_at_start, report);
    report_counters(points, &before, &after, report);
    report_disk(options, target, &before, &after, report);
    Ok(())
}

impl LoadOptions {
    fn total(&self) -> u64 {
        self.metrics as u64 * u64::from(self.points)
    }

    fn workload(&self) -> Workload {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as u32);
        let start = (now / STEP * STEP).saturating_sub(STEP * self.points.saturating_sub(1));
        Workload {
            shape: self.names,
            prefix: self.prefix.clone(),
            seed: self.seed,
            start,
            points: self.points,
            protocol: self.protocol,
            batch: self.batch.max(1),
        }
    }

    /// The lines of each connection. They are generated now if they fit into `buffer`.
    fn lines(&self, workload: &Workload, buffer: ByteSize) -> Vec<Lines> {
        // The mean length of a point whose name has about 50 bytes.
        let bytes = if self.protocol.path().is_some() { 150 } else { 75 };
        let fits = self.metrics as u64 * u64::from(workload.points) * bytes <= buffer.0;
        let lines = |share| {
            let chunks = Chunks::new(workload.clone(), share);
            if fits { Lines::Ready(chunks.collect()) } else { Lines::OnTheFly(Box::new(chunks)) }
        };
        workload::shares(self.metrics, self.connections.max(1)).into_iter().map(lines).collect()
    }
}

/// The state of the server and the sender at one moment.
struct Snapshot {
    at: Instant,
    cpu_seconds: f64,
    own_cpu_seconds: f64,
    metrics: Option<Metrics>,
    disk_bytes: u64,
}

impl Snapshot {
    fn take(target: &Target) -> Self {
        Self {
            at: Instant::now(),
            cpu_seconds: target.server.cpu_seconds(),
            own_cpu_seconds: process::own_cpu_seconds(),
            metrics: target.server.metrics(),
            disk_bytes: target.data_dir.as_deref().map_or(0, process::disk_bytes),
        }
    }
}

fn report_load(options: &LoadOptions, report: &mut Report) {
    report.count("metrics", options.metrics as u64, "");
    report.count("of them new", if options.new { options.metrics as u64 } else { 0 }, "");
    report.count("points", options.total(), "sent");
    report.count("connections", options.connections as u64, "");
}

fn report_memory(
    options: &LoadOptions,
    target: &Target,
    at_start: Option<process::Memory>,
    report: &mut Report,
) {
    let Some(memory) = target.server.memory() else { return };
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let per_metric = |bytes: u64| bytes as f64 / options.metrics as f64;
    report.figure("RSS", mebibytes(memory.resident_bytes), "MiB");
    report.figure("RSS per metric", per_metric(memory.resident_bytes), "B");
    report.figure("peak RSS per metric", per_metric(memory.peak_bytes), "B");
    report.figure("RSS before the load", at_start.map_or(f64::NAN, |m| mebibytes(m.resident_bytes)), "MiB");
}

/// Reports how many of the sent points the daemon counted, and how many it still holds in memory.
fn report_counters(points: f64, before: &Snapshot, after: &Snapshot, report: &mut Report) {
    let Some(now) = &after.metrics else { return };
    let percent = |name: &str| {
        let start = before.metrics.as_ref().and_then(|m| m.sum(name)).unwrap_or(0.0);
        now.sum(name).map_or(f64::NAN, |end| (end - start) / points * 100.0)
    };
    report.figure("received of those sent", percent(RECEIVED), "%");
    report.figure("journaled of those sent", percent(JOURNALED), "%");
    report.figure("held in memory", now.sum(HELD).unwrap_or(f64::NAN), "points");
}

fn report_disk(
    options: &LoadOptions,
    target: &Target,
    before: &Snapshot,
    after: &Snapshot,
    report: &mut Report,
) {
    let Some(data_dir) = &target.data_dir else {
        report.figure("disk grew by", f64::NAN, "B/point");
        return;
    };
    let grown = after.disk_bytes.saturating_sub(before.disk_bytes) as f64;
    report.figure("disk grew by", grown / options.total() as f64, "B/point");
    let created = u32::from(!options.new);
    let points = options.metrics as f64 * f64::from(options.points + created);
    report.figure("disk", process::disk_bytes(data_dir) as f64 / points, "B/point");
    for (entry, bytes) in process::disk_bytes_by_entry(data_dir) {
        report.figure(format!("disk: {entry}"), bytes as f64 / points, "B/point");
    }
}
