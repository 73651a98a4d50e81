//! `plumbago repair store`: repairs databases that a start refuses to open.

use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use plumbago_store_embedded::{HostError, RescueStep, rescue};
use plumbago_telemetry::log;
use serde_json::{Value, json};

use crate::config;
use crate::error::{Exit, Failure};
use crate::held::is_held;
use crate::output::{print, print_json};

/// Options of `repair store`.
#[derive(Debug, Clone, Args)]
pub struct RescueArgs {
    /// Print what is damaged, what would be done and what would be lost, and change nothing; exit code 5 if
    /// something is damaged
    #[arg(long)]
    pub dry_run: bool,
    /// Also remove tables with damaged rows that a start can skip, with all their rows. Use it if the store
    /// refuses writes because of such rows
    #[arg(long)]
    pub all: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

pub const EXAMPLES: &str = "\
Run it when a start refuses a damaged file and there is no backup. Tables that cannot be opened are removed, and copies of
them are kept in the directory `damaged` of the store. Names, settings and the list of tables are restored from their
second copies at the next start; points in such tables are lost. Damage that a start can skip is only listed.

Examples:
  plumbago repair store --dry-run       show what is damaged, and change nothing
  plumbago repair store                 repair the store so that it opens again
  plumbago repair store --dry-run --json
                                        the same for a program";

/// Runs `plumbago repair store`: the embedded store, or the spool and the names beside a remote store.
///
/// # Errors
/// If the configuration has errors, a daemon uses the data directory, or a file cannot be read or written. With
/// `--dry-run`, also if something is damaged.
pub fn run(args: &RescueArgs, file: Option<&Path>) -> Result<(), Failure> {
    let config = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?.config;
    log::init("error");
    log::log_panics();
    if is_held(&config) {
        let error = anyhow!("a daemon uses {}; stop it first", config.data_dir.display());
        return Err(Failure::new(Exit::Store, error));
    }
    let (mut found, mut files) = (0, Vec::new());
    for directory in ["store", "spool", "names"].map(|name| config.data_dir.join(name)) {
        let steps = rescue(&directory, args.dry_run, args.all).map_err(failure)?;
        found += steps.len();
        match args.json {
            true => files.extend(steps.iter().map(row)),
            false => print(&describe(&directory, &steps, args.dry_run))?,
        }
    }
    if args.json {
        print_json(&json!({ "dry_run": args.dry_run, "files": files }))?;
    }
    match found {
        0 if args.json => Ok(()),
        0 => Ok(print("no file is damaged\n")?),
        _ if args.dry_run => Err(Failure::said(Exit::Data)),
        _ => Ok(()),
    }
}

fn row(step: &RescueStep) -> Value {
    json!({ "path": step.path.display().to_string(), "text": step.text, "changes": step.changes })
}

fn describe(directory: &Path, steps: &[RescueStep], dry_run: bool) -> String {
    let mut text: String =
        steps.iter().map(|step| format!("{}: {}\n", step.path.display(), step.text)).collect();
    if steps.iter().any(|step| step.changes) {
        text.push_str(&format!(
            "{}: {}\n",
            directory.display(),
            if dry_run { "dry run, nothing was changed" } else { "done; start plumbago again" }
        ));
    }
    text
}

fn failure(error: HostError) -> Failure {
    let exit = if matches!(error, HostError::Corrupt { .. }) { Exit::Data } else { Exit::Store };
    Failure::new(exit, error)
}
