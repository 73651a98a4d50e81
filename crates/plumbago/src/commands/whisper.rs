//! `plumbago import-whisper` and `plumbago export-whisper`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use plumbago_bench::Client;
use plumbago_maintenance::export::ExportReport;
use plumbago_maintenance::import::ImportReport;
use plumbago_maintenance::verbs::whisper::{ExportWhisper, ImportWhisper};

use super::moment;
use super::paths::absolute;
use super::summary::{add_counts, add_dry_run, add_skipped};
use super::verb;
use super::which::WhichArgs;
use crate::error::{Exit, Failure};

const IMPORT_EXAMPLES: &str = "\
A file a/b/c.wsp of a tree becomes the metric a.b.c. Every archive goes to the stage of its resolution, with the values
that whisper shows. A new metric keeps the retention, method and xFilesFactor of its file, or gets those of the storage
rules with --rules. An existing metric keeps its own settings. A point that is stored already stays, unless --overwrite
is given. If several trees have a file of the same metric, the files are merged as whisper-fill does, and the tree that
is named first takes precedence.

The next run skips files that were stored and have not changed since, so it continues a run that was killed. If a daemon
uses the data directory, the daemon does the work: the paths are on its machine, and its user must be allowed to read them.

Examples:
  plumbago import-whisper --dry-run /opt/graphite/storage/whisper
  plumbago import-whisper /opt/graphite/storage/whisper --skipped skipped.txt
  plumbago import-whisper --prefix dc1 --since 400d /srv/whisper-a /srv/whisper-b
  plumbago import-whisper --tagged-names http://graphite.example:8080 /opt/graphite/storage/whisper";

/// Options of `import-whisper`.
#[derive(Debug, Clone, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportArgs {
    /// Whisper files, and directories with such files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Put this prefix and a dot in front of all names
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: String,
    /// Leave out points before this time: a date, a period back from now like 400d, or seconds since the epoch
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<i64>,
    /// Groups of files that are read and stored at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    workers: usize,
    /// Store at most this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Give new metrics the settings of the storage rules instead of those of their files
    #[arg(long)]
    rules: bool,
    /// Let points of the files replace points that are stored already
    #[arg(long)]
    overwrite: bool,
    /// Also store files again that were stored and have not changed
    #[arg(long)]
    again: bool,
    /// The names of tagged series, whose files are named by a hash: a file with a name per line, or the address of a
    /// graphite-web
    #[arg(long, value_name = "FILE|URL")]
    tagged_names: Option<String>,
    /// Write the files that were skipped to this file: reason, path and text, separated by tabs
    #[arg(long, value_name = "FILE")]
    skipped: Option<PathBuf>,
    /// Print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EXPORT_EXAMPLES: &str = "\
Every stage becomes an archive with the values that readers get now. Python's whisper can read the files. A tagged
series goes to _tagged, with the name that carbon uses without TAG_HASH_FILENAMES; carbon and graphite-web find it with
this setting too.

Examples:
  plumbago export-whisper /tmp/whisper 'servers.**'
  plumbago export-whisper /tmp/whisper --tag 'name=~.'        all tagged series
  plumbago export-whisper --dry-run /tmp/whisper '**'         all metrics without tags";

/// Options of `export-whisper`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    /// The directory to write to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    which: WhichArgs,
    /// Replace files that exist
    #[arg(long)]
    replace: bool,
    /// Write at most this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print what would be done and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago import-whisper`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, or the store or the daemon fails. Files that cannot be
/// read are not an error: the report counts and names them, and the exit code is 5.
pub fn import(args: &ImportArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let usage = |error| Failure::new(Exit::Usage, error);
    let names_dir = loaded.config.maintenance_dir();
    let tagged_names = args.tagged_names.as_deref().map(|from| tagged_names(from, &names_dir)).transpose();
    let verb = ImportWhisper {
        paths: args.paths.iter().map(|path| absolute(path)).collect::<anyhow::Result<_>>().map_err(usage)?,
        prefix: args.prefix.trim_matches('.').to_owned(),
        since: args.since,
        workers: args.workers,
        rate: args.rate,
        rules: args.rules,
        overwrite: args.overwrite,
        again: args.again,
        tagged_names: tagged_names.map_err(usage)?,
        skipped: args.skipped.as_deref().map(absolute).transpose().map_err(usage)?,
        dry_run: args.dry_run,
    };
    verb::carry_out(&verb, loaded)?.show(args.json, summary, |report| report.skips.is_empty())
}

/// Runs `plumbago export-whisper`.
///
/// # Errors
///
/// If the configuration has errors, the selection cannot be used, the store or the daemon cannot be reached,
/// or a file cannot be written.
pub fn export(args: &ExportArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let directory = absolute(&args.directory).map_err(|error| Failure::new(Exit::Usage, error))?;
    let (which, replace, dry_run) = (args.which.which(None)?, args.replace, args.dry_run);
    let outcome =
        verb::carry_out(&ExportWhisper { directory, which, replace, rate: args.rate, dry_run }, loaded)?;
    outcome.show(args.json, |report| export_summary(report, dry_run), |report| report.skipped == 0)
}

/// The file with the names of tagged series. If the names come from a graphite-web, they are written to a
/// file in `directory`.
fn tagged_names(from: &str, directory: &Path) -> anyhow::Result<PathBuf> {
    let Some(address) = from.strip_prefix("http://") else { return absolute(Path::new(from)) };
    let (address, path) = address.split_once('/').unwrap_or((address, ""));
    let path = path.trim_end_matches('/').trim_end_matches("tags").trim_end_matches('/');
    let path = if path.is_empty() { String::new() } else { format!("/{path}") };
    let question = format!("{path}/tags/findSeries?expr=name%3D~.");
    let answer = Client::new(address).get(&question);
    let answer = answer.with_context(|| format!("--tagged-names: {from} does not answer"))?;
    anyhow::ensure!(answer.status == 200, "--tagged-names: {from} answered {} to {question}", answer.status);
    let names: Vec<String> = serde_json::from_slice(&answer.body)
        .with_context(|| format!("--tagged-names: {from} does not answer with a list of names"))?;
    std::fs::create_dir_all(directory)?;
    let file = directory.join("import-whisper.names");
    std::fs::write(&file, names.join("\n")).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

fn summary(report: &ImportReport) -> String {
    let history = &report.history;
    let rate = history.stored as f64 / report.seconds.max(0.001);
    let mut text = format!(
        "{} files, {} metrics, {} new; {} points stored in {:.1} s ({:.0} per second)\n",
        report.files, report.metrics, history.created, history.stored, report.seconds, rate
    );
    let counts = [
        (report.unchanged, "metrics left out: their files have not changed since they were stored"),
        (report.other_settings, "metrics existed with other settings than their files have, and keep theirs"),
        (history.kept, "points left out: their slots were stored already"),
        (history.folded, "windows folded again from stored and imported points"),
        (report.left_out, "points left out: no stage of their metric covers them, or they have expired"),
        (report.unknown_values, "slots left out: their value is not a number"),
        (report.read_again, "times a file was read again, because it had changed meanwhile"),
    ];
    add_counts(&mut text, &counts);
    add_skipped(&mut text, "files need attention", &report.skips);
    add_dry_run(&mut text, report.dry_run);
    text
}

fn export_summary(report: &ExportReport, dry_run: bool) -> String {
    let ExportReport { metrics, files, points, bytes, skipped, existing, .. } = report;
    let mut text = format!("{metrics} metrics; {files} files with {points} points, {bytes} bytes, written\n");
    if *existing > 0 {
        text.push_str(&format!("  {existing} files existed and were kept; --replace replaces them\n"));
    }
    if *skipped > 0 {
        text.push_str(&format!("  {skipped} metrics were not written:\n"));
    }
    report.examples.iter().for_each(|example| text.push_str(&format!("    {example}\n")));
    if dry_run {
        text.push_str("dry run, nothing is written\n");
    }
    text
}
