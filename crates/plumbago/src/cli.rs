//! The command line: options, commands and the help text, parsed by clap.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::{
    backup, bench, config, copies, delete, dev, diff, graphite, kairosdb, list, maintain, names, other_store,
    replay, restore, rules, schema, show, stats, test, traffic, whisper,
};

const EXAMPLES: &str = "\
Examples:
  plumbago                                   start with ./plumbago.toml if it exists, else with the defaults
  plumbago --config /etc/plumbago.toml       start with this file
  plumbago syncdb --dry-run                  show what is missing in Cassandra
  plumbago config check                      print all problems of the configuration and the rules
  PLUMBAGO__API__LISTEN=0.0.0.0:8080 plumbago
                                             override a setting
  plumbago info servers.a.cpu.user           settings, points and bytes of a metric
  plumbago clean --dry-run --max-age 90d     list metrics without a point for 90 days
  plumbago repair windows --from 2d --dry-run
                                             count aggregates that differ from their raw points
  plumbago delete --dry-run 'servers.old01.**'
                                             count the metrics that would be deleted
  plumbago move --dry-run servers.a servers.b
                                             count the metrics that would get other names
  plumbago replay --since 30m                send rows again that a node may have lost
  plumbago backup /mnt/backup/plumbago       back up the running daemon; only what is new is copied
  plumbago restore /mnt/backup/plumbago --data-dir /var/lib/plumbago
  plumbago import-whisper /opt/graphite/storage/whisper
  plumbago import-kairosdb --dry-run --suggest-rules export.txt.gz
  plumbago import-graphite --dry-run http://graphite.example
  plumbago import-store --dry-run /etc/plumbago/old.toml
  plumbago bench load --spawn --metrics 1000000 --points 30
  plumbago dev cassandra                     run a real Cassandra here and print how to use it

Exit codes: 0 done, 1 internal error, 2 wrong command line, 3 wrong configuration,
4 store unavailable, 5 problem found in the data.";

const SERVE_EXAMPLES: &str = "\
Examples:
  plumbago serve                             start with ./plumbago.toml if it exists, else with the defaults

kill -HUP reads the files again, kill -TERM stops it.";

/// Replaces carbon, whisper and graphite-web.
#[derive(Debug, Parser)]
#[command(name = "plumbago", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Configuration file; by default ./plumbago.toml if it exists
    #[arg(long, value_name = "FILE", global = true, env = "PLUMBAGO_CONFIG")]
    pub config: Option<PathBuf>,
    /// The command; `serve` if omitted.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands. clap prints these comments as help.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon (the default)
    #[command(after_help = SERVE_EXAMPLES)]
    Serve,
    /// Check or show the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Create missing tables in Cassandra or ScyllaDB
    Syncdb(schema::SyncdbArgs),
    /// Show the tables in Cassandra or ScyllaDB and how they differ from the expected ones
    Schema(schema::SchemaArgs),
    /// Remove unusable rows, empty directories and metrics that are no longer written
    Clean(maintain::CleanArgs),
    /// Create missing directories and remove unusable rows; `repair windows` corrects aggregates
    Repair(maintain::RepairArgs),
    /// List metrics
    List(list::ListArgs),
    /// Show settings, dates, points and bytes of metrics
    Info(show::InfoArgs),
    /// Print points of metrics, as Graphite shows them or as they are stored
    Read(show::ReadArgs),
    /// Write a point
    Write(show::WriteArgs),
    /// Show how much disk space metrics use, by directory
    Du(list::DuArgs),
    /// Count metrics and points by namespace, as a table, as csv or as points for carbon
    Stats(stats::StatsArgs),
    /// List tags, or the values of one tag
    Tags(list::TagsArgs),
    /// Explain the storage rules, or apply them to existing metrics
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// Copy metrics to other names, with all their points
    Copy(copies::CopyArgs),
    /// Give metrics other names
    Move(copies::MoveArgs),
    /// Delete metrics with all their points
    Delete(delete::DeleteArgs),
    /// Back up the data directory, also while the daemon runs
    Backup(backup::BackupArgs),
    /// Restore a backup into a new data directory
    Restore(restore::RestoreArgs),
    /// Compare what two Graphite servers answer
    Diff(diff::DiffArgs),
    /// Repeat recorded requests or lines, at the pace at which they were recorded
    ReplayTraffic(traffic::ReplayTrafficArgs),
    /// Send a point to each listener of the running daemon and read it back
    Test(test::TestArgs),
    /// Send rows again that Cassandra may have lost
    Replay(replay::ReplayArgs),
    /// Import the points of whisper files
    ImportWhisper(whisper::ImportArgs),
    /// Write metrics as whisper files
    ExportWhisper(whisper::ExportArgs),
    /// Import the history of a KairosDB or an OpenTSDB
    ImportKairosdb(kairosdb::ImportArgs),
    /// Import the points of another Graphite server, read by /render
    ImportGraphite(graphite::ImportArgs),
    /// Import another store of Plumbago, with the counts of all windows
    ImportStore(other_store::ImportArgs),
    /// Create metrics from a list of names with their settings
    ImportNames(names::ImportArgs),
    /// Add the events of another Graphite server
    ImportEvents(graphite::EventsArgs),
    /// Measure a running server
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Tools for trying Plumbago out
    #[command(subcommand)]
    Dev(dev::DevCommand),
}
