//! `plumbago bench disk`: the disk use of a stopped daemon's points.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use plumbago_bench::Report;
use plumbago_model::SystemClock;
use plumbago_store::StoreError;
use plumbago_store_embedded::{EmbeddedStore, StageUsage};
use plumbago_telemetry::Registry;

use super::super::expect_data;
use super::print_report;
use crate::config::{self, Config, StoreKind};
use crate::error::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  plumbago bench disk                            measures the configured data directory; its daemon must be stopped
  plumbago bench disk --json";

/// Options of `plumbago bench disk`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DiskArgs {
    /// Data directory of a stopped daemon; by default the configured one
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Merge all blocks into long ones first, as the daemon does at the end of each day
    #[arg(long)]
    merge: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago bench disk`: prints the bytes per point of each stage.
///
/// # Errors
///
/// If the configuration has errors, the store cannot be opened (a daemon may be using it), or the output
/// fails.
pub fn run(args: &DiskArgs, file: Option<&Path>) -> Result<(), Failure> {
    let mut config = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?.config;
    if let Some(data_dir) = &args.data_dir {
        config.data_dir = data_dir.clone();
    }
    if config.store.kind == StoreKind::Cassandra && args.data_dir.is_none() {
        let error =
            anyhow!("the points are in Cassandra (store.kind): `nodetool tablestats` shows their disk use");
        return Err(Failure::new(Exit::Usage, error));
    }
    expect_data(&config, "store")?;
    let mut report = Report::default();
    measure(&config, args.merge, &mut report)?;
    print_report(&report, args.json)
}

/// Opens the store of a stopped daemon and adds the disk use of each stage to `report`. With `merge`, all
/// blocks are merged into long ones first.
///
/// # Errors
///
/// If the store cannot be opened, read, merged or closed.
pub fn measure(config: &Config, merge: bool, report: &mut Report) -> Result<(), Failure> {
    let failed = |error: StoreError| Failure::new(Exit::Store, error);
    let settings = config.store.embedded.clone();
    let store = EmbeddedStore::open(config.store_dir(), settings, Arc::new(SystemClock), &Registry::new());
    let store = store.map_err(failed)?;
    if merge {
        store.merge_all(&mut |_| true).map_err(failed)?;
    }
    store.write_tables().map_err(failed)?;
    let usage = store.usage().map_err(failed)?;
    for stage in &usage.stages {
        let kind = if stage.coarse { "windows" } else { "raw" };
        add(report, &format!("{} {kind}", stage.stage), stage);
    }
    for (name, bytes) in [
        ("state rows", usage.state_bytes),
        ("names and settings", usage.metadata_bytes),
        ("write-ahead logs", usage.log_bytes),
    ] {
        report.count(name, bytes, "B");
    }
    store.close().map_err(failed)
}

fn add(report: &mut Report, title: &str, stage: &StageUsage) {
    for (what, rows, points, bytes) in [
        ("fresh", stage.fresh_rows, stage.fresh_points, stage.fresh_bytes),
        ("merged", stage.merged_rows, stage.merged_points, stage.merged_bytes),
    ] {
        if points > 0 {
            report.count(format!("{title}, {what}"), points, "points");
            report.figure(format!("{title}, {what}, per row"), points as f64 / rows as f64, "points");
            report.figure(format!("{title}, {what}, per point"), bytes as f64 / points as f64, "B");
        }
    }
}
