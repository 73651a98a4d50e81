//! Helpers for tests that kill a process. They start another test of the same binary as a child process,
//! which reports its progress on standard output, and kill it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::wait::wait_until;

const VARIABLE: &str = "PLUMBAGO_TEST_CHILD_DIRECTORY";

/// The command that runs only the test `name` of this binary, even if it is ignored, as a child process that
/// works in `directory`. `name` is the full path of the test, like `crash::child`.
pub fn child_test(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--include-ignored"]).env(VARIABLE, directory);
    command
}

/// The directory that [`child_test`] passed to this process. `None` in any other process: a test that is
/// meant as a child then does nothing.
pub fn child_directory() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// A test of this binary that runs as a child process. It is killed when dropped.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    reports: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Victim {
    /// Starts the child. `note` receives every complete line of its standard output, and returns whether the
    /// line is a report of the child and not of the test harness.
    pub fn start(mut command: Command, mut note: impl FnMut(&str) -> bool + Send + 'static) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (reports, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&reports), Arc::clone(&ended));
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
                if note(line.trim_end()) {
                    count.fetch_add(1, Ordering::SeqCst);
                }
                line.clear();
            }
            end.store(true, Ordering::SeqCst);
        });
        Self { child, reports, ended, reader: Some(reader) }
    }

    /// Waits for the given number of reports, then for the time `later`, and kills the child. With 0 reports
    /// the kill may hit its start. Returns after `note` has received all complete lines.
    pub fn kill_after(mut self, reports: u64, later: Duration) {
        wait_until("the child to report", || {
            self.reports.load(Ordering::SeqCst) >= reports || self.ended.load(Ordering::SeqCst)
        });
        // Only varies the moment of the kill: the result of the test does not depend on it.
        std::thread::sleep(later);
        assert!(self.child.try_wait().unwrap().is_none(), "the child ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
