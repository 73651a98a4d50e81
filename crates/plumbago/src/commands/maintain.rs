//! `plumbago clean` and `plumbago repair`: run maintenance jobs now, here or in the daemon.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use plumbago_maintenance::Report;
use plumbago_maintenance::verb::Verb;
use plumbago_maintenance::verbs::clean::{Clean, Repair, Settings};
use plumbago_maintenance::windows::Selection;
use plumbago_model::Period;
use plumbago_store::Share;
use plumbago_store_embedded::damaged_files;

use super::rescue::{self, RescueArgs};
use super::since;
use super::verb::{self, Outcome};
use crate::config::{Loaded, StoreKind};
use crate::error::{Exit, Failure};
use crate::held::is_held;
use crate::output::print;

/// Options of all commands.
#[derive(Debug, Clone, Default, Args)]
pub struct MaintainArgs {
    /// Print what would be done and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Process part I of N of the rows (0/N to N-1/N), so that several processes can share the work
    #[arg(long, value_name = "I/N", value_parser = share)]
    pub shard: Option<Share>,
    /// Read at most this many rows per second; 0 means no limit
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
    /// Print the reports as JSON
    #[arg(long)]
    pub json: bool,
}

impl MaintainArgs {
    fn settings(&self) -> Settings {
        let shard = self.shard.map(|Share { index, of }| (index, of));
        Settings { dry_run: self.dry_run, shard, rate: self.rate }
    }
}

const CLEAN_EXAMPLES: &str = "\
Examples:
  plumbago clean --dry-run                       what would be removed
  plumbago clean --dry-run --max-age 90d         metrics without a point for 90 days, too
  plumbago clean --shard 0/4                     the first quarter of the rows";

const REPAIR_EXAMPLES: &str = "\
Examples:
  plumbago repair --dry-run                      what would be repaired
  plumbago repair windows --dry-run              windows that differ from their raw points";

/// Options of `clean`.
#[derive(Debug, Clone, Args)]
#[command(after_help = CLEAN_EXAMPLES)]
pub struct CleanArgs {
    /// Delete metrics without a point for this long, like 30d; at least 6d
    #[arg(long, value_name = "PERIOD")]
    pub max_age: Option<Period>,
    #[command(flatten)]
    common: MaintainArgs,
}

/// Options of `repair`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = REPAIR_EXAMPLES)]
pub struct RepairArgs {
    #[command(subcommand)]
    what: Option<RepairCommand>,
    #[command(flatten)]
    common: MaintainArgs,
}

/// The commands of `plumbago repair`. clap prints these comments as help.
#[derive(Debug, Clone, Subcommand)]
pub enum RepairCommand {
    /// Fold closed windows of the coarser stages again from their raw points, and correct those that differ
    #[command(after_help = WINDOWS_EXAMPLES)]
    Windows(WindowsArgs),
    /// Repair a damaged store so that it opens again, after a start refused it
    #[command(after_help = rescue::EXAMPLES)]
    Store(RescueArgs),
}

const WINDOWS_EXAMPLES: &str = "\
Windows differ after a data directory was lost, or if several daemons of a replica received the same points. A window is
compared 10 minutes (maintenance.repair_windows_after) and 60 raw slots after its end, and only while its raw points
are there. Run it on one daemon of each replica: each daemon corrects the windows of its own replica.

Examples:
  plumbago repair windows --dry-run              count the windows of the last two days that differ
  plumbago repair windows 'web.*.requests' --from 7d --until 1d
  plumbago repair windows --from 1700000000      everything since then";

/// Options of `repair windows`.
#[derive(Debug, Clone, Args)]
pub struct WindowsArgs {
    /// Only metrics whose name matches this glob
    #[arg(value_name = "GLOB")]
    glob: Option<String>,
    /// Only windows that end after this time: a period back from now like 7d, or seconds since the epoch
    /// [default: 2d]
    #[arg(long, value_name = "TIME", value_parser = since)]
    from: Option<i64>,
    /// Only windows that begin before this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<i64>,
    #[command(flatten)]
    common: MaintainArgs,
}

fn share(text: &str) -> Result<Share, String> {
    let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((index, of)) if index < of => Ok(Share { index, of }),
        _ => Err(format!("{text:?} is not I/N with I below N, like 0/4")),
    }
}

/// Runs `plumbago clean`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, the store or the daemon cannot be reached,
/// another process runs one of the jobs, or a job fails or is interrupted.
pub fn clean(args: &CleanArgs, file: Option<&Path>) -> Result<(), Failure> {
    let max_age_seconds = args.max_age.map(|age| age.as_secs());
    run(&Clean { max_age_seconds, settings: args.common.settings() }, &args.common, verb::load(file)?)
}

/// Runs `plumbago repair`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, the store or the daemon cannot be reached,
/// another process runs one of the jobs, or a job fails or is interrupted.
pub fn repair(args: &RepairArgs, file: Option<&Path>) -> Result<(), Failure> {
    let (windows, common) = match &args.what {
        Some(RepairCommand::Store(args)) => return rescue::run(args, file),
        Some(RepairCommand::Windows(WindowsArgs { glob, from, until, common })) => {
            let selection = Selection { names: glob.clone(), from: *from, until: *until };
            selection.check().map_err(|error| Failure::new(Exit::Usage, anyhow!("GLOB: {error}")))?;
            (Some(selection), common)
        }
        None => (None, &args.common),
    };
    let loaded = verb::load(file)?;
    if windows.is_some() && loaded.config.store.kind != StoreKind::Cassandra {
        return Ok(print("the embedded store has one writer, so its windows need no repair (store.kind)\n")?);
    }
    run(&Repair { windows, settings: common.settings() }, common, loaded)
}

fn run<V: Verb<Answer = Vec<Report>>>(verb: &V, args: &MaintainArgs, loaded: Loaded) -> Result<(), Failure> {
    let config = &loaded.config;
    let grace = config.maintenance.grace;
    let looks = args.dry_run && !is_held(config);
    let damaged = if looks { damaged_files(&config.store_dir()) } else { Vec::new() };
    let Outcome { answer: reports, damage } = verb::carry_out(verb, loaded)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&reports).map_err(anyhow::Error::from)?))?;
    } else {
        for report in &reports {
            print(&summary(report, args.dry_run, grace))?;
        }
    }
    let files = damaged.iter().map(|file| format!("{} is damaged", file.display()));
    let damage: Vec<String> = damage.into_iter().chain(files).collect();
    for line in &damage {
        if args.json { eprintln!("{line}") } else { print(&format!("{line}\n"))? }
    }
    if damage.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
}

fn compared(report: &Report) -> String {
    if report.windows > 0 { format!(", {} windows compared", report.windows) } else { String::new() }
}

fn counts(separator: &str, counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(kind, n)| format!("{separator}{kind} {n}")).collect()
}

fn summary(report: &Report, dry_run: bool, grace: Duration) -> String {
    let mut text = format!("{}: {} rows read{}", report.job, report.scanned, compared(report));
    text.push_str(&counts(", ", &report.done));
    if !report.kept.is_empty() {
        text.push_str(&format!("; left alone{}", counts(" ", &report.kept)));
    }
    if report.resumed {
        text.push_str("; continued from where an earlier run stopped");
    }
    text.push_str(if dry_run { "; dry run, nothing is changed\n" } else { "\n" });
    if report.job.starts_with("clean") && !report.done.is_empty() && !grace.is_zero() {
        let seconds = grace.as_secs();
        text.push_str(&format!(
            "  rows written in the last {seconds} s are kept for a later run (maintenance.grace)\n"
        ));
    }
    for (kind, names) in &report.examples {
        text.push_str(&format!("  {kind}: {}\n", names.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_spelled_as_i_of_n() {
        assert_eq!(share("0/4"), Ok(Share { index: 0, of: 4 }));
        assert_eq!(share("3/4"), Ok(Share { index: 3, of: 4 }));
        for wrong in ["4/4", "1", "a/b", "-1/2", "0/0"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
