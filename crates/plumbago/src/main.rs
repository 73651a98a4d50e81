//! The binary: command line, configuration, wiring. Holds no logic of its own.
//!
//! Start at [`cli`] for the commands and at [`config`] for the settings.

#![allow(unreachable_pub, reason = "a binary has no outside; `pub` says what a module offers to the others")]

mod cli;
mod commands;
mod config;
mod error;
mod held;
mod machine;
mod output;
mod secret;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use error::Failure;

/// jemalloc keeps memory use steady under allocations of many sizes, where glibc's allocator fragments
/// (`docs/dependencies.md`).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure.error.is_some() {
                output::complain(&failure.to_string());
            }
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let file = cli.config.as_deref();
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => commands::serve::run(file),
        Command::Config(command) => commands::config::run(command, file),
        Command::Syncdb(args) => commands::schema::syncdb(&args, file),
        Command::Schema(args) => commands::schema::schema(&args, file),
        Command::Clean(args) => commands::maintain::clean(&args, file),
        Command::Repair(args) => commands::maintain::repair(&args, file),
        Command::List(args) => commands::list::list(&args, file),
        Command::Info(args) => commands::show::info(&args, file),
        Command::Read(args) => commands::show::read(&args, file),
        Command::Write(args) => commands::show::write(&args, file),
        Command::Du(args) => commands::list::du(&args, file),
        Command::Stats(args) => commands::stats::run(&args, file),
        Command::Tags(args) => commands::list::tags(&args, file),
        Command::Rules(command) => commands::rules::run(&command, file),
        Command::Copy(args) => commands::copies::copy(&args, file),
        Command::Move(args) => commands::copies::rename(&args, file),
        Command::Delete(args) => commands::delete::run(&args, file),
        Command::Backup(args) => commands::backup::run(&args, file),
        Command::Restore(args) => commands::restore::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::ReplayTraffic(args) => commands::traffic::run(&args),
        Command::Test(args) => commands::test::run(&args, file),
        Command::Replay(args) => commands::replay::run(&args, file),
        Command::ImportWhisper(args) => commands::whisper::import(&args, file),
        Command::ExportWhisper(args) => commands::whisper::export(&args, file),
        Command::ImportKairosdb(args) => commands::kairosdb::import(&args, file),
        Command::ImportGraphite(args) => commands::graphite::import(&args, file),
        Command::ImportStore(args) => commands::other_store::import(&args, file),
        Command::ImportNames(args) => commands::names::import(&args, file),
        Command::ImportEvents(args) => commands::graphite::events(&args, file),
        Command::Bench(command) => commands::bench::run(command, file),
        Command::Dev(command) => commands::dev::run(command),
    }
}
