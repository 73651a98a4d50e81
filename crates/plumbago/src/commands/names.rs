//! `plumbago import-names`.

use std::path::{Path, PathBuf};

use clap::Args;
use plumbago_maintenance::names::ImportNamesReport;
use plumbago_maintenance::verbs::names::ImportNames;

use super::own_file::OwnFile;
use super::paths::{absolute, of_option};
use super::summary::{add_counts, add_dry_run, add_skipped};
use super::verb;
use crate::error::{Exit, Failure};

const EXAMPLES: &str = "\
A line is: name [retention [method [xFilesFactor]]], separated by spaces or tabs. Empty lines and lines that begin with
# are ignored. A retention has the form 60s:1d,1h:1y, or that of BigGraphite, 1440*60s:8760*3600s. Settings that a line
lacks come from the storage rules. The metrics have no points yet; with BigGraphite's tables, they show the points that
are stored there. An existing metric keeps its settings. If they differ from those of the list, the command counts and
names it.

If a daemon uses the data directory, it does the work: the path is on its machine, and its user must be allowed to read it.

Examples:
  plumbago import-names --dry-run names.txt    count what would be created
  plumbago import-names --rate 2000 names.txt
  cat names.txt | plumbago import-names -";

/// Options of `import-names`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The list; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Create at most this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Write what was skipped to this file: reason, place and text, separated by tabs
    #[arg(long, value_name = "FILE")]
    skipped: Option<PathBuf>,
    /// Print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago import-names`.
///
/// # Errors
///
/// If the configuration has errors, the list cannot be read, or the store or the daemon fails. Lines that cannot be read
/// are not an error: the report counts and names them, and the exit code is 5.
pub fn import(args: &ImportArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let usage = |error| Failure::new(Exit::Usage, error);
    let piped = match args.file.as_os_str() == "-" {
        true => Some(OwnFile::write(&loaded.config, "import-names.txt", std::io::stdin().lock())?),
        false => None,
    };
    let list = match &piped {
        Some(piped) => piped.path().to_owned(),
        None => absolute(&args.file).map_err(usage)?,
    };
    let verb = ImportNames {
        file: list,
        rate: args.rate,
        skipped: of_option("--skipped", args.skipped.as_deref())?,
        dry_run: args.dry_run,
    };
    verb::carry_out(&verb, loaded)?.show(args.json, summary, |report| report.skips.is_empty())
}

fn summary(report: &ImportNamesReport) -> String {
    let mut text = format!("{} names, {} created in {:.1} s\n", report.names, report.created, report.seconds);
    let counts = [
        (report.known, "exist already, or are in the list twice"),
        (report.other_settings, "of them have other settings than the list, and keep theirs"),
    ];
    add_counts(&mut text, &counts);
    for example in report.skips.examples.get("other_settings").into_iter().flatten() {
        text.push_str(&format!("    {example}\n"));
    }
    add_skipped(&mut text, "lines need attention", &report.skips);
    add_dry_run(&mut text, report.dry_run);
    text
}
