//! `plumbago bench load | find | render | disk`.

mod disk;
mod load;
mod query;
mod report;

use std::path::Path;

use clap::Subcommand;

use crate::error::Failure;

/// What is measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Send points over TCP and report speed, processor time, memory and disk
    Load(load::LoadArgs),
    /// Time searches for names
    Find(query::FindArgs),
    /// Time render requests
    Render(query::RenderArgs),
    /// Tell what the points of a stopped daemon take on the disk, by stage
    Disk(disk::DiskArgs),
}

/// Runs one of them.
pub fn run(command: BenchCommand, file: Option<&Path>) -> Result<(), Failure> {
    match command {
        BenchCommand::Load(args) => load::run(&args, file),
        BenchCommand::Find(args) => query::find(&args),
        BenchCommand::Render(args) => query::render(&args),
        BenchCommand::Disk(args) => disk::run(&args, file),
    }
}
