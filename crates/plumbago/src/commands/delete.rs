//! `plumbago delete`: deletes metrics whole.

use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use plumbago_maintenance::verbs::delete::{Delete, Deleted};

use super::verb::{self, Outcome};
use super::which::WhichArgs;
use crate::error::{Exit, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Points that arrive afterwards create the metric again, by the storage rules of then. A glob that begins with a wildcard
alone, and one that matches more than 1000 metrics, is deleted only with --yes. With several daemons on one Cassandra,
points that another daemon has in memory may come after the deletion; stop the senders first.

Examples:
  plumbago delete --dry-run 'servers.old01.**'    how many metrics there are, and a few of them
  plumbago delete 'servers.old01.**'              delete everything below servers.old01
  plumbago delete --tag host=old01                delete tagged series
  plumbago delete --names obsolete.txt            delete the metrics in a list
  plumbago delete --yes '**'                      delete all metrics without tags";

/// Options of `plumbago delete`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeleteArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Print how many metrics match and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete however many match
    #[arg(long)]
    yes: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago delete`.
///
/// # Errors
///
/// If the configuration has errors, the selection cannot be used or wants a confirmation, the store or the daemon cannot
/// be reached, or the deletion fails or is cancelled.
pub fn run(args: &DeleteArgs, file: Option<&Path>) -> Result<(), Failure> {
    let which = args.which.which(None)?;
    let delete = Delete { which, dry_run: args.dry_run, confirmed: args.yes };
    let Outcome { answer, .. } = verb::carry_out(&delete, verb::load(file)?)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&answer).map_err(anyhow::Error::from)?))?;
    }
    let Deleted { metrics, directories, examples, wants_confirmation } = answer;
    if wants_confirmation {
        let names = examples.join(", ");
        let error =
            anyhow!("{metrics} metrics match ({names}, …). Nothing was deleted; give --yes to delete them");
        return Err(Failure::new(Exit::Usage, error));
    }
    if !args.json {
        let mut text = format!("delete: {metrics} metrics");
        if directories > 0 {
            text.push_str(&format!(", {directories} empty directories"));
        }
        text.push_str(if args.dry_run { "; dry run, nothing is changed\n" } else { "\n" });
        if !examples.is_empty() {
            text.push_str(&format!("  {}\n", examples.join(", ")));
        }
        print(&text)?;
    }
    Ok(())
}
