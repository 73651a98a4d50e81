//! `plumbago list`, `plumbago tags` and `plumbago du`: list metrics and tags, and measure sizes.

use std::collections::HashSet;
use std::path::Path;

use clap::Args;
use plumbago_maintenance::questions::du::{Du, Size};
use plumbago_maintenance::questions::list::List;
use plumbago_maintenance::questions::tags::Tags;
use plumbago_maintenance::quotas::{DirectoryQuota, LimitUse};
use plumbago_model::{ByteSize, Period};
use plumbago_store::directories_above;

use super::ask::rows;
use super::verb::load;
use super::which::WhichArgs;
use crate::error::Failure;
use crate::output::{print, print_json};

const LIST_EXAMPLES: &str = "\
Examples:
  plumbago list                                   all metrics without tags
  plumbago list 'servers.*.cpu.*'                 those that match a glob
  plumbago list --tag host=a --tag 'dc!=eu'       tagged series
  plumbago list --silent 30d '**'                 metrics without a point for 30 days
  plumbago list --unread 90d '**'                 metrics that nobody has read for 90 days";

/// Options of `plumbago list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Only metrics without a point for this long, like 30d
    #[arg(long, value_name = "PERIOD")]
    silent: Option<Period>,
    /// Only metrics that nobody has read for this long, like 90d. Reads are recorded to the day
    #[arg(long, value_name = "PERIOD")]
    unread: Option<Period>,
    /// Look at no more than this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print a JSON object for each metric
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago list`.
///
/// # Errors
///
/// If the configuration or the selection has errors, or the store or the daemon cannot be reached.
pub fn list(args: &ListArgs, file: Option<&Path>) -> Result<(), Failure> {
    let which = args.which.which(Some("**"))?;
    let seconds = |period: Option<Period>| period.map(|period| period.as_secs());
    let (silent_seconds, unread_seconds) = (seconds(args.silent), seconds(args.unread));
    let question = List { which, silent_seconds, unread_seconds, rate: args.rate };
    rows(question, load(file)?, |row| {
        if args.json { print_json(&row) } else { Ok(print(&format!("{}\n", row.name))?) }
    })
}

const TAGS_EXAMPLES: &str = "\
Examples:
  plumbago tags                                   all tags, with the number of series that have them
  plumbago tags host                              the values of one tag";

/// Options of `plumbago tags`.
#[derive(Debug, Args)]
#[command(after_help = TAGS_EXAMPLES)]
pub struct TagsArgs {
    /// The tag whose values are listed
    tag: Option<String>,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago tags`.
///
/// # Errors
///
/// If the configuration has errors, or the store or the daemon cannot be reached.
pub fn tags(args: &TagsArgs, file: Option<&Path>) -> Result<(), Failure> {
    rows(Tags { tag: args.tag.clone() }, load(file)?, |row| {
        if args.json { print_json(&row) } else { Ok(print(&format!("{:>10}  {}\n", row.series, row.text))?) }
    })
}

const DU_EXAMPLES: &str = "\
The embedded store is measured: keys and compressed rows as they were written. Points that are still in memory use
no disk space yet. On Cassandra the size is estimated from the retention, 24 bytes for each point of a full stage. A directory
with a quota has a second line: how much of its limits it uses. Tagged series are in no directory; only / counts them.

Examples:
  plumbago du                                     the directories at the top
  plumbago du 'servers.*'                         how much each server uses
  plumbago du /                                   everything, and the quota with the pattern /";

/// Options of `plumbago du`.
#[derive(Debug, Args)]
#[command(after_help = DU_EXAMPLES)]
pub struct DuArgs {
    /// The metrics and directories to measure
    #[arg(value_name = "GLOB", default_value = "*")]
    glob: String,
    /// Look at no more than this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago du`.
///
/// # Errors
///
/// If the configuration has errors, the glob is not valid, or the store or the daemon cannot be reached.
pub fn du(args: &DuArgs, file: Option<&Path>) -> Result<(), Failure> {
    let mut total = Size { path: "total".to_owned(), metrics: 0, bytes: 0, estimated: false, quota: None };
    let mut seen = HashSet::new();
    rows(Du { glob: args.glob.clone(), rate: args.rate }, load(file)?, |row| {
        // A directory comes before what is below it, and its size contains theirs.
        if !directories_above(&row.path).any(|above| seen.contains(above)) {
            total.metrics += row.metrics;
            total.bytes += row.bytes;
        }
        total.estimated |= row.estimated;
        seen.insert(row.path.clone());
        if args.json { print_json(&row) } else { Ok(print(&line(&row))?) }
    })?;
    if !args.json {
        print(&line(&total))?;
        if total.estimated {
            print("estimated from the retention, not measured\n")?;
        }
    }
    Ok(())
}

fn line(size: &Size) -> String {
    let quota = size.quota.as_ref().map_or_else(String::new, quota_line);
    format!("{:>10} {:>9}  {}\n{quota}", ByteSize(size.bytes).to_string(), size.metrics, size.path)
}

fn quota_line(quota: &DirectoryQuota) -> String {
    let amount = |what: &str, amount: u64| match what {
        "bytes" => ByteSize(amount).to_string(),
        _ => amount.to_string(),
    };
    let limits = quota.limits.iter().filter_map(|LimitUse { what, used, limit }| {
        let used = used.map_or_else(|| "not measured yet".to_owned(), |used| amount(what, used));
        Some(format!("{what} {used} of {}", amount(what, (*limit)?)))
    });
    let limits = limits.collect::<Vec<_>>().join(", ");
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits };
    let refused = match (quota.refused_points, quota.dry_run) {
        (0, false) => String::new(),
        (points, false) => format!("; {points} points refused"),
        (points, true) => format!("; dry run, {points} points would have been refused"),
    };
    format!("{:22}quota [{}]: {limits}{refused}\n", "", quota.quota)
}
