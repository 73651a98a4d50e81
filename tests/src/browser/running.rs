//! Running browsers. A start takes two seconds of processor time, so a browser that a test has left is emptied and given
//! to the next test. No two tests have the same browser at the same time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plumbago_cassandra_node::cache::RunDirectory;
use plumbago_cassandra_node::process::{self, Tied};
use serde_json::{Value, json};

use crate::wait::{HANG, wait_for};
use crate::{counterpart, http};

/// A chromedriver with a session, which has one Chromium with one window.
#[derive(Debug)]
pub(super) struct Running {
    control: SocketAddr,
    session: String,
    /// Declared first, so that the process is killed before the directory of its files is removed.
    _process: Tied,
    _directory: RunDirectory,
}

/// The browsers that no test uses. Statics are never dropped: the kernel kills chromedriver when this process ends, and
/// Chromium ends with the pipe between the two. The next process removes their files.
static IDLE: Mutex<Vec<Running>> = Mutex::new(Vec::new());

impl Running {
    /// A browser that no test uses, or a new one; `None`, and a recorded skip, if Chromium or chromedriver is not
    /// installed.
    pub(super) fn get() -> Option<Self> {
        // A statement of its own, so that the lock is free during a start.
        let left = idle().pop();
        left.or_else(Self::start)
    }

    /// Empties the browser for another test. `opened` are the origins that this test has opened.
    pub(super) fn give_back(self, opened: &BTreeSet<String>) {
        match self.empty(opened) {
            Ok(()) => idle().push(self),
            Err(error) => eprintln!("a browser is not used again: {error}"),
        }
    }

    /// Replaces the window, and with it all that was set for it, and removes what was stored.
    fn empty(&self, opened: &BTreeSet<String>) -> Result<(), String> {
        let window = self.post("window/new", &json!({"type": "tab"}))?;
        self.ask("DELETE", "window", &json!({}))?;
        self.post("window", &json!({"handle": window["handle"]}))?;
        // Only the window in front has the focus.
        self.devtools("Page.bringToFront", &json!({}))?;
        self.devtools("Network.clearBrowserCache", &json!({}))?;
        self.devtools("Network.clearBrowserCookies", &json!({}))?;
        for origin in opened {
            self.devtools("Storage.clearDataForOrigin", &json!({"origin": origin, "storageTypes": "all"}))?;
        }
        self.post("se/log", &json!({"type": "browser"})).map(|_| ())
    }

    fn start() -> Option<Self> {
        counterpart::on_path("chromium")?;
        let program = counterpart::on_path("chromedriver")?;
        // In the usual directory, because the path of a socket has at most 107 bytes.
        let home = std::env::temp_dir().join(format!("plumbago-browser-{}", nix::unistd::getuid()));
        let directory = RunDirectory::make_in(&home).unwrap();
        let log = directory.path().join("chromedriver.log");
        let launch = || launch(&program, directory.path(), &log);
        let mut process = launch();
        // chromedriver takes a port that is free for IPv6, and ends if that port is in use for IPv4.
        let control: SocketAddr = wait_for("chromedriver to start", || {
            let output = std::fs::read_to_string(&log).unwrap();
            if let Some(rest) = output.split("started successfully on port ").nth(1) {
                let port = rest.split('.').next()?;
                return Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)));
            }
            if !process.runs() {
                process = launch();
            }
            None
        });
        let started = ask(control, "POST", "/session", &capabilities()).unwrap();
        let session = started["sessionId"].as_str().unwrap().to_owned();
        Some(Self { control, session, _process: process, _directory: directory })
    }

    /// Runs a command of the DevTools protocol.
    pub(super) fn devtools(&self, name: &str, parameters: &Value) -> Result<Value, String> {
        self.post("goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    /// Sends a command with a body and returns the value of its answer, or the error as text.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", path, body)
    }

    /// Sends a command and returns the value of its answer, or the error as text.
    pub(super) fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        ask(self.control, method, &format!("/session/{}/{path}", self.session), body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Chromium ends with its session, and has then written its files.
        let path = format!("/session/{}", self.session);
        let _ = http::try_request(self.control, "DELETE", &path, "", "");
    }
}

fn idle() -> MutexGuard<'static, Vec<Running>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn launch(program: &Command, directory: &Path, log: &Path) -> Tied {
    let mut command = process::tied(Path::new(program.get_program()));
    // Chromium keeps its profile and sockets here.
    command.arg("--port=0").env("TMPDIR", directory).env("HOME", directory);
    process::log_to(&mut command, log).unwrap();
    Tied::spawn(command).unwrap()
}

fn capabilities() -> Value {
    let arguments = json!([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--remote-debugging-pipe",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1440,900",
        "--lang=en-GB",
    ]);
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "timeouts": {"script": HANG.as_millis() as u64},
        "goog:chromeOptions": {"args": arguments},
        "goog:loggingPrefs": {"browser": "ALL"},
    }}})
}

fn ask(control: SocketAddr, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let body = if method == "POST" { body.to_string() } else { String::new() };
    let answer = http::request(control, method, path, "Content-Type: application/json\r\n", &body);
    let mut value: Value = serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
    match answer.status {
        200 => Ok(value["value"].take()),
        _ => Err(value["value"]["message"].as_str().unwrap_or(&answer.body).to_owned()),
    }
}
