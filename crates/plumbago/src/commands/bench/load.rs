//! `plumbago bench load`: sends points to a server and reports what each one costs in time, memory and disk.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plumbago_bench::load::{self, LoadOptions, Protocol, Target};
use plumbago_bench::{Client, Daemon, Report, Server};
use plumbago_model::ByteSize;

use super::{Names, disk, print_report};
use crate::config::{self, Config};
use crate::error::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  plumbago bench load --spawn --metrics 1000000 --points 30
                                                  starts its own daemon, on a temporary data directory
  plumbago bench load --addr 127.0.0.1:2003 --rate 100000
                                                  measures a running server, at 100,000 points per second";

/// Options of `plumbago bench load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArgs {
    /// Number of metrics
    #[arg(long, default_value_t = 100_000)]
    metrics: usize,
    /// Points per metric, one minute apart; the last is about now
    #[arg(long, default_value_t = 30)]
    points: u32,
    /// TCP connections; each sends an equal share of the metrics, always in the same order
    #[arg(long, default_value_t = 10)]
    connections: usize,
    /// Measure the creation of the metrics too; without it they are created beforehand
    #[arg(long)]
    new: bool,
    /// Points per second at most; 0 for no limit
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// The same seed sends the same values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Scheme of the names
    #[arg(long, value_enum, default_value_t = Names::Mixed)]
    names: Names,
    /// Put in front of every name, like "bench1."
    #[arg(long, default_value = "")]
    prefix: String,
    /// The form of the points
    #[arg(long, value_enum, default_value_t = Form::Line)]
    protocol: Form,
    /// Points of a request, with --protocol datapoints or api-put
    #[arg(long, default_value_t = 1000)]
    batch: usize,
    /// Start a daemon of this binary for the measurement, on a temporary data directory (or on --data-dir,
    /// which is kept)
    #[arg(long)]
    spawn: bool,
    /// End that daemon with SIGKILL instead of a clean stop, so that only full blocks are on disk
    #[arg(long, requires = "spawn")]
    kill: bool,
    /// Merge its blocks into long ones before measuring its disk use
    #[arg(long, requires = "spawn")]
    merge: bool,
    /// Where the server accepts points; by default the usual port of the protocol on this machine
    #[arg(long, conflicts_with = "spawn")]
    addr: Option<String>,
    /// Admin port of the server; "" if it has none
    #[arg(long, default_value = "127.0.0.1:8081", conflicts_with = "spawn")]
    admin: String,
    /// Process id of the server, for processor time and memory
    #[arg(long, conflicts_with = "spawn")]
    pid: Option<u32>,
    /// Data directory of the server, for disk use
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Size of the lines to generate before the measurement starts; the rest is generated while sending
    #[arg(long, default_value = "6GiB")]
    buffer: ByteSize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago bench load`: measures once and prints the report.
///
/// # Errors
///
/// If the daemon cannot be started or stopped, the server cannot be reached, the configuration has errors, or
/// the store cannot be opened to measure its disk use.
pub fn run(args: &LoadArgs, file: Option<&Path>) -> Result<(), Failure> {
    let mut report = Report::default();
    if args.spawn {
        spawn_and_measure(args, file, &mut report)?;
    } else {
        let admin = (!args.admin.is_empty()).then(|| Client::new(&args.admin));
        let server = Server { pid: args.pid, admin };
        let target = Target { address: args.address(), server, data_dir: args.data_dir.clone() };
        load::measure(&args.options(), &target, &mut report)?;
    }
    print_report(&report, args.json)
}

fn spawn_and_measure(args: &LoadArgs, file: Option<&Path>, report: &mut Report) -> Result<(), Failure> {
    let temporary = tempfile::tempdir()?;
    let data_dir = args.data_dir.clone().unwrap_or_else(|| temporary.path().join("data"));
    let daemon = Daemon::spawn(&std::env::current_exe()?, &data_dir, file)?;
    let server = Server { pid: Some(daemon.pid()), admin: Some(Client::new(&daemon.admin)) };
    let target =
        Target { address: args.protocol.address(&daemon).clone(), server, data_dir: Some(data_dir.clone()) };
    load::measure(&args.options(), &target, report)?;
    match args.kill {
        true => daemon.kill()?,
        false => report.figure("stop took", daemon.stop()?.as_secs_f64(), "s"),
    }
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    disk::measure(&Config { data_dir, ..loaded.config }, args.merge, report)
}

/// The form of the points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Graphite's lines
    Line,
    /// OpenTSDB's and KairosDB's lines; three tags replace the first components of a name
    Put,
    /// Requests to KairosDB's /api/v1/datapoints, as above
    Datapoints,
    /// Requests to OpenTSDB's /api/put, as above
    ApiPut,
}

impl Form {
    fn address(self, daemon: &Daemon) -> &String {
        match self {
            Self::Line => &daemon.line,
            Self::Put => &daemon.opentsdb,
            Self::Datapoints | Self::ApiPut => &daemon.api,
        }
    }
}

impl From<Form> for Protocol {
    fn from(form: Form) -> Self {
        match form {
            Form::Line => Self::Line,
            Form::Put => Self::Put,
            Form::Datapoints => Self::Datapoints,
            Form::ApiPut => Self::ApiPut,
        }
    }
}

impl LoadArgs {
    fn address(&self) -> String {
        let usual = match self.protocol {
            Form::Line => "127.0.0.1:2003",
            Form::Put => "127.0.0.1:4242",
            Form::Datapoints | Form::ApiPut => "127.0.0.1:8080",
        };
        self.addr.clone().unwrap_or_else(|| usual.to_owned())
    }

    fn options(&self) -> LoadOptions {
        LoadOptions {
            metrics: self.metrics,
            points: self.points,
            connections: self.connections,
            new: self.new,
            rate: self.rate,
            seed: self.seed,
            names: self.names.into(),
            prefix: self.prefix.clone(),
            protocol: self.protocol.into(),
            batch: self.batch,
            buffer: self.buffer,
        }
    }
}
