//! `plumbago restore`: restores a backup into a new data directory.

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use plumbago_cluster::WriterFile;
use plumbago_maintenance::backup::restore::Reads;
use plumbago_maintenance::backup::{BackupError, Generation, restore};
use plumbago_model::ByteSize;
use serde::Serialize;

use super::backup::{generation, open, time};
use super::verb::on_files;
use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
All files are verified before the first one is written. NEW must be missing or empty. An interrupted restore is repeated
with the same command; until it is done, no daemon starts on NEW. Then set data_dir to NEW and start the daemon.

On Cassandra and ScyllaDB, choose who continues:
  --same-writer   the daemon of the backup will never run again, and this one takes its place and its writer id
  --new-writer    that daemon runs, or may run again; this one chooses its own writer id
Two daemons with one writer id replace each other's rows, and points are lost. If in doubt, use --new-writer. Windows
that were open when the backup was taken are corrected by the job repair_new_writer or by `plumbago repair windows`.
The embedded store is used by one daemon only, and needs neither. Points that the original received after the backup are not
in the restored directory.

Examples:
  plumbago restore /mnt/backup/plumbago --data-dir /var/lib/plumbago-restored
  plumbago restore /mnt/backup/plumbago --data-dir /var/lib/plumbago-first --generation 1
  plumbago restore /mnt/backup/plumbago --data-dir /var/lib/plumbago-same --same-writer
  plumbago restore /mnt/backup/plumbago --data-dir /var/lib/plumbago-never --dry-run";

/// Options of `plumbago restore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The new data directory
    #[arg(long, value_name = "NEW")]
    data_dir: PathBuf,
    /// The generation; the newest by default
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Continue as the writer of the backup, whose daemon will never run again
    #[arg(long, conflicts_with = "new_writer")]
    same_writer: bool,
    /// Become another writer, because the daemon of the backup may still run
    #[arg(long)]
    new_writer: bool,
    /// Read at most this many bytes per second, like 50MiB; 0B means no limit. Every file is read twice, first to
    /// verify it
    #[arg(long, value_name = "SIZE", default_value = "0B")]
    rate: ByteSize,
    /// Verify the backup and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The writer id that the restored directory uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Writer {
    /// The store is not shared.
    None,
    Same,
    New,
}

/// The result of a restore.
#[derive(Debug, Serialize)]
struct Restored {
    generation: u32,
    held: i64,
    files: u64,
    bytes: u64,
    data_dir: PathBuf,
    writer: Writer,
    dry_run: bool,
}

/// Runs `plumbago restore`.
///
/// # Errors
///
/// If the backup is damaged, the data directory is not empty or its disk is full, or it was not stated which
/// daemon continues as the writer.
pub fn run(args: &RestoreArgs) -> Result<(), Failure> {
    let directory = open(&args.dir)?;
    let generation = generation(&directory, args.generation)?;
    let to = std::path::absolute(&args.data_dir)?;
    let writer = writer(args, &generation)?;
    let done = on_files("restore", |progress, stop| {
        let mut reads = Reads::new(args.rate.0, progress, stop);
        if args.dry_run {
            restore::check_target(&directory, &to)?;
            return restore::verify(&directory, &generation, &mut reads);
        }
        restore::restore(&directory, &generation, &to, &mut reads, &|to| set_writer(to, writer))
    })?;
    let restored = Restored {
        generation: done.generation,
        held: generation.held,
        files: done.files,
        bytes: done.bytes,
        data_dir: to,
        writer,
        dry_run: args.dry_run,
    };
    if args.json {
        return print_json(&restored);
    }
    print(&summary(&restored))?;
    Ok(())
}

fn summary(restored: &Restored) -> String {
    let (files, size, at) = (restored.files, ByteSize(restored.bytes), time(restored.held));
    let what = format!("generation {} of {at}: {files} files, {size}", restored.generation);
    if restored.dry_run {
        return format!("restore: {what}, all checksums match; dry run, nothing is written\n");
    }
    let dir = restored.data_dir.display();
    let writer = match restored.writer {
        Writer::None => "",
        Writer::Same => "  it continues as the writer of the backup; the old daemon must not start again\n",
        Writer::New => "  its daemon becomes another writer at its first start\n",
    };
    format!("restore: {what}\n{writer}  to use it, set data_dir = \"{dir}\" and start the daemon\n")
}

/// Whether the generation comes from a daemon on a shared store.
fn is_shared(generation: &Generation) -> bool {
    generation.store == "cassandra" && generation.files.iter().any(|file| file.path == Path::new("writer-id"))
}

/// Asks at the terminal which daemon continues as the writer, unless the options state it. There is no
/// default.
fn writer(args: &RestoreArgs, generation: &Generation) -> Result<Writer, Failure> {
    match (is_shared(generation), args.same_writer, args.new_writer) {
        (false, ..) => Ok(Writer::None),
        (true, true, _) => Ok(Writer::Same),
        (true, _, true) => Ok(Writer::New),
        (true, ..) if args.dry_run => Ok(Writer::New),
        (true, ..) if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() => ask(generation),
        (true, ..) => Err(Failure::new(Exit::Usage, anyhow!(unsaid(generation)))),
    }
}

fn unsaid(generation: &Generation) -> String {
    format!(
        "this backup is of a daemon on a shared store (data directory {}). Is that daemon gone for good, so that the \
         restored one takes its place? Then give --same-writer. Does it run, or may it run again? Then give \
         --new-writer. Two daemons with one writer id replace each other's rows. Nothing was written",
        generation.data_dir.display()
    )
}

fn ask(generation: &Generation) -> Result<Writer, Failure> {
    eprintln!(
        "This backup is of a daemon on a shared store (data directory {}). Two daemons with one writer id replace \
         each other's rows.",
        generation.data_dir.display()
    );
    eprint!(
        "Is that daemon gone for good, so that this one takes its place? Type `gone`, or `new` for a new writer: "
    );
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "gone" => Ok(Writer::Same),
        "new" => Ok(Writer::New),
        _ => Err(Failure::new(Exit::Usage, anyhow!(unsaid(generation)))),
    }
}

/// Gives the restored directory the writer id that was chosen.
fn set_writer(to: &Path, writer: Writer) -> Result<(), BackupError> {
    let done = match writer {
        Writer::None => Ok(()),
        Writer::Same => WriterFile::adopt(to).map(drop),
        Writer::New => WriterFile::forget(to),
    };
    done.map_err(|cause| BackupError::Io { operation: "write", path: to.join("writer-id"), cause })
}
