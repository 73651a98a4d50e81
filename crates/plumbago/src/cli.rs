//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::{bench, dev, maintain, replay, schema};

const EXAMPLES: &str = "\
Examples:
  plumbago                                   start with ./plumbago.toml, or with the defaults
  plumbago --config /etc/plumbago.toml       start with this file
  plumbago syncdb --dry-run                  show what is missing in Cassandra
  plumbago config check                      name every problem of the configuration and the rules
  PLUMBAGO__API__LISTEN=0.0.0.0:8080 plumbago
                                             override a setting
  plumbago clean --dry-run --max-age 90d     tell which metrics nobody has written for so long
  plumbago replay --since 30m                send again what a returned node may have lost
  plumbago bench load --spawn --metrics 1000000 --points 30
  plumbago dev cassandra                     run a real Cassandra here and print how to use it

Exit codes: 0 done, 1 internal error, 2 wrong command line, 3 wrong configuration,
4 store unavailable, 5 problem found in the data.";

/// Takes the place of carbon, whisper and graphite-web.
#[derive(Debug, Parser)]
#[command(name = "plumbago", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Configuration file; ./plumbago.toml when it is there, else the defaults
    #[arg(long, value_name = "FILE", global = true, env = "PLUMBAGO_CONFIG")]
    pub config: Option<PathBuf>,
    /// What to do; `serve` when not given.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon (the default)
    Serve,
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make the tables that are missing in Cassandra or ScyllaDB
    Syncdb(schema::SyncdbArgs),
    /// Show the tables of Cassandra or ScyllaDB, and how the server differs
    Schema(schema::SchemaArgs),
    /// Remove what no reader can use, empty directories, and what nobody writes any more
    Clean(maintain::CleanArgs),
    /// Make directories that metrics lack, and remove rows that no reader can use
    Repair(maintain::MaintainArgs),
    /// Send Cassandra again what was sent since a time, for rows that it lost
    Replay(replay::ReplayArgs),
    /// Measure a running server
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Try things out
    #[command(subcommand)]
    Dev(dev::DevCommand),
}

/// What can be done with a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Print every problem with its file and line; exit code 3 when there is an error
    Check,
    /// Print every setting with the value that holds
    Show,
    /// Print all settings with their defaults and what they mean
    Default,
}
