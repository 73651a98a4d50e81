//! A daemon for a group of figures, on a directory of its own, with its own storage rules and a clock that
//! the group sets.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Setup;
use crate::query::{self, Query, Repeat, Timing};
use crate::server::{JOURNALED, Metrics, Server};
use crate::{BenchError, Client, Daemon};

/// Ends a wait for something that never happens.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// Pause between two polls of a job that is timed, and between two polls of anything else.
const JOB_POLL: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(5);
/// How often each query is repeated.
const REPEAT: Repeat = Repeat { count: 200, time_limit: Duration::from_secs(2) };

/// The directory of a daemon, and how to start it.
#[derive(Debug)]
pub(super) struct Site<'a> {
    program: &'a Path,
    config_file: Option<&'a Path>,
    directory: PathBuf,
}

/// A running daemon.
#[derive(Debug)]
pub(super) struct Running {
    daemon: Daemon,
    admin: Client,
    api: Client,
    /// The number of points sent to this process.
    sent: Cell<u64>,
}

impl<'a> Site<'a> {
    /// A new directory with these storage rules. If the directory exists, this fails and does not change it,
    /// because it may contain something else.
    pub(super) fn new(setup: &'a Setup<'_>, name: &str, schemas: &str) -> Result<Self, BenchError> {
        let directory = setup.directory.join(name);
        let failed = || BenchError::io(format!("prepare {}", directory.display()));
        fs::create_dir_all(setup.directory).map_err(failed())?;
        fs::create_dir(&directory).map_err(failed())?;
        fs::write(directory.join("schemas.conf"), schemas).map_err(failed())?;
        let sums = "[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n";
        fs::write(directory.join("aggregation.conf"), sums).map_err(failed())?;
        Ok(Self { program: setup.program, config_file: setup.config_file, directory })
    }

    /// The daemon's data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Starts the daemon with its clock at `now`.
    pub(super) fn start(&self, now: i64) -> Result<Running, BenchError> {
        let file = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        let variables = [
            ("PLUMBAGO__DEBUG__CLOCK", now.to_string()),
            ("PLUMBAGO__STORAGE_SCHEMAS", file("schemas.conf")),
            ("PLUMBAGO__STORAGE_AGGREGATION", file("aggregation.conf")),
            ("PLUMBAGO__SELF_METRICS__INTERVAL", "0s".to_owned()),
            ("PLUMBAGO__MAINTENANCE__ROWS_PER_SECOND", "0".to_owned()),
            ("PLUMBAGO__STORE__KIND", "embedded".to_owned()),
        ];
        let daemon = Daemon::spawn_with(self.program, &self.data(), self.config_file, &variables)?;
        let secret = self.data().join("admin-secret");
        let token =
            fs::read_to_string(&secret).map_err(BenchError::io(format!("read {}", secret.display())))?;
        let admin = Client::new(&daemon.admin).with_token(token.trim());
        let api = Client::new(&daemon.api);
        Ok(Running { daemon, admin, api, sent: Cell::new(0) })
    }
}

impl Running {
    /// Sets the daemon's clock.
    pub(super) fn set_clock(&self, now: i64) -> Result<(), BenchError> {
        let path = format!("/admin/clock?now={now}");
        accepted(&path, &self.admin.post(&path)?).map(drop)
    }

    /// Stores all points in blocks.
    pub(super) fn flush(&self) -> Result<(), BenchError> {
        accepted("/admin/flush", &self.admin.post("/admin/flush")?).map(drop)
    }

    /// The address of the daemon's listener for lines.
    pub(super) fn line(&self) -> &str {
        &self.daemon.line
    }

    /// Sends lines over one connection, and waits until their points are in the heads. `write` returns the number of
    /// points.
    pub(super) fn send(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<u64>,
    ) -> Result<(), BenchError> {
        let points = send_lines(self.line(), write)?;
        self.expect(points)
    }

    /// Waits until this many more points are in the heads.
    pub(super) fn expect(&self, points: u64) -> Result<(), BenchError> {
        self.sent.set(self.sent.get() + points);
        self.wait("for the points to be accepted", POLL, || {
            let ledger = accepted("/admin/ledger", &self.admin.get("/admin/ledger")?)?;
            let number = |name: &str| ledger.get(name).and_then(Value::as_u64);
            Ok(number("received").is_some_and(|n| n >= self.sent.get()) && number("queued") == Some(0))
        })
    }

    /// Waits until this process has created this many names.
    pub(super) fn wait_created(&self, names: u64) -> Result<(), BenchError> {
        self.wait("for the names to be created", POLL, || Ok(self.metric(CREATED)? >= names as f64))
    }

    /// Waits until a gauge or counter has reached a value.
    pub(super) fn wait_for(&self, name: &str, wanted: f64) -> Result<(), BenchError> {
        self.wait("for the index", POLL, || Ok(self.metric(name)? >= wanted))
    }

    /// Waits until the daemon has written and merged everything that it received.
    pub(super) fn wait_until_idle(&self) -> Result<(), BenchError> {
        Server { pid: Some(self.daemon.pid()), admin: None }.wait_until_idle().map(drop)
    }

    /// Waits until all points that were sent are in the journal.
    pub(super) fn wait_journaled(&self) -> Result<(), BenchError> {
        self.wait("for the journal", POLL, || Ok(self.metric(JOURNALED)? >= self.sent.get() as f64))
    }

    /// The value of one of the daemon's metrics, summed over its labels; 0 if it is missing.
    pub(super) fn metric(&self, name: &str) -> Result<f64, BenchError> {
        Ok(Metrics::fetch(&self.admin)?.sum(name).unwrap_or(0.0))
    }

    /// Times a request to the API.
    pub(super) fn time(&self, query: Query) -> Result<Timing, BenchError> {
        let mut timings = self.time_all(&[query])?;
        // `time_all` returns one timing for each query.
        Ok(timings.remove(0))
    }

    /// Times requests to the API, one after the other.
    pub(super) fn time_all(&self, queries: &[Query]) -> Result<Vec<Timing>, BenchError> {
        query::time_all(&self.api, queries, REPEAT)
    }

    /// Returns the API's answer, which must be JSON.
    pub(super) fn get(&self, path: &str) -> Result<Value, BenchError> {
        accepted(path, &self.api.get(path)?)
    }

    /// Runs a verb as a job of the daemon. Returns the answer, and the milliseconds from the request to the
    /// end of the job.
    pub(super) fn job(&self, verb: &str, parameters: &Value) -> Result<(Value, f64), BenchError> {
        let asked = Instant::now();
        let path = format!("/admin/jobs?job={verb}");
        let started = accepted(&path, &self.admin.post_json(&path, &parameters.to_string())?)?;
        let path = format!("/admin/jobs/{}", started["id"].as_str().unwrap_or_default());
        let mut job = Value::Null;
        self.wait("for a job", JOB_POLL, || {
            job = accepted(&path, &self.admin.get(&path)?)?;
            Ok(!matches!(job["state"].as_str(), Some("waiting" | "running")))
        })?;
        let took = asked.elapsed().as_secs_f64() * 1000.0;
        match job["state"].as_str() {
            Some("done") => Ok((job["result"].take(), took)),
            _ => Err(BenchError::Refused { query: verb.to_owned(), status: 200, body: job.to_string() }),
        }
    }

    /// Stops the daemon.
    pub(super) fn stop(self) -> Result<(), BenchError> {
        self.daemon.stop().map(drop)
    }

    /// Kills the daemon, which has the effect of a crash.
    pub(super) fn kill(self) -> Result<(), BenchError> {
        self.daemon.kill()
    }

    fn wait(
        &self,
        what: &'static str,
        pause: Duration,
        mut done: impl FnMut() -> Result<bool, BenchError>,
    ) -> Result<(), BenchError> {
        let begun = Instant::now();
        while !done()? {
            if begun.elapsed() > TIMEOUT {
                return Err(BenchError::Timeout { what, seconds: TIMEOUT.as_secs() });
            }
            sleep(pause);
        }
        Ok(())
    }
}

/// The daemon's counter of created names.
pub(super) const CREATED: &str = "plumbago_engine_created_metrics_total";

/// Sends lines over one connection and waits until the server has read them. Returns the number of points.
pub(super) fn send_lines(
    address: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<u64>,
) -> Result<u64, BenchError> {
    let sending = || -> io::Result<u64> {
        let mut stream = BufWriter::with_capacity(1 << 18, TcpStream::connect(address)?);
        let points = write(&mut stream)?;
        stream.flush()?;
        let stream = stream.get_mut();
        stream.shutdown(Shutdown::Write)?;
        match stream.read(&mut [0; 1024]) {
            Ok(0) => Ok(points),
            Ok(_) => Err(io::Error::other("the server refuses points")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(points),
            Err(error) => Err(error),
        }
    };
    sending().map_err(BenchError::io(format!("send points to {address}")))
}

/// Parses the JSON of an answer. An answer with an error status is an error.
fn accepted(path: &str, answer: &crate::Answer) -> Result<Value, BenchError> {
    if answer.status >= 300 {
        let body = String::from_utf8_lossy(&answer.body).trim().to_owned();
        return Err(BenchError::Refused { query: path.to_owned(), status: answer.status, body });
    }
    Ok(serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}
