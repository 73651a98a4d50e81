//! `plumbago serve`.

use std::path::Path;

use plumbago_telemetry::log;

use crate::config::{self, Problems};
use crate::error::{Exit, Failure};

/// Runs the daemon until a signal or the admin port stops it. Errors are written to the log, like all
/// messages of the daemon.
///
/// # Errors
///
/// If the configuration has errors, or the daemon cannot start or cannot close its stores.
pub fn run(file: Option<&Path>) -> Result<(), Failure> {
    let loaded = match config::load_for_daemon(file) {
        Ok(loaded) => loaded,
        Err(problems) => return Err(refused(&problems)),
    };
    crate::serve::run(loaded, file).map_err(logged)
}

fn refused(problems: &Problems) -> Failure {
    log::init("info");
    problems.log();
    let count = problems.iter().filter(|problem| problem.error).count();
    tracing::error!(
        "not started: {count} error(s) in the configuration; `plumbago config check` shows them too"
    );
    Failure::said(Exit::Config)
}

/// Logs why the daemon ends. If the log level hides errors, `main` prints the reason.
fn logged(failure: Failure) -> Failure {
    if failure.error.is_none() || !tracing::enabled!(tracing::Level::ERROR) {
        return failure;
    }
    tracing::error!("stopped with exit code {}: {failure}", failure.exit as u8);
    Failure::said(failure.exit)
}
