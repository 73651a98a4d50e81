//! `plumbago backup`: copies the data directory, of a running daemon too, and lists and verifies backups.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use plumbago_maintenance::backup::restore::Reads;
use plumbago_maintenance::backup::take::{Means, Order, Taken, take};
use plumbago_maintenance::backup::{Directory, Generation, restore};
use plumbago_maintenance::verb::Verb as _;
use plumbago_maintenance::verbs::backup::Backup;
use plumbago_model::{ByteSize, SystemClock};
use serde::Serialize;

use super::verb::{self, Daemon, on_files};
use crate::config::{Loaded, is_used, shown_dir};
use crate::error::{Exit, Failure};
use crate::held::is_held;
use crate::output::{print, print_json};
use crate::serve::Files;

const EXAMPLES: &str = "\
Every run creates a generation with every point that was in the journal when the command began. Generations share
their files, so a run copies only what is new. A run that was interrupted leaves no generation; run the same command
again, and it uses what was copied. A running daemon writes the backup itself, so DIR is on its machine and must be
writable for its user. Put the backup on another disk than the data. You may copy it to another machine with any
tool, as long as no run is writing it.

On Cassandra and ScyllaDB the points are on the servers, and are backed up there. The data directory has everything else that
a restart needs: the journal, rows not yet sent, open windows, the names, and the writer id.

Examples:
  plumbago backup /mnt/backup/plumbago             back up the data directory of plumbago.toml
  plumbago backup /mnt/backup/plumbago --keep 7    and remove all but the newest 7 generations
  plumbago backup /mnt/backup/plumbago --dry-run   how much would be read and copied
  plumbago backup /mnt/backup/plumbago --list      the generations, with times and sizes
  plumbago backup /mnt/backup/plumbago --verify    compare the checksums of the newest generation
  plumbago restore /mnt/backup/plumbago --data-dir /var/lib/plumbago-restored";

/// Options of `plumbago backup`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    /// Directory of the backup; created if it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Remove all but the newest N generations afterwards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["list", "verify"])]
    keep: Option<u32>,
    /// Read at most this many bytes per second, like 50MiB; 0B means no limit
    #[arg(long, value_name = "SIZE", default_value = "0B", conflicts_with = "list")]
    rate: ByteSize,
    /// Print what would be copied and write nothing
    #[arg(long, conflicts_with_all = ["list", "verify"])]
    dry_run: bool,
    /// List the generations
    #[arg(long, conflicts_with = "verify")]
    list: bool,
    /// Read a generation and compare all checksums
    #[arg(long)]
    verify: bool,
    /// The generation to verify; the newest by default
    #[arg(long, value_name = "N", requires = "verify")]
    generation: Option<u32>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago backup`.
///
/// # Errors
///
/// If the configuration has errors, the daemon cannot be reached, the directory cannot be used or is full, or files are
/// damaged.
pub fn run(args: &BackupArgs, file: Option<&Path>) -> Result<(), Failure> {
    if args.list {
        return list(args);
    }
    if args.verify {
        return verify(args);
    }
    let loaded = verb::load(file)?;
    let dir = std::path::absolute(&args.dir)?;
    let order = Order { dir, keep: args.keep, dry_run: args.dry_run, rate: args.rate.0 };
    let taken = carry_out(order, &loaded)?;
    if args.json {
        print_json(&taken)?;
    } else {
        print(&summary(args, &taken))?;
    }
    if taken.damaged.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
}

/// Makes the daemon that has the data directory open take the backup, or takes it in this process if there is
/// no such daemon.
fn carry_out(order: Order, loaded: &Loaded) -> Result<Taken, Failure> {
    if is_held(&loaded.config) {
        let backup = Backup(order);
        backup.check().map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
        return Ok(Daemon::of(&loaded.config)?.carry_out(&backup)?.answer);
    }
    let data = &loaded.config.data_dir;
    if !is_used(data) {
        let error = anyhow!(
            "no data to back up: no daemon has used the data directory {}. Name the daemon's configuration with \
             --config, or its directory with data_dir",
            shown_dir(data).display()
        );
        return Err(Failure::new(Exit::Store, error));
    }
    let files = Files::at_rest(&loaded.config);
    on_files("backup", |progress, stop| {
        take(&order, Means { files: &files, clock: &SystemClock, progress, stop })
    })
}

fn summary(args: &BackupArgs, taken: &Taken) -> String {
    let size = |bytes| ByteSize(bytes).to_string();
    let metrics = taken.metrics.map_or_else(String::new, |metrics| format!(", {metrics} metrics"));
    let of = format!("{} files, {}{metrics}", taken.files, size(taken.bytes));
    let mut text = match args.dry_run {
        true => format!(
            "backup: {of}; {} files with {} would be read, nothing is written\n",
            taken.copied_files,
            size(taken.copied_bytes)
        ),
        false => format!(
            "backup: generation {} in {}: {of}; copied {} files with {}\n",
            taken.generation,
            args.dir.display(),
            taken.copied_files,
            size(taken.copied_bytes)
        ),
    };
    if taken.removed > 0 {
        text.push_str(&format!("  removed {} older generations\n", taken.removed));
    }
    for file in &taken.damaged {
        text.push_str(&format!("  {file} is damaged in the data directory; the backup has it as it is\n"));
    }
    text
}

/// A line of the list of generations.
#[derive(Debug, Serialize)]
struct Line {
    generation: u32,
    held: i64,
    version: String,
    store: String,
    metrics: Option<u64>,
    files: u64,
    bytes: u64,
    copied_bytes: u64,
    data_dir: PathBuf,
}

impl From<Generation> for Line {
    fn from(found: Generation) -> Self {
        Self {
            generation: found.number,
            held: found.held,
            files: found.files.len() as u64,
            bytes: found.bytes(),
            version: found.version,
            store: found.store,
            metrics: found.metrics,
            copied_bytes: found.copied_bytes,
            data_dir: found.data_dir,
        }
    }
}

fn list(args: &BackupArgs) -> Result<(), Failure> {
    let directory = open(&args.dir)?;
    let mut damaged = false;
    for number in directory.numbers().map_err(verb::backup_failure)? {
        match directory.generation(number) {
            Ok(found) if args.json => print_json(&Line::from(found))?,
            Ok(found) => print(&line(&Line::from(found)))?,
            Err(error) => {
                damaged = true;
                eprintln!("generation {number}: {error}");
            }
        }
    }
    if damaged { Err(Failure::said(Exit::Data)) } else { Ok(()) }
}

fn line(line: &Line) -> String {
    let metrics = line.metrics.map_or_else(String::new, |metrics| format!(", {metrics} metrics"));
    format!(
        "{:>4}  {}  {} files, {}{metrics}, {} of them new; {} store of {} (plumbago {})\n",
        line.generation,
        time(line.held),
        line.files,
        ByteSize(line.bytes),
        ByteSize(line.copied_bytes),
        line.store,
        line.data_dir.display(),
        line.version
    )
}

/// A time as text for people.
pub(super) fn time(at: i64) -> String {
    jiff::Timestamp::from_second(at).map_or_else(|_| at.to_string(), |at| at.to_string())
}

fn verify(args: &BackupArgs) -> Result<(), Failure> {
    let directory = open(&args.dir)?;
    let generation = generation(&directory, args.generation)?;
    let found = on_files("verify", |progress, stop| {
        restore::verify(&directory, &generation, &mut Reads::new(args.rate.0, progress, stop))
    })?;
    if args.json {
        return print_json(&found);
    }
    print(&format!(
        "verify: generation {} of {}: {} files, {}, all checksums match\n",
        found.generation,
        time(generation.held),
        found.files,
        ByteSize(found.bytes)
    ))?;
    Ok(())
}

/// Opens a backup for reading.
///
/// # Errors
///
/// If there is no backup.
pub(super) fn open(dir: &Path) -> Result<Directory, Failure> {
    Directory::open(dir).map_err(verb::backup_failure)
}

/// The generation with this number, or the newest.
///
/// # Errors
///
/// If there is no such generation, or its manifest is damaged.
pub(super) fn generation(directory: &Directory, number: Option<u32>) -> Result<Generation, Failure> {
    let numbers = directory.numbers().map_err(verb::backup_failure)?;
    let Some(number) = number.or(numbers.last().copied()) else {
        let error = anyhow!("{} has no complete backup", directory.path().display());
        return Err(Failure::new(Exit::Data, error));
    };
    directory.generation(number).map_err(verb::backup_failure)
}
