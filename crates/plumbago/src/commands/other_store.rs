//! `plumbago import-store`.

use std::path::{Path, PathBuf};

use clap::Args;
use plumbago_maintenance::other_store::ImportStoreReport;
use plumbago_maintenance::verbs::other_store::ImportStore;

use super::paths::{absolute, of_option};
use super::summary::{add_counts, add_dry_run, add_skipped};
use super::verb;
use crate::config;
use crate::error::{Exit, Failure};

const EXAMPLES: &str = "\
OTHER is the configuration file of the other store: a data directory that no daemon uses, or tables in Cassandra, which
may be in use. Environment variables do not change OTHER; they are for this store. Metrics are imported with their
names, tags, settings and all stages, and each window with its count, so that later points complete it exactly.

A data directory is opened as its daemon would open it, so points that are only in its journal are imported too. In
Cassandra, points that its daemons have not sent yet are missing: run the same command again later.

A new metric gets the settings that it has in the other store, or with --rules those of the storage rules here; the raw
resolution has to be the same. An existing metric has the points of both afterwards, and points that are stored here stay, unless
--overwrite is given. Nothing is counted twice, however often the command is run.

If a run was killed, the same command continues it. If a daemon uses the data directory here, the daemon does the work, and
must be allowed to read OTHER and the files that it names.

Nothing is deleted in the other store. To move, import, compare, and delete there: plumbago --config OTHER delete GLOB

Examples:
  plumbago import-store --dry-run /etc/plumbago/old.toml          count what would be stored
  plumbago import-store /etc/plumbago/old.toml
  plumbago import-store /etc/plumbago/old.toml 'web.**' 'db.*'    only these metrics
  plumbago import-store --rules --rate 100 /etc/plumbago/old.toml   settings of the rules here, 100 metrics in a second";

/// Options of `import-store`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The configuration file of the other store
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// Only metrics that match one of these globs; tags are part of the name
    #[arg(value_name = "GLOB")]
    globs: Vec<String>,
    /// Give new metrics the settings of the storage rules here instead of those of the other store
    #[arg(long)]
    rules: bool,
    /// Let the points of the other store replace points that are stored already
    #[arg(long)]
    overwrite: bool,
    /// Batches of metrics that are read and stored at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: usize,
    /// Import at most this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Write what was skipped to this file: reason, name and text, separated by tabs
    #[arg(long, value_name = "FILE")]
    skipped: Option<PathBuf>,
    /// Read everything, print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago import-store`.
///
/// # Errors
///
/// If one of the configurations has errors, the other store is this one, is in use or cannot be opened, or
/// the store or the daemon fails. Metrics that were skipped are not an error: the report counts and names
/// them, and the exit code is 5.
pub fn import(args: &ImportArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    // The process that runs the import reads this file again. Reading it here first gives errors in it their
    // exit code.
    config::load_other(&args.other).map_err(|problems| Failure::new(Exit::Config, problems))?;
    let usage = |error| Failure::new(Exit::Usage, error);
    let verb = ImportStore {
        file: absolute(&args.other).map_err(usage)?,
        directory: absolute(Path::new(".")).map_err(usage)?,
        globs: args.globs.clone(),
        rules: args.rules,
        overwrite: args.overwrite,
        workers: args.workers,
        rate: args.rate,
        skipped: of_option("--skipped", args.skipped.as_deref())?,
        dry_run: args.dry_run,
    };
    verb::carry_out(&verb, loaded)?.show(args.json, summary, ImportStoreReport::is_whole)
}

fn summary(report: &ImportStoreReport) -> String {
    let history = &report.history;
    let rate = history.stored as f64 / report.seconds.max(0.001);
    let mut text = format!(
        "{} metrics of {}, {} new; {} slots and windows read, {} stored in {:.1} s ({rate:.0} per second)\n",
        report.metrics, report.source, history.created, report.slots, history.stored, report.seconds
    );
    let counts = [
        (report.stored_before, "metrics left out: the previous run has stored them"),
        (report.gone, "metrics left out: they were deleted there meanwhile"),
        (report.without_points, "metrics have no points; their names and settings are imported"),
        (report.other_settings, "metrics existed with other settings, and keep theirs"),
        (history.kept, "slots left as they were: they were stored here already"),
        (history.folded, "windows folded again from points of both"),
        (report.left_out, "slots left out: they have expired, or no stage of the metric covers them"),
        (report.ahead, "points ahead of now"),
    ];
    add_counts(&mut text, &counts);
    add_skipped(&mut text, "metrics need attention", &report.skips);
    report.damage.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    add_dry_run(&mut text, report.dry_run);
    text
}
