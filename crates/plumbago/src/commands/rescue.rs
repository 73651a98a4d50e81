//! `plumbago repair store`: makes databases open again that a start refuses.

use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use plumbago_store_embedded::{HostError, RescueStep, rescue};
use plumbago_telemetry::log;

use super::maintain::is_held;
use crate::config;
use crate::error::{Exit, Failure};
use crate::output::print;

/// Options of `repair store`.
#[derive(Debug, Clone, Args)]
pub struct RescueArgs {
    /// Print what is damaged, what would be done and what that costs, and change nothing; exit code 5 if something is
    /// damaged
    #[arg(long)]
    pub dry_run: bool,
    /// Also remove tables in which a start can skip damaged rows, with all their rows; for a store that refuses writes
    /// because of such rows
    #[arg(long)]
    pub all: bool,
}

pub const EXAMPLES: &str = "\
Run it when a start refuses a damaged file and there is no backup. Tables that cannot be opened are taken out, and copies
of them are kept in the directory `damaged` of the store. Names, settings and the list of tables are restored from their
second copies at the next start; points in such tables are lost. Damage that a start can skip is only listed.

Examples:
  plumbago repair store --dry-run       show what is damaged, and change nothing
  plumbago repair store                 make the store open again";

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
    let mut found = 0;
    for directory in ["store", "spool", "names"].map(|name| config.data_dir.join(name)) {
        let steps = rescue(&directory, args.dry_run, args.all).map_err(failure)?;
        found += steps.len();
        print(&describe(&directory, &steps, args.dry_run))?;
    }
    match found {
        0 => Ok(print("no file is damaged\n")?),
        _ if args.dry_run => Err(Failure::said(Exit::Data)),
        _ => Ok(()),
    }
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
