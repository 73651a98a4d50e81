//! `plumbago info`, `plumbago read` and `plumbago write`: one metric, or a few.

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use plumbago_maintenance::questions::info::{Info, MetricInfo, StageInfo};
use plumbago_maintenance::questions::read::{Points, Read, ReadStage, StageChoice};
use plumbago_maintenance::verbs::write::Write;
use plumbago_model::{ByteSize, Period};
use serde_json::json;

use super::ask::rows;
use super::rules::{Explained, explain};
use super::which::WhichArgs;
use super::{moment, verb};
use crate::error::Failure;
use crate::output::{print, print_json};

const INFO_EXAMPLES: &str = "\
Points that are still in memory are counted, but take no bytes in the store yet.

Examples:
  plumbago info servers.a.cpu.user                settings, dates, points and bytes of a metric
  plumbago info --json 'servers.a.*'              the same for several metrics";

/// Options of `plumbago info`.
#[derive(Debug, Args)]
#[command(after_help = INFO_EXAMPLES)]
pub struct InfoArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Look at no more than this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print a JSON object for each metric
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago info`.
///
/// # Errors
///
/// If the configuration or the selection has errors, the store or the daemon cannot be reached, or no metric matches.
pub fn info(args: &InfoArgs, file: Option<&Path>) -> Result<(), Failure> {
    let question = Info { which: args.which.which(None)?, rate: args.rate };
    let loaded = verb::load(file)?;
    let rules = super::rules::Rules::of(&loaded)?;
    rows(question, loaded, |row| {
        let explained = explain(&rules, &row.name);
        if args.json {
            print_json(&json!({ "metric": row, "rules": explained }))
        } else {
            Ok(print(&text(&row, &explained))?)
        }
    })
}

fn text(info: &MetricInfo, rules: &Explained) -> String {
    let MetricInfo { name, id, retention, aggregation, x_files_factor, stages, .. } = info;
    let mut text = format!(
        "{name}\n  id: {id}\n  retention: {retention}\n  aggregation: {aggregation}, xFilesFactor {x_files_factor}\n"
    );
    text.push_str(&format!("  created: {}\n", date(i64::from(info.created_on))));
    if let Some(updated) = info.updated_on {
        text.push_str(&format!("  last recorded as written: {}\n", date(i64::from(updated))));
    }
    if let Some(read) = info.read_on {
        text.push_str(&format!("  last recorded as read: {}\n", &date(i64::from(read))[..10]));
    }
    text.push_str(&format!("  current rules: {}\n", rules.line()));
    if rules.retention != *retention || rules.aggregation != *aggregation {
        text.push_str(&format!(
            "    they would give {}, {}; a metric keeps the settings of its creation\n",
            rules.retention, rules.aggregation
        ));
    }
    stages.iter().for_each(|stage| text.push_str(&stage_text(stage)));
    text
}

fn stage_text(info: &StageInfo) -> String {
    let StageInfo { stage, slots, points, first, last, bytes } = info;
    let range = match (first, last) {
        (Some(first), Some(last)) => format!(" from {} to {}", date(*first), date(*last)),
        _ => String::new(),
    };
    let bytes = bytes.map_or_else(String::new, |bytes| format!(", {} stored", ByteSize(bytes)));
    format!("  stage {stage}: {points} of {slots} points{range}{bytes}\n")
}

fn date(epoch: i64) -> String {
    Timestamp::from_second(epoch).map_or_else(|_| epoch.to_string(), |time| time.to_string())
}

const READ_EXAMPLES: &str = "\
Without --stage the answer is that of Graphite: from the finest stage that covers the range, with the points in memory.
With --stage the answer is the rows of that stage in the store, with the number of raw points in each value; there an
average is kept as a sum. Points that are still in memory are not stored yet.

Examples:
  plumbago read servers.a.cpu.user                the last hour
  plumbago read servers.a.cpu.user --from 7d --until 1d
  plumbago read servers.a.cpu.user --from 7d --stage 1h
                                                  the rows of the stage with a resolution of an hour
  plumbago read --json 'servers.a.*' --from 10m   one JSON object for some points of each metric";

/// Options of `plumbago read`.
#[derive(Debug, Args)]
#[command(after_help = READ_EXAMPLES)]
pub struct ReadArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Start of the range: a period back from now like 7d, seconds since the epoch, a date like 2024-01-15T10:30
    /// (UTC), or Graphite's notation [default: an hour before the end]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    from: Option<i64>,
    /// End of the range [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    until: Option<i64>,
    /// Read this stage as it is stored: its number, 0 for raw, or its resolution like 1h
    #[arg(long, value_name = "STAGE", value_parser = stage)]
    stage: Option<StageChoice>,
    /// Look at no more than this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

fn stage(text: &str) -> Result<StageChoice, String> {
    if let Ok(number) = text.parse() {
        return Ok(StageChoice::Number(number));
    }
    let period: Period = text
        .parse()
        .map_err(|_| format!("{text:?} is neither a number of a stage, like 0, nor a resolution, like 1h"))?;
    u32::try_from(period.as_secs()).map(StageChoice::Resolution).map_err(|_| format!("{text} is too long"))
}

/// Runs `plumbago read`.
///
/// # Errors
///
/// If the configuration or the selection has errors, the store or the daemon cannot be reached, or no metric matches.
pub fn read(args: &ReadArgs, file: Option<&Path>) -> Result<(), Failure> {
    let which = args.which.which(None)?;
    let read = Read { which, from: args.from, until: args.until, rate: args.rate };
    let loaded = verb::load(file)?;
    let each = |row: Points| if args.json { print_json(&row) } else { Ok(print(&points_text(&row))?) };
    match args.stage {
        None => rows(read, loaded, each),
        Some(stage) => rows(ReadStage { read, stage }, loaded, each),
    }
}

fn points_text(row: &Points) -> String {
    let line = |(timestamp, value, count): &(i64, f64, Option<f64>)| match count {
        Some(count) => format!("{}\t{timestamp}\t{value}\t{count}\n", row.name),
        None => format!("{}\t{timestamp}\t{value}\n", row.name),
    };
    row.points.iter().map(line).collect()
}

const WRITE_EXAMPLES: &str = "\
Examples:
  plumbago write test.metric 42                   a point with the current time
  plumbago write test.metric 42 --timestamp 10m   a point of ten minutes ago";

/// Options of `plumbago write`.
#[derive(Debug, Args)]
#[command(after_help = WRITE_EXAMPLES)]
pub struct WriteArgs {
    /// The metric; it is created if it does not exist
    #[arg(value_name = "METRIC")]
    name: String,
    /// The value
    #[arg(allow_negative_numbers = true)]
    value: f64,
    /// When it was measured: a period back from now like 10m, seconds since the epoch, a date like 2024-01-15T10:30
    /// (UTC), or Graphite's notation [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    timestamp: Option<i64>,
    /// Print where the point would be, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago write`.
///
/// # Errors
///
/// If the configuration has errors, the store or the daemon cannot be reached, or the point is refused.
pub fn write(args: &WriteArgs, file: Option<&Path>) -> Result<(), Failure> {
    let (name, value, timestamp, dry_run) = (args.name.clone(), args.value, args.timestamp, args.dry_run);
    let write = Write { name, value, timestamp, dry_run };
    let written = verb::carry_out(&write, verb::load(file)?)?.answer;
    if args.json {
        return print_json(&written);
    }
    print(&format!("{}\t{}\t{}\n", written.name, written.timestamp, written.value))?;
    Ok(print(if dry_run { "dry run, nothing is written\n" } else { "" })?)
}
