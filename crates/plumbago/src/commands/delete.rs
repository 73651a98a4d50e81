//! `plumbago delete`: deletes whole metrics, or a time range of them.

use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use plumbago_maintenance::verbs::delete::{Delete, Deleted};

use super::moment;
use super::verb::{self, Outcome};
use super::which::WhichArgs;
use crate::error::{Exit, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Points that arrive afterwards create the metric again, by the storage rules of that time. If a glob begins with a
wildcard alone or matches more than 1000 metrics, --yes is needed. With several daemons on one Cassandra, points that
another daemon has in memory may be stored after the deletion; stop the senders first.

With --from or --until only points of that range are deleted, in all stages. The names stay, even of metrics without any
point left. Windows of coarser stages at the borders of the range are folded again from the points that are left. Where
these have expired, the window stays as it is, and the result says how many there are.

Examples:
  plumbago delete --dry-run 'servers.old01.**'    how many metrics there are, and a few of them
  plumbago delete 'servers.old01.**'              delete everything below servers.old01
  plumbago delete --tag host=old01                delete tagged series
  plumbago delete --names obsolete.txt            delete the metrics in a list
  plumbago delete --yes '**'                      delete all metrics without tags
  plumbago delete --rate 100 'servers.old02.**'   delete at most 100 metrics in a second
  plumbago delete --from 2024-01-15T10:30 --until 2024-01-15T11:00 'web.*.requests'
                                                  delete the points of half an hour (UTC)
  plumbago delete --dry-run --until 365d 'servers.**'
                                                  count the points that are older than a year";

/// Options of `plumbago delete`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeleteArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Delete only points of this time or later: seconds since the epoch, a period back from now like 7d, a date like
    /// 2024-01-15T10:30 (UTC), or Graphite's notation [default: from the first point, with --until]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    from: Option<i64>,
    /// Delete only points before this time [default: to the last point, with --from]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    until: Option<i64>,
    /// Print how many metrics match, and with a range how many points, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete without confirmation, however many metrics match
    #[arg(long)]
    yes: bool,
    /// Delete at most this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago delete`.
///
/// # Errors
///
/// If the configuration has errors, the selection is not valid or needs a confirmation, the store or the
/// daemon cannot be reached, or the deletion fails or is cancelled.
pub fn run(args: &DeleteArgs, file: Option<&Path>) -> Result<(), Failure> {
    let which = args.which.which(None)?;
    let (from, until) = (args.from, args.until);
    let delete = Delete { which, dry_run: args.dry_run, confirmed: args.yes, rate: args.rate, from, until };
    let Outcome { answer, .. } = verb::carry_out(&delete, verb::load(file)?)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&answer).map_err(anyhow::Error::from)?))?;
    }
    if answer.wants_confirmation {
        let (metrics, names) = (answer.metrics, some_names(&answer));
        let error =
            anyhow!("{metrics} metrics match ({names}). Nothing was deleted; give --yes to delete them");
        return Err(Failure::new(Exit::Usage, error));
    }
    if !args.json {
        print(&text(&answer, args))?;
    }
    Ok(())
}

fn text(answer: &Deleted, args: &DeleteArgs) -> String {
    let Deleted { metrics, directories, examples, points, windows, folded, kept, .. } = answer;
    let mut text = format!("delete: {metrics} metrics");
    if *directories > 0 {
        text.push_str(&format!(", {directories} empty directories"));
    }
    if args.from.is_some() || args.until.is_some() {
        if args.dry_run {
            text.push_str(&format!(", {points} points and {windows} windows of coarser stages"));
        }
        text.push_str(&format!("; {folded} windows at the borders folded again"));
        if *kept > 0 {
            text.push_str(&format!(
                "; {kept} windows at the borders kept as they are, because the points they were folded from have expired"
            ));
        }
    }
    text.push_str(if args.dry_run { "; dry run, nothing is changed\n" } else { "\n" });
    if !examples.is_empty() {
        text.push_str(&format!("  {}\n", some_names(answer)));
    }
    text
}

fn some_names(answer: &Deleted) -> String {
    let more = if answer.metrics > answer.examples.len() as u64 { ", …" } else { "" };
    answer.examples.join(", ") + more
}
