//! `plumbago bench load | find | render`.

mod load;
mod query;
mod report;

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
}

/// Runs one of them.
pub fn run(command: BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Load(args) => load::run(&args),
        BenchCommand::Find(args) => query::find(&args),
        BenchCommand::Render(args) => query::render(&args),
    }
}
