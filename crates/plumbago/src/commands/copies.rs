//! `plumbago copy` and `plumbago move`, which give metrics other names.

use std::path::Path;

use clap::Args;
use plumbago_maintenance::copies::{CopiesReport, CopyPlan};
use plumbago_maintenance::verbs::copies::{CopyMetrics, MoveMetrics};

use super::summary::{add_counts, add_dry_run, add_skipped};
use super::verb::{self, Outcome};
use crate::error::Failure;

const COPY_EXAMPLES: &str = "\
OLD is a metric or a directory. A metric is copied with its tagged series. If OLD is a directory, everything below it
is copied, and the rest of each name stays, with its tags. If OLD is both, it means the metric, and OLD.** means what is below it.
Every stage is copied with its values and the counts of its windows, also points that are only in memory. Points that
arrive for OLD meanwhile go to OLD.

A new metric gets the settings of the old one, or the retention of --retention; the raw resolution has to be the same. Where
NEW exists, it has the points of both afterwards, and points that NEW already has stay, unless --overwrite is given.

If a run was killed, the same command continues it.

Examples:
  plumbago copy --dry-run servers.a servers.c       count what would be copied
  plumbago copy servers.a servers.c                 copy everything below servers.a
  plumbago copy servers.a.load servers.b.load1      copy one metric
  plumbago copy --retention 60s:7d,1h:1y servers.a.load servers.d.load";

const MOVE_EXAMPLES: &str = "\
Like `plumbago copy`, but each metric of OLD is deleted once its copy is complete and on the disk. Points that arrive
for OLD meanwhile are copied too. A metric that keeps receiving points stays, and the command names it. Points that
arrive for OLD later create a new metric, so change the senders first.

After a killed run, each metric is complete under one of its names, or under both. Run the same command again.

Examples:
  plumbago move --dry-run servers.c servers.e       count what would be moved
  plumbago move servers.c servers.e                 move everything below servers.c
  plumbago move --rate 100 servers.e servers.f      move at most 100 metrics in a second";

/// Options of both commands.
#[derive(Debug, Clone, Args)]
struct PlanArgs {
    /// The metric or the directory
    #[arg(value_name = "OLD")]
    from: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    to: String,
    /// Retention of the metrics at NEW, like 60s:7d,1h:1y, even of those that exist; by default that of OLD
    #[arg(long, value_name = "RETENTION")]
    retention: Option<String>,
    /// Let the points of OLD replace points that NEW already has
    #[arg(long)]
    overwrite: bool,
    /// Copy at most this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Read everything, print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `plumbago copy`.
#[derive(Debug, Clone, Args)]
#[command(after_help = COPY_EXAMPLES)]
pub struct CopyArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

/// Options of `plumbago move`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MOVE_EXAMPLES)]
pub struct MoveArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

impl PlanArgs {
    fn plan(&self) -> CopyPlan {
        CopyPlan {
            from: self.from.clone(),
            to: self.to.clone(),
            retention: self.retention.clone(),
            overwrite: self.overwrite,
            rate: self.rate,
            dry_run: self.dry_run,
        }
    }
}

/// Runs `plumbago copy`.
///
/// # Errors
///
/// If the configuration has errors, there is no such metric, a name cannot be used, or the store or the daemon fails.
/// Metrics that were not copied are not an error: the report counts and names them, and the exit code is 5.
pub fn copy(args: &CopyArgs, file: Option<&Path>) -> Result<(), Failure> {
    let verb = CopyMetrics { plan: args.plan.plan() };
    show("copied", &args.plan, verb::carry_out(&verb, verb::load(file)?)?)
}

/// Runs `plumbago move`.
///
/// # Errors
///
/// As [`copy`].
pub fn rename(args: &MoveArgs, file: Option<&Path>) -> Result<(), Failure> {
    let verb = MoveMetrics { plan: args.plan.plan() };
    show("moved", &args.plan, verb::carry_out(&verb, verb::load(file)?)?)
}

fn show(done: &str, args: &PlanArgs, outcome: Outcome<CopiesReport>) -> Result<(), Failure> {
    outcome.show(args.json, |report| summary(done, report), |report| report.skips.is_empty())
}

fn summary(done: &str, report: &CopiesReport) -> String {
    let mut text = format!(
        "{} metrics, {} {done}, {} slots and windows stored in {:.1} s\n",
        report.metrics, report.copied, report.stored, report.seconds
    );
    let counts = [
        (report.created, "new names created"),
        (report.merged, "new names existed and have the points of both now"),
        (report.copied_before, "metrics copied by the previous run"),
        (report.changed, "copies got the retention"),
        (report.kept, "slots left as they were, because the new name had them already"),
        (report.folded, "windows folded again from points of both"),
        (report.left_out, "slots left out: they have expired, or no stage of the new metric covers them"),
        (report.deleted, "old names deleted"),
        (report.directories, "empty directories deleted"),
        (
            u64::from(report.without_tags),
            "search left out: tagged series are searched only with index.mode = \"memory\"",
        ),
    ];
    add_counts(&mut text, &counts);
    add_skipped(&mut text, "metrics need attention", &report.skips);
    add_dry_run(&mut text, report.dry_run);
    text
}
