//! `plumbago bench load`: how much a server costs for each point.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use plumbago_model::ByteSize;

use super::disk;
use super::report::Report;
use crate::bench::admin::{HELD, JOURNALED, Metrics, RECEIVED};
use crate::bench::daemon::Daemon;
use crate::bench::http::Client;
use crate::bench::names::Shape;
use crate::bench::process;
use crate::bench::sender::{self, Lines};
use crate::bench::settle::Server;
use crate::bench::workload::{self, Chunks, Plan, STEP};
use crate::config::{self, Config};
use crate::error::{Exit, Failure};
use crate::output::print;

/// What to send, and where.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Metrics
    #[arg(long, default_value_t = 100_000)]
    metrics: usize,
    /// Points of each metric, one a minute, the last of them about now
    #[arg(long, default_value_t = 30)]
    points: u32,
    /// TCP connections; each sends its share of the metrics, always in the same order
    #[arg(long, default_value_t = 10)]
    connections: usize,
    /// Measure metrics that the server has never seen; without it they are created beforehand
    #[arg(long)]
    new: bool,
    /// Points a second at most; 0 for as fast as they go
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// The same seed sends the same values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the names look like
    #[arg(long, value_enum, default_value_t = Shape::Mixed)]
    names: Shape,
    /// Goes in front of every name, like "bench1."
    #[arg(long, default_value = "")]
    prefix: String,
    /// Start a daemon of this binary for the measurement, on a data directory that is removed
    /// afterwards (or kept when --data-dir names it)
    #[arg(long)]
    spawn: bool,
    /// End that daemon with SIGKILL, so that only blocks that filled up are counted on the disk
    #[arg(long, requires = "spawn")]
    kill: bool,
    /// Merge its blocks into long ones before they are counted
    #[arg(long, requires = "spawn")]
    merge: bool,
    /// Where the server takes lines
    #[arg(long, default_value = "127.0.0.1:2003", conflicts_with = "spawn")]
    addr: String,
    /// Its admin port; "" for a server that has none
    #[arg(long, default_value = "127.0.0.1:8081", conflicts_with = "spawn")]
    admin: String,
    /// Its process, for processor time and memory
    #[arg(long, conflicts_with = "spawn")]
    pid: Option<u32>,
    /// Its data directory, for bytes on disk
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Lines up to this size altogether are made before the clock starts, others while sending
    #[arg(long, default_value = "6GiB")]
    buffer: ByteSize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures once and prints the report.
pub fn run(args: &LoadArgs, file: Option<&Path>) -> Result<(), Failure> {
    let temporary = match (args.spawn, &args.data_dir) {
        (true, None) => Some(tempfile::tempdir()?),
        _ => None,
    };
    let data_dir = args.data_dir.clone().or_else(|| temporary.as_ref().map(|t| t.path().join("data")));
    let daemon = match (&data_dir, args.spawn) {
        (Some(data_dir), true) => Some(Daemon::spawn(data_dir, file)?),
        _ => None,
    };
    let mut target = Target::new(args, daemon.as_ref(), data_dir);
    let mut report = Report::default();
    target.measure(args, &mut report)?;
    if let Some(daemon) = daemon {
        match args.kill {
            true => daemon.kill()?,
            false => report.figure("stop took", daemon.stop()?.as_secs_f64(), "s"),
        }
        let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
        let data_dir = target.data_dir.unwrap_or_default();
        disk::measure(&Config { data_dir, ..loaded.config }, args.merge, &mut report)?;
    }
    Ok(print(&if args.json { report.json() } else { report.table() })?)
}

struct Target {
    address: String,
    server: Server,
    data_dir: Option<PathBuf>,
}

/// What is known at one moment.
struct Snapshot {
    at: Instant,
    cpu: f64,
    own_cpu: f64,
    metrics: Option<Metrics>,
    disk_bytes: u64,
}

impl Target {
    fn new(args: &LoadArgs, daemon: Option<&Daemon>, data_dir: Option<PathBuf>) -> Self {
        let (address, admin, pid) = match daemon {
            Some(daemon) => (daemon.line.clone(), daemon.admin.clone(), Some(daemon.pid())),
            None => (args.addr.clone(), args.admin.clone(), args.pid),
        };
        let admin = (!admin.is_empty()).then(|| Client::new(&admin));
        Self { address, server: Server { pid, admin }, data_dir }
    }

    fn measure(&mut self, args: &LoadArgs, report: &mut Report) -> Result<(), Failure> {
        let plan = plan(args);
        let before_all = self.memory();
        if !args.new {
            let warm_up = Plan { start: plan.start - STEP, points: 1, ..plan.clone() };
            self.send(args, &warm_up, "creating the metrics")?;
            self.server.settle()?;
        }
        let shares = make(args, &plan);
        let points = args.metrics as u64 * u64::from(plan.points);
        let before = self.snapshot();
        let sent = AtomicU64::new(0);
        let finished = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| progress("sending", points, &sent, &finished));
            let result = sender::send(&self.address, shares, args.rate, &sent);
            finished.store(true, Ordering::Release);
            result
        })?;
        let accepted = self.snapshot();
        let settled = self.server.settle()?;
        let after = self.snapshot();

        report.count("metrics", args.metrics as u64, "");
        report.count("of them new", if args.new { args.metrics as u64 } else { 0 }, "");
        report.count("points", points, "sent");
        report.count("connections", args.connections as u64, "");
        let seconds = accepted.at.duration_since(before.at).as_secs_f64();
        report.figure("accepted in", seconds, "s");
        report.figure("accepted", points as f64 / seconds, "points/s");
        let idle = settled.at.max(accepted.at).duration_since(before.at).as_secs_f64();
        report.figure("idle after", idle, "s");
        let per_million = |cpu: f64| cpu / (points as f64 / 1e6);
        report.figure("server until accepted", per_million(accepted.cpu - before.cpu), "CPU s/M points");
        let until_idle = settled.cpu_seconds.max(accepted.cpu) - before.cpu;
        report.figure("server until idle", per_million(until_idle), "CPU s/M points");
        report.figure("sender", per_million(accepted.own_cpu - before.own_cpu), "CPU s/M points");
        self.report_memory(args, before_all, report);
        report_counters(points, &before, &after, report);
        let grown = after.disk_bytes.saturating_sub(before.disk_bytes) as f64;
        let known = self.data_dir.is_some();
        report.figure("disk grew by", if known { grown / points as f64 } else { f64::NAN }, "B/point");
        self.report_disk("disk", args, report);
        Ok(())
    }

    /// Sends without measuring.
    fn send(&self, args: &LoadArgs, plan: &Plan, message: &'static str) -> Result<(), Failure> {
        let (sent, finished) = (AtomicU64::new(0), AtomicBool::new(false));
        let points = args.metrics as u64 * u64::from(plan.points);
        let lazy = |share| Lines::Lazy(Box::new(Chunks::new(plan.clone(), share)));
        let shares = workload::shares(args.metrics, args.connections.max(1)).into_iter().map(lazy).collect();
        thread::scope(|scope| {
            scope.spawn(|| progress(message, points, &sent, &finished));
            let result = sender::send(&self.address, shares, 0, &sent);
            finished.store(true, Ordering::Release);
            result
        })?;
        Ok(())
    }

    fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            at: Instant::now(),
            cpu: self.server.cpu(),
            own_cpu: process::own_cpu_seconds(),
            metrics: self.server.metrics(),
            disk_bytes: self.data_dir.as_deref().map_or(0, process::disk_bytes),
        }
    }

    fn memory(&self) -> Option<process::Memory> {
        process::memory(self.server.pid?).ok()
    }

    fn report_memory(&self, args: &LoadArgs, before: Option<process::Memory>, report: &mut Report) {
        let Some(memory) = self.memory() else { return };
        let per_metric = |bytes: u64| bytes as f64 / args.metrics as f64;
        report.figure("RSS", memory.resident_bytes as f64 / 1048576.0, "MiB");
        report.figure("RSS per metric", per_metric(memory.resident_bytes), "B");
        report.figure("peak RSS per metric", per_metric(memory.peak_bytes), "B");
        let start = before.map_or(f64::NAN, |m| m.resident_bytes as f64 / 1048576.0);
        report.figure("RSS before the load", start, "MiB");
    }

    fn report_disk(&self, title: &str, args: &LoadArgs, report: &mut Report) {
        let Some(data_dir) = &self.data_dir else { return };
        let created = if args.new { 0 } else { 1 };
        let points = args.metrics as f64 * f64::from(args.points + created);
        let mut row = |name: String, bytes: u64| report.figure(name, bytes as f64 / points, "B/point");
        row(title.to_owned(), process::disk_bytes(data_dir));
        for (entry, bytes) in process::disk_bytes_by_entry(Path::new(data_dir)) {
            row(format!("{title}: {entry}"), bytes);
        }
    }
}

/// What the daemon counted between two moments, and what it says of its store.
fn report_counters(points: u64, before: &Snapshot, after: &Snapshot, report: &mut Report) {
    let Some(now) = &after.metrics else { return };
    let grown = |name: &str| {
        let start = before.metrics.as_ref().and_then(|m| m.sum(name)).unwrap_or(0.0);
        now.sum(name).map_or(f64::NAN, |end| end - start)
    };
    report.figure("received of those sent", grown(RECEIVED) / points as f64 * 100.0, "%");
    report.figure("journaled of those sent", grown(JOURNALED) / points as f64 * 100.0, "%");
    report.figure("held in memory", now.sum(HELD).unwrap_or(f64::NAN), "points");
}

/// The last point is about now.
fn plan(args: &LoadArgs) -> Plan {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as u32);
    let start = (now / STEP * STEP).saturating_sub(STEP * args.points.saturating_sub(1));
    Plan { shape: args.names, prefix: args.prefix.clone(), seed: args.seed, start, points: args.points }
}

/// Makes the lines beforehand when they fit.
fn make(args: &LoadArgs, plan: &Plan) -> Vec<Lines> {
    const LINE_BYTES: u64 = 75;
    let fits = args.metrics as u64 * u64::from(plan.points) * LINE_BYTES <= args.buffer.0;
    let shares = workload::shares(args.metrics, args.connections.max(1));
    let chunks = |share| Chunks::new(plan.clone(), share);
    if !fits {
        return shares.into_iter().map(|share| Lines::Lazy(Box::new(chunks(share)))).collect();
    }
    shares.into_iter().map(|share| Lines::Made(chunks(share).collect())).collect()
}

/// A bar on a terminal, else a line every 30 seconds.
fn progress(message: &'static str, points: u64, sent: &AtomicU64, finished: &AtomicBool) {
    let bar = ProgressBar::new(points).with_message(message);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {per_sec}") {
        bar.set_style(style);
    }
    let (mut said, begun) = (0, Instant::now());
    while !finished.load(Ordering::Acquire) {
        let count = sent.load(Ordering::Relaxed);
        bar.set_position(count);
        let due = begun.elapsed().as_secs() / 30;
        if bar.is_hidden() && due > said {
            said = due;
            eprintln!("{message}: {count} of {points} points");
        }
        thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
