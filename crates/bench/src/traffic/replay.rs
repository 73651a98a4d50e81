//! Sends recorded requests to a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use plumbago_model::rules::Pattern;
use serde::Serialize;

use super::files::Requests;
use super::{Pacer, Recorded, Skipped, reason};
use crate::diff::{percentiles, split};
use crate::{BenchError, Client};

/// Largest number of times that are kept for the percentiles.
const TIMES_MAX: usize = 1_000_000;
/// Largest number of errors that are shown.
const ERRORS_SHOWN: usize = 5;

/// What to send, where and how fast.
#[derive(Debug)]
pub struct RequestsPlan {
    /// The server as `HOST:PORT`.
    host: String,
    /// A path that is put before the path of each request.
    prefix: String,
    /// Access logs and captures; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The maximum number of requests that are open at once.
    pub workers: usize,
    /// A factor for the pace of the recording; 0 means as fast as answers arrive.
    pub speed: f64,
    /// Requests whose path or body matches this pattern are left out.
    pub exclude: Option<Pattern>,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

impl RequestsPlan {
    /// A plan for the server at an address like `http://HOST:PORT`, at the pace of the recording.
    ///
    /// # Errors
    ///
    /// The reason why the address cannot be used.
    pub fn new(url: &str, files: Vec<PathBuf>) -> Result<Self, String> {
        let (host, prefix) = split(url)?;
        let (workers, timeout) = (8, Duration::from_secs(60));
        Ok(Self { host, prefix, files, workers, speed: 1.0, exclude: None, timeout })
    }

    fn excludes(&self, request: &Recorded) -> bool {
        let body = request.body.as_ref().map(|(_, body)| String::from_utf8_lossy(body));
        self.exclude.as_ref().is_some_and(|pattern| {
            [Some(request.path.as_str()), body.as_deref()]
                .into_iter()
                .flatten()
                .any(|text| pattern.is_match(text) == Some(true))
        })
    }
}

/// How the requests were answered.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// The number of answers, by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The number of requests without an answer.
    pub failed: u64,
    /// Some of the errors of these requests.
    pub errors: Vec<String>,
    /// The number of requests and lines that were left out, by reason.
    pub skipped: Skipped,
    /// Percentiles of the time until an answer was complete, each with its value in milliseconds.
    pub took_ms: Vec<(f64, f64)>,
    /// How long it took to send everything, in seconds.
    pub seconds: f64,
    /// The largest delay of a request, in seconds. It is high if the server or the workers could not keep up.
    pub behind_seconds: f64,
    #[serde(skip)]
    times: Vec<f64>,
}

impl Replayed {
    /// How many requests were sent.
    pub fn sent(&self) -> u64 {
        self.failed + self.statuses.values().sum::<u64>()
    }

    /// Whether every request was answered, none of them with a status of 500 or more.
    pub fn is_well(&self) -> bool {
        self.failed == 0 && self.statuses.keys().all(|status| *status < 500)
    }

    fn note(&mut self, answer: Result<u16, BenchError>, took: Duration) {
        match answer {
            Ok(status) => *self.statuses.entry(status).or_default() += 1,
            Err(error) => {
                self.failed += 1;
                if self.errors.len() < ERRORS_SHOWN {
                    self.errors.push(error.to_string());
                }
            }
        }
        if self.times.len() < TIMES_MAX {
            self.times.push(took.as_secs_f64() * 1000.0);
        }
    }
}

/// Sends the requests of all files in their order. `each` is called after each answer.
///
/// # Errors
/// If a file cannot be read. The requests before the failure have been sent then.
pub fn requests(plan: &RequestsPlan, each: &(dyn Fn() + Sync)) -> Result<Replayed, BenchError> {
    let workers = plan.workers.max(1);
    let (sender, receiver) = sync_channel::<Recorded>(workers);
    let (receiver, replayed) = (Mutex::new(receiver), Mutex::new(Replayed::default()));
    let (mut source, mut pacer) = (Requests::new(&plan.files), Pacer::new(plan.speed));
    let began = Instant::now();
    let result: Result<(), BenchError> = thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(plan, &receiver, &replayed, each));
        }
        // The workers end when the sender is dropped.
        feed(plan, &mut source, &mut pacer, sender)
    });
    result?;
    let mut replayed = replayed.into_inner().unwrap_or_else(PoisonError::into_inner);
    replayed.seconds = began.elapsed().as_secs_f64();
    replayed.behind_seconds = pacer.behind;
    replayed.skipped = source.skipped;
    replayed.times.sort_by(f64::total_cmp);
    replayed.took_ms = percentiles(&replayed.times);
    Ok(replayed)
}

/// Passes each request to the workers when it is due.
fn feed(
    plan: &RequestsPlan,
    source: &mut Requests,
    pacer: &mut Pacer,
    workers: SyncSender<Recorded>,
) -> Result<(), BenchError> {
    while let Some(request) = source.next()? {
        if plan.excludes(&request) {
            *source.skipped.entry(reason::EXCLUDED).or_default() += 1;
            continue;
        }
        pacer.wait(request.at);
        if workers.send(request).is_err() {
            break;
        }
    }
    Ok(())
}

/// Sends requests until there are no more.
fn work(
    plan: &RequestsPlan,
    receiver: &Mutex<Receiver<Recorded>>,
    replayed: &Mutex<Replayed>,
    each: &(dyn Fn() + Sync),
) {
    let client = Client::with_timeout(&plan.host, plan.timeout);
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return };
        let path = format!("{}{}", plan.prefix, request.path);
        let sent = Instant::now();
        let answer = match &request.body {
            None => client.get(&path),
            Some((kind, body)) => client.post_body(&path, kind_or_form(kind), body),
        };
        let (status, took) = (answer.map(|answer| answer.status), sent.elapsed());
        replayed.lock().unwrap_or_else(PoisonError::into_inner).note(status, took);
        each();
    }
}

/// The content type of a body. If the recording has none, it is that of a form, which curl sends by default.
fn kind_or_form(kind: &str) -> &str {
    if kind.is_empty() { "application/x-www-form-urlencoded" } else { kind }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers the requests of each connection with this status. Returns the request lines of
    /// `count` requests.
    fn server(status: &'static str, count: usize) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut first_lines = Vec::new();
            for _ in 0..count {
                let (mut length, mut first) = (0, String::new());
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    let line = line.trim_end().to_ascii_lowercase();
                    if first.is_empty() {
                        first.clone_from(&line);
                    }
                    if let Some(bytes) = line.strip_prefix("content-length: ") {
                        length = bytes.parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                first_lines.push(first + &String::from_utf8(body).unwrap());
                write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n[]").unwrap();
            }
            first_lines
        };
        (address, thread::spawn(serve))
    }

    fn log(dir: &tempfile::TempDir, targets: &[&str]) -> PathBuf {
        let line =
            |target: &&str| format!("- - - [10/Oct/2000:13:55:36 -0700] \"GET {target} HTTP/1.0\" 200 1\n");
        let path = dir.path().join("access.log");
        std::fs::write(&path, targets.iter().map(line).collect::<String>()).unwrap();
        path
    }

    #[test]
    fn requests_come_in_their_order_with_the_prefix() {
        let dir = tempfile::tempdir().unwrap();
        let file = log(&dir, &["/render?target=a", "/render?target=secret", "/metrics/find?query=*"]);
        let (address, thread) = server("200 OK", 2);
        let plan = RequestsPlan::new(&format!("http://{address}/graphite/"), vec![file]).unwrap();
        let plan = RequestsPlan { workers: 1, exclude: Some(Pattern::new("secr.t").unwrap()), ..plan };
        let replayed = requests(&plan, &|| ()).unwrap();
        let lines = thread.join().unwrap();
        assert_eq!(
            lines,
            ["get /graphite/render?target=a http/1.1", "get /graphite/metrics/find?query=* http/1.1"]
        );
        assert_eq!((replayed.sent(), replayed.statuses[&200], replayed.is_well()), (2, 2, true));
        assert_eq!(replayed.skipped[reason::EXCLUDED], 1);
        assert_eq!(replayed.took_ms.len(), 5);
    }

    #[test]
    fn failures_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let file = log(&dir, &["/render?target=a"]);
        let (address, thread) = server("503 Busy", 1);
        let plan = RequestsPlan::new(&address, vec![file.clone()]).unwrap();
        let replayed = requests(&plan, &|| ()).unwrap();
        thread.join().unwrap();
        assert!(!replayed.is_well() && replayed.statuses[&503] == 1);
        // The server has ended, so nothing listens on its port.
        let replayed = requests(&plan, &|| ()).unwrap();
        assert_eq!((replayed.failed, replayed.errors.len()), (1, 1));
        let plan = RequestsPlan { files: vec![file, "/nowhere".into()], ..plan };
        assert!(requests(&plan, &|| ()).is_err());
    }
}
