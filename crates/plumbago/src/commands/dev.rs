//! `plumbago dev cassandra`: starts a real Cassandra to try Plumbago with.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plumbago_cassandra_node::dev::DevNode;
use plumbago_cassandra_node::{Options, Release, cache};

use crate::error::{Exit, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  plumbago dev cassandra                 start a node unless it is running; print how to use it
  plumbago dev cassandra --stop          stop it and keep its data
  plumbago dev cassandra --address 127.0.0.2 --directory /tmp/second
                                         start a second node beside it
  plumbago dev cassandra --release 4.1 --address 127.0.0.2
                                         start an older version

It needs Java 17 and, for the first start, Maven; for 4.1 and 3.11 it needs Java 11, or pip to get it. The jars (67 MB)
are kept in the user's cache. It is not for production: one node, a small heap, no passwords.";

/// The commands of `plumbago dev`.
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Run a real Apache Cassandra on this machine
    Cassandra(CassandraArgs),
}

/// Options of `plumbago dev cassandra`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CassandraArgs {
    /// Version of Cassandra: 5.0, 4.1 or 3.11
    #[arg(long, default_value_t = Release::default())]
    release: Release,
    /// Directory for data, settings and log; by default `plumbago-tests/cassandra/dev` in the user's cache
    /// (`dev-4.1` for 4.1, `dev-3.11` for 3.11)
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Loopback address to listen on, with ports 9042 and 7000
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = loopback)]
    address: Ipv4Addr,
    /// Size of the Java heap; the process takes about 300 MiB more
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(192..=32768))]
    heap_mib: u32,
    /// Stop the server
    #[arg(long)]
    stop: bool,
}

fn loopback(text: &str) -> Result<Ipv4Addr, String> {
    let address: Ipv4Addr = text.parse().map_err(|_| "not an IPv4 address".to_owned())?;
    // The server requires no password, so it must not be reachable from other machines.
    if address.is_loopback() { Ok(address) } else { Err("must be in 127.0.0.0/8".to_owned()) }
}

/// Runs a `plumbago dev` command.
///
/// # Errors
///
/// If the node cannot be downloaded, started or contacted, or the output fails.
pub fn run(command: DevCommand) -> Result<(), Failure> {
    match command {
        DevCommand::Cassandra(args) => cassandra(&args),
    }
}

fn cassandra(args: &CassandraArgs) -> Result<(), Failure> {
    let directory = match &args.directory {
        Some(directory) => directory.clone(),
        None => cache::cassandra().map_err(failure)?.join(directory_name(args.release)),
    };
    let node = DevNode::new(&directory, args.address).map_err(failure)?;
    if args.stop {
        return Ok(print(if node.stop() { "stopped\n" } else { "not running\n" })?);
    }
    if node.running().is_none() {
        eprintln!("starting Cassandra {} on {} ...", args.release.version(), node.socket());
    }
    // The commit log is synced as in Cassandra's default configuration.
    let options = Options {
        release: args.release,
        commitlog_sync: plumbago_cassandra_node::CommitlogSync::Periodic,
        heap_mib: args.heap_mib,
        quick: false,
        ..Options::default()
    };
    node.start(&options).map_err(failure)?;
    let version = node.version().map_err(failure)?;
    Ok(print(&instructions(&node, &version, args))?)
}

/// Returns the name of a release's directory. Releases do not share one, because an older release cannot read
/// the data of a newer one.
fn directory_name(release: Release) -> String {
    if release == Release::default() { "dev".to_owned() } else { format!("dev-{release}") }
}

fn instructions(node: &DevNode, version: &str, args: &CassandraArgs) -> String {
    let mut stop = "plumbago dev cassandra --stop".to_owned();
    match &args.directory {
        Some(_) => stop += &format!(" --directory {}", node.directory().display()),
        None if args.release == Release::default() => {}
        None => stop += &format!(" --release {}", args.release),
    }
    format!(
        "# Cassandra {version} runs on {} (process {}).\n# Data, settings and log: {}\n# To stop it: {stop}\n#\n\
         # To use it, put this into plumbago.toml:\n\n\
         [store]\nkind = \"cassandra\"\n\n\
         [store.cassandra]\ncontact_points = [\"{0}\"]\n",
        node.socket(),
        node.running().unwrap_or_default(),
        node.directory().display(),
    )
}

fn failure(error: plumbago_cassandra_node::NodeError) -> Failure {
    Failure::new(Exit::Store, error)
}
