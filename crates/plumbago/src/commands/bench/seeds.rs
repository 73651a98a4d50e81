//! `plumbago bench seeds`: measures the figures that were the goals at the start of the project.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use plumbago_bench::BenchError;
use plumbago_bench::seeds::{self, Disk, Setup};
use plumbago_model::SystemClock;
use plumbago_store::StoreError;
use plumbago_store_embedded::EmbeddedStore;
use plumbago_telemetry::Registry;

use crate::config::{self, Config};
use crate::error::{Exit, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Each group of figures starts a daemon of this binary with its own directory and clock, sends points through its
sockets, and stops it. Figures about Cassandra's tables are listed as not measured.

Examples:
  plumbago bench seeds --scale 0.0002            a quick try of all figures
  plumbago bench seeds --only H8,H9 --scale 0.001
  plumbago bench seeds --only H5 --scale 0.001 --json";

/// Options of `plumbago bench seeds`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SeedsArgs {
    /// Figures to measure, like H5,H8; by default all
    #[arg(long, value_delimiter = ',', value_parser = seeds::parse)]
    only: Vec<u8>,
    /// Multiplies all sizes; 1 is the full size, 300,000 cities
    #[arg(long, default_value_t = 0.01)]
    scale: f64,
    /// A directory in which the daemons create new data directories, which are kept; by default a temporary
    /// one
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Print a JSON list instead of text
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago bench seeds`: measures once and prints each figure.
///
/// # Errors
///
/// If a size cannot be used, the configuration has errors, a daemon cannot be started, asked or stopped, or its store
/// cannot be opened to measure its disk use.
pub fn run(args: &SeedsArgs, file: Option<&Path>) -> Result<(), Failure> {
    if !(args.scale > 0.0 && args.scale <= 1.0) {
        return Err(Failure::new(Exit::Usage, anyhow!("--scale: must be more than 0 and at most 1")));
    }
    let config = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?.config;
    let temporary = tempfile::tempdir()?;
    let directory = match &args.data_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => temporary.path().to_owned(),
    };
    let disk = |data_dir: &Path, merge: bool| disk(&config, data_dir, merge);
    let program = std::env::current_exe()?;
    let setup = Setup {
        program: &program,
        config_file: file,
        directory: &directory,
        only: &args.only,
        scale: args.scale,
        disk: &disk,
    };
    let figures = seeds::measure(&setup)?;
    Ok(print(&if args.json { seeds::json_list(&figures) } else { seeds::text(&figures) })?)
}

/// Measures the disk use of a stopped daemon. With `merge`, merges its blocks first.
fn disk(config: &Config, data_dir: &Path, merge: bool) -> Result<Disk, BenchError> {
    let config = Config { data_dir: data_dir.to_owned(), ..config.clone() };
    usage(&config, merge).map_err(|error| BenchError::Io {
        action: format!("measure the disk use of {}", data_dir.display()),
        source: io::Error::other(error),
    })
}

fn usage(config: &Config, merge: bool) -> Result<Disk, StoreError> {
    let settings = config.store.embedded.clone();
    let store = EmbeddedStore::open(config.store_dir(), settings, Arc::new(SystemClock), &Registry::new())?;
    if merge {
        store.merge_all(&mut |_| true)?;
    }
    store.write_tables()?;
    let usage = store.usage()?;
    let mut disk = Disk { names_bytes: usage.metadata_bytes, ..Disk::default() };
    for stage in usage.stages.iter().filter(|stage| !stage.coarse) {
        disk.rows += stage.fresh_rows + stage.merged_rows;
        disk.points += stage.fresh_points + stage.merged_points;
        disk.bytes += stage.fresh_bytes + stage.merged_bytes;
    }
    store.close()?;
    Ok(disk)
}
