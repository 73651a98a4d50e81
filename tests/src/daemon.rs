//! Runs the built daemon as a process, on free ports and in a data directory of its own. A test can query,
//! stop, kill and restart it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::answer::{self, Series};
use crate::child::Guarded;
use crate::counters::{Counters, JOURNAL_WRITTEN, Ledger};
use crate::http::{self, Response};
use crate::send::{LineSender, Point};
use crate::wait::{wait_for, wait_ok, wait_until};

/// Directory and settings of a daemon. They remain when its process ends, so that the daemon can be
/// restarted.
#[derive(Debug)]
pub struct Setup {
    directory: TempDir,
    settings: BTreeMap<String, String>,
    starts: std::cell::Cell<u32>,
}

impl Setup {
    /// An empty data directory, all listeners on free ports, and no self-metrics.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("plumbago-test-").tempdir().unwrap();
        let mut setup = Self { directory, settings: BTreeMap::new(), starts: Default::default() };
        setup.set("data_dir", setup.path().join("data").to_str().unwrap());
        for listener in ["ingest.line", "ingest.udp", "ingest.pickle", "ingest.protobuf", "api", "admin"] {
            setup.set(&format!("{listener}.listen"), "127.0.0.1:0");
        }
        setup.set("self_metrics.interval", "0s");
        setup
    }

    /// Sets a key of the configuration, like `ingest.line.listen`, through the environment.
    pub fn set(&mut self, key: &str, value: &str) -> &mut Self {
        let name = format!("PLUMBAGO__{}", key.to_ascii_uppercase().replace('.', "__"));
        self.settings.insert(name, value.to_owned());
        self
    }

    /// Sets a variable of the daemon's environment.
    pub fn environment(&mut self, name: &str, value: &str) -> &mut Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Resets a key of the configuration to its default.
    pub fn unset(&mut self, key: &str) -> &mut Self {
        self.settings.remove(&format!("PLUMBAGO__{}", key.to_ascii_uppercase().replace('.', "__")));
        self
    }

    /// Makes the daemon use a clock that stays at `now` (seconds since the epoch) until [`Daemon::set_clock`]
    /// moves it.
    pub fn clock(&mut self, now: i64) -> &mut Self {
        self.set("debug.clock", &now.to_string())
    }

    /// Writes a file next to the data directory and returns its path.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Makes the daemon use a keyspace of a Cassandra, and creates the tables in it.
    pub fn on_cassandra(&mut self, contact_point: &str, keyspace: &str) -> &mut Self {
        self.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
        self.set("store.cassandra.contact_points", contact_point);
        self.set("store.cassandra.components", "4").set("store.cassandra.indexes", "none");
        self.set("store.cassandra.request_timeout", "60s");
        self.run_well(&["syncdb"]);
        self
    }

    /// Writes storage-schemas.conf and makes the daemon use it.
    pub fn schemas(&mut self, content: &str) -> &mut Self {
        let path = self.file("storage-schemas.conf", content);
        self.set("storage_schemas", path.to_str().unwrap())
    }

    /// Writes storage-aggregation.conf and makes the daemon use it.
    pub fn aggregation(&mut self, content: &str) -> &mut Self {
        let path = self.file("storage-aggregation.conf", content);
        self.set("storage_aggregation", path.to_str().unwrap())
    }

    /// The directory with all files of this test.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.settings["PLUMBAGO__DATA_DIR"].clone().into()
    }

    /// A command of the binary with these settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PLUMBAGO") {
                command.env_remove(name);
            }
        }
        command.args(arguments).envs(&self.settings).current_dir(self.path());
        command
    }

    /// Starts the daemon and waits until it is ready, or accepts points while its store is unavailable.
    pub fn start(&self) -> Daemon {
        let mut starting = self.launch();
        let ready = wait_for("the daemon to be ready", || {
            let lines = starting.stdout();
            let ready = lines.iter().any(|l| l.trim() == "ready" || l.starts_with("accepting points"));
            drop(lines);
            (ready || !starting.process.runs()).then_some(ready)
        });
        if !ready {
            let stdout = starting.stdout().join("\n");
            panic!("the daemon did not start:\n{stdout}\n{}", starting.process.output());
        }
        starting
    }

    /// Starts the daemon without waiting.
    pub fn launch(&self) -> Daemon {
        self.starts.set(self.starts.get() + 1);
        let log = self.path().join(format!("daemon-{}.log", self.starts.get()));
        let mut command = self.command(&["serve"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(&log).unwrap());
        let mut process = Guarded::adopt(command.spawn().unwrap(), &log);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (pipe, kept) = (process.child().stdout.take().unwrap(), Arc::clone(&lines));
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Daemon { process, lines, reader: Some(reader), data: self.data() }
    }

    /// Starts the daemon like [`Setup::start`], and gives its admin port to the commands that are run later.
    pub fn start_for_commands(&mut self) -> Daemon {
        let daemon = self.set("admin.listen", "127.0.0.1:0").start();
        self.set("admin.listen", &daemon.admin().to_string());
        daemon
    }

    /// Runs a command that has to succeed. Returns its output.
    pub fn run_well(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert!(ended.status.success(), "{arguments:?} {:?}: {}", ended.status, ended.output);
        ended.output
    }

    /// Runs a command of the binary until it ends by itself.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let log = self.path().join("command.log");
        let mut process = Guarded::start(self.command(arguments), &log);
        let status = process.wait();
        Ended { status, output: process.output() }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of a process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output and standard error.
    pub output: String,
}

/// A running daemon. It is killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    process: Guarded,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    data: PathBuf,
}

impl Daemon {
    /// The lines printed on standard output so far.
    pub fn stdout(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// The bound address of a listener, as the daemon printed it: `listening line tcp 127.0.0.1:40001`.
    pub fn address(&self, listener: &str) -> SocketAddr {
        let lines = self.stdout();
        let start = format!("listening {listener} ");
        let found =
            lines.iter().find_map(|l| l.strip_prefix(&start)?.split_whitespace().next()?.parse().ok());
        found.unwrap_or_else(|| panic!("no line {start:?} among {lines:#?}"))
    }

    /// Address of the line protocol over TCP.
    pub fn line(&self) -> SocketAddr {
        self.address("line tcp")
    }

    /// Opens a connection of the line protocol.
    pub fn sender(&self) -> LineSender {
        LineSender::connect(self.line())
    }

    /// Address of Graphite's API.
    pub fn api(&self) -> SocketAddr {
        self.address("http")
    }

    /// Address of the admin port.
    pub fn admin(&self) -> SocketAddr {
        self.address("admin")
    }

    /// Sends a GET request to Graphite's API.
    pub fn get(&self, path: &str) -> Response {
        http::get(self.api(), path)
    }

    /// The series of a `/render` query, with exact numbers.
    pub fn render(&self, target: &str, from: i64, until: i64, now: i64) -> Vec<Series> {
        let path = raw_path(target, from, until, now);
        series(&path, &self.get(&path))
    }

    /// Like [`Self::render`], but retries while the daemon answers 503 because its store is unavailable.
    pub fn render_in_trouble(&self, target: &str, from: i64, until: i64, now: i64) -> Vec<Series> {
        let path = raw_path(target, from, until, now);
        let answer = wait_for(&path, || Some(self.get(&path)).filter(|response| response.status != 503));
        series(&path, &answer)
    }

    /// Waits until a series has points from `from` until `now`, and returns them. It has to wait because a
    /// name can be found only a moment after its first point was accepted.
    pub fn wait_points(&self, target: &str, from: i64, now: i64) -> Vec<(i64, f64)> {
        wait_for(target, || {
            let series = self.render(target, from, now, now);
            let points: Vec<_> = series.iter().flat_map(Series::known).collect();
            Some(points).filter(|points| !points.is_empty())
        })
    }

    /// All names in the index.
    pub fn names(&self) -> Vec<String> {
        let response = self.get("/metrics/index.json");
        assert_eq!(response.status, 200, "{}", response.body);
        serde_json::from_str(&response.body).unwrap_or_else(|e| panic!("{e}: {}", response.body))
    }

    /// Waits until the index has this many names. Metrics are created after their points were accepted.
    pub fn wait_names(&self, count: usize) {
        wait_for("the names to be indexed", || (self.names().len() >= count).then_some(()));
    }

    /// Sets the clock of [`Setup::clock`].
    pub fn set_clock(&self, now: i64) {
        let response = http::post(self.admin(), &format!("/admin/clock?now={now}"), "");
        assert!(response.status < 300, "clock: {response:?}");
    }

    /// Flushes all points to the store.
    pub fn flush(&self) {
        let response = self.post_admin("/admin/flush");
        assert!(response.status < 300, "flush: {response:?}");
    }

    /// Sends a POST request to the admin port with the secret of the data directory.
    pub fn post_admin(&self, path: &str) -> Response {
        http::request(self.admin(), "POST", path, &self.authorization(), "")
    }

    /// The secret of the data directory, which is accepted like `admin.token`.
    pub fn secret(&self) -> String {
        std::fs::read_to_string(self.data.join("admin-secret")).unwrap().trim().to_owned()
    }

    /// The header line that authorises a request to the admin port which changes or stops something.
    pub fn authorization(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.secret())
    }

    /// Scrapes the counters.
    pub fn counters(&self) -> Counters {
        let response = http::get(self.admin(), "/metrics");
        assert_eq!(response.status, 200, "{}", response.body);
        Counters::parse(&response.body)
    }

    /// The current ledger.
    pub fn ledger(&self) -> Ledger {
        let response = http::get(self.admin(), "/admin/ledger");
        Ledger::parse(&response.body).unwrap_or_else(|| panic!("no ledger: {response:?}"))
    }

    /// Waits until this many points were received and the ledger balances. Returns that ledger.
    pub fn ledger_at(&self, received: u64) -> Ledger {
        wait_ok(&format!("{received} points to be received"), || {
            let ledger = self.ledger();
            let is_there = ledger.received >= received && ledger.balances();
            if is_there { Ok(ledger) } else { Err(format!("{ledger:?}")) }
        })
    }

    /// Waits until this many points were received and the queues are empty.
    pub fn applied_at(&self, received: u64) {
        self.ledger_at(received);
        wait_until("the queued points to be applied", || {
            Ledger::queued(&http::get(self.admin(), "/admin/ledger").body) == Some(0)
        });
    }

    /// Sends points over a new connection and waits until they are received.
    pub fn put(&self, points: &[Point]) {
        let before = self.ledger().received;
        self.sender().send(points);
        self.ledger_at(before + points.len() as u64);
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A value that the kernel states about the process's memory, in bytes: `VmRSS`, or `VmHWM` (its peak).
    pub fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Whether the process is running.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
    }

    /// Waits until the journal has every point that the process received, then kills the process with SIGKILL.
    pub fn kill_journaled(self) {
        let received = self.ledger().received;
        wait_until("the journal to have all points", || self.counters().sum(JOURNAL_WRITTEN) >= received);
        self.kill();
    }

    /// Sends SIGTERM and waits until the process ends.
    pub fn stop(self) -> Ended {
        self.process.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits until the process ends.
    pub fn wait(mut self) -> Ended {
        let status = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let output = format!("{}\n{}", self.stdout().join("\n"), self.process.output());
        Ended { status, output }
    }

    /// Sends SIGTERM and waits. Panics unless the process ended successfully with all points stored.
    pub fn stop_well(self) -> Ended {
        let ended = self.stop();
        assert!(ended.status.success(), "{:?}\n{}", ended.status, ended.output);
        assert!(!ended.output.contains("before all points were stored"), "{}", ended.output);
        ended
    }
}

/// Path of the binary under test: `PLUMBAGO_BIN`, or else the one of the build that the tests belong to.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PLUMBAGO_BIN") {
        return path.into();
    }
    let executable = std::env::current_exe().unwrap();
    let profile = executable.parent().and_then(Path::parent).unwrap();
    let path = profile.join("plumbago");
    assert!(
        path.is_file(),
        "{} is missing: run ./test.sh, or `cargo build --profile ci -p plumbago` first",
        path.display()
    );
    path
}

fn raw_path(target: &str, from: i64, until: i64, now: i64) -> String {
    let (from, until, now) = (from.to_string(), until.to_string(), now.to_string());
    let query = [("target", target), ("from", &from), ("until", &until), ("now", &now), ("format", "raw")];
    http::url("/render", &query)
}

fn series(path: &str, response: &Response) -> Vec<Series> {
    assert_eq!(response.status, 200, "{path}: {}", response.body);
    answer::raw(&response.body).unwrap_or_else(|e| panic!("{path}: {e}"))
}
