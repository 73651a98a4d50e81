//! `plumbago bench load | find | render | disk | seeds`.

mod disk;
mod load;
mod query;
mod seeds;

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use plumbago_bench::load::names::Shape;
use plumbago_bench::{BenchError, Report};

use crate::error::{Exit, Failure};
use crate::output::print;

/// The commands of `plumbago bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Send points over TCP and report throughput, processor time, memory and disk use
    Load(load::LoadArgs),
    /// Time searches for names
    Find(query::FindArgs),
    /// Time render requests
    Render(query::RenderArgs),
    /// Report the disk use of a stopped daemon's points, by stage
    Disk(disk::DiskArgs),
    /// Measure the figures of the articles that the project began with
    Seeds(seeds::SeedsArgs),
}

/// Runs a `plumbago bench` command.
///
/// # Errors
///
/// If the measurement fails. See the function of each command.
pub fn run(command: BenchCommand, file: Option<&Path>) -> Result<(), Failure> {
    match command {
        BenchCommand::Load(args) => load::run(&args, file),
        BenchCommand::Find(args) => query::find(&args),
        BenchCommand::Render(args) => query::render(&args),
        BenchCommand::Disk(args) => disk::run(&args, file),
        BenchCommand::Seeds(args) => seeds::run(&args, file),
    }
}

/// A scheme of metric names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Names {
    /// Two thirds host metrics (25 per host), one third application metrics; 5–8 components, about 50 bytes
    Mixed,
    /// `dc1.rack12.host0123.cpu.3.user`: 100 metrics per host, 50 racks in each of 4 data centres
    Hosts,
}

impl From<Names> for Shape {
    fn from(names: Names) -> Self {
        match names {
            Names::Mixed => Self::Mixed,
            Names::Hosts => Self::Hosts,
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        Self::new(Exit::Internal, error)
    }
}

fn print_report(report: &Report, json: bool) -> Result<(), Failure> {
    Ok(print(&if json { report.json() } else { report.table() })?)
}
