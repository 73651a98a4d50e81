//! `plumbago import-kairosdb`.

use std::path::{Path, PathBuf};

use clap::Args;
use plumbago_maintenance::kairosdb::{ImportKairosdbReport, RuleCounts};
use plumbago_maintenance::verbs::kairosdb::ImportKairosdb;

use super::moment;
use super::paths::{absolute, of_option};
use super::summary::{add_counts, add_dry_run, add_skipped};
use super::verb;
use crate::error::{Exit, Failure};

const EXAMPLES: &str = "\
A metric with tags becomes the series name;tag=value, with the settings of the storage rules. Write the rules first:
--dry-run says for each rule what would be lost, and --suggest-rules prints rules that lose only the milliseconds.
Text and values of plug-ins are left out and counted. A point that is stored already stays, unless
--overwrite is given. Files may be compressed with gzip.

A whole keyspace is read in the order of the token ring. With --metric, --from or --until it is read through
KairosDB's indexes. The tables of old and new versions of KairosDB are both read. --dry-run of a whole keyspace also says which
rows no index lists.

The points are first divided by series into files in the data directory, which use 16 bytes per point until the import
ends. If a run was killed, the same command continues it. If a daemon uses the data directory, the daemon does the work:
the paths are on its machine, and its user must be allowed to read them.

Examples:
  plumbago import-kairosdb --dry-run --suggest-rules export.txt.gz    first see which rules, and what each would lose
  plumbago import-kairosdb export.txt.gz                              lines of 'kairosdb.sh export'
  plumbago import-kairosdb --metric cpu --from 2024-01-01 export.txt    one metric, from a day on
  plumbago import-kairosdb --keyspace kairosdb --contact-points cassandra1:9042,cassandra2:9042
  plumbago import-kairosdb scan.txt                                   lines of 'tsdb scan --import'";

/// Options of `import-kairosdb`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Files that KairosDB's export or OpenTSDB's `scan --import` wrote
    #[arg(required_unless_present = "keyspace", conflicts_with = "keyspace", value_name = "FILE")]
    paths: Vec<PathBuf>,
    /// Read a keyspace of a KairosDB on Cassandra instead of files. Nothing is written to it
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Its servers; by default those of store.cassandra, whose user, password and TLS are always used
    #[arg(long, value_name = "HOST:PORT", requires = "keyspace", value_delimiter = ',')]
    contact_points: Vec<String>,
    /// Only this metric; can be given several times
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Leave out earlier points: a date, a period back from now like 400d, or seconds since the epoch
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<i64>,
    /// Leave out points from this time on
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<i64>,
    /// Blocks that are read and parts that are stored at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: usize,
    /// Store at most this many points in a second; 0 means no limit
    #[arg(long, value_name = "POINTS", default_value_t = 0)]
    rate: u32,
    /// Let points of the history replace points that are stored already
    #[arg(long)]
    overwrite: bool,
    /// Print the coarsest storage rules that lose no more points than a resolution of one second would
    #[arg(long)]
    suggest_rules: bool,
    /// Write what was skipped to this file: reason, place and text, separated by tabs
    #[arg(long, value_name = "FILE")]
    skipped: Option<PathBuf>,
    /// Print what would be done, by storage rule, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago import-kairosdb`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, or the store or the daemon fails. Lines that cannot be
/// read are not an error: the report counts and names them, and the exit code is 5.
pub fn import(args: &ImportArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let usage = |error| Failure::new(Exit::Usage, error);
    let paths = args.paths.iter().map(|path| absolute(path)).collect::<anyhow::Result<_>>();
    let verb = ImportKairosdb {
        paths: paths.map_err(usage)?,
        keyspace: args.keyspace.clone(),
        contact_points: args.contact_points.clone(),
        metrics: args.metric.clone(),
        from: args.from,
        until: args.until,
        workers: args.workers,
        rate: args.rate,
        overwrite: args.overwrite,
        suggest_rules: args.suggest_rules,
        skipped: of_option("--skipped", args.skipped.as_deref())?,
        dry_run: args.dry_run,
    };
    let text = |report: &ImportKairosdbReport| summary(report, args.dry_run);
    verb::carry_out(&verb, loaded)?.show(args.json, text, |report| report.skips.is_empty())
}

fn summary(report: &ImportKairosdbReport, dry_run: bool) -> String {
    let history = &report.history;
    let rate = report.points as f64 / report.seconds.max(0.001);
    let mut text = format!(
        "{} files, {} entries, {} series, {} new; {} points read in {:.1} s ({:.0} per second)\n",
        report.files, report.entries, report.series, history.created, report.points, report.seconds, rate
    );
    let counts = [
        (report.rows, "storage rows of the keyspace read"),
        (report.empty_rows, "storage rows that the indexes list have no points any more"),
        (
            report.unlisted_rows,
            "storage rows are listed by no index: KairosDB does not find them, but the import reads them",
        ),
        (report.slots, "points have a slot of the finest stage of their series"),
        (report.same_slot, "points left out: their slot has a later point"),
        (report.too_old, "points left out: they are older than any stage of their series keeps"),
        (report.future, "points left out: they are later than now"),
        (report.outside, "points left out: they were not asked for"),
        (report.cut, "points had milliseconds, which are cut"),
        (
            report.same_time,
            "points have the same millisecond as another one of their series; the floating point number wins",
        ),
        (report.rounded, "whole numbers are beyond 2^53 and become the nearest number that can be kept"),
        (report.with_ttl, "points had a time to live, which is not kept: the storage rules decide"),
        (history.stored, "points and windows stored, in all stages"),
        (history.kept, "points and windows left out: their slots were stored already"),
        (history.folded, "windows folded again from stored and imported points"),
        (
            report.other_settings,
            "series existed with other settings than the rules give now, and keep theirs",
        ),
    ];
    add_counts(&mut text, &counts);
    for (kind, count) in &report.not_kept {
        text.push_str(&format!("  {count} values of type {kind} left out: only numbers are kept\n"));
    }
    for (reason, count) in &report.refused {
        text.push_str(&format!("  {count} points left out: {}\n", refused(reason)));
    }
    report.rules.iter().for_each(|rule| text.push_str(&of_rule(rule)));
    add_skipped(&mut text, "need attention", &report.skips);
    if !report.suggested_rules.is_empty() {
        text.push_str("\nRules that lose no more than slots of a second, for storage-schemas.conf:\n\n");
        text.push_str(&report.suggested_rules);
    }
    add_dry_run(&mut text, dry_run);
    text
}

fn refused(reason: &str) -> &'static str {
    match reason {
        "timestamp" => "their time is negative or no number",
        "not_finite" => "their value is not finite",
        "value" => "their value is not a number",
        _ => "they have no value",
    }
}

fn of_rule(rule: &RuleCounts) -> String {
    let section = match &*rule.section {
        "" => "no section fits, built-in rule".to_owned(),
        section => format!("[{section}]"),
    };
    let mut text = format!(
        "{section} {}, {}: {} series, {} points",
        rule.retention, rule.aggregation, rule.series, rule.points
    );
    for (count, what) in [
        (rule.same_slot, "share a slot with a later one"),
        (rule.too_old, "too old"),
        (rule.not_kept, "values that are not numbers"),
        (rule.with_ttl, "with a time to live"),
        (rule.unlisted_rows, "storage rows that no index lists"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text + "\n"
}
