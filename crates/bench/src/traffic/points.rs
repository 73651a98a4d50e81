//! Sends recorded lines of carbon's protocol.

use std::io::{self, BufWriter, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::files::{action, open};
use super::text::next_line;
use super::{Pacer, Skipped, reason};
use crate::BenchError;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a write may wait for a server that reads too slowly.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);

/// What to send, where and how fast.
#[derive(Debug)]
pub struct LinesPlan {
    /// `HOST:PORT` of a listener for lines.
    pub carbon: String,
    /// Files of lines; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// A factor for the pace, which follows from the timestamps; 0 means as fast as the server accepts lines.
    pub speed: f64,
    /// Whether to shift all timestamps so that the first one is now.
    pub shift: bool,
}

/// What was sent, and how fast.
#[derive(Debug, Default, Serialize)]
pub struct SentLines {
    /// The number of lines that were sent.
    pub lines: u64,
    /// The number of lines that were left out, by reason.
    pub skipped: Skipped,
    /// How long the sending took, in seconds.
    pub seconds: f64,
    /// The largest delay of a line, in seconds. It is high if the server could not keep up.
    pub behind_seconds: f64,
}

/// Sends the lines of all files over one connection. `each` is called after each line.
///
/// # Errors
/// If a file cannot be read or the server does not take the lines. The error's `action` says how many lines
/// were sent before.
pub fn lines(plan: &LinesPlan, each: &dyn Fn()) -> Result<SentLines, BenchError> {
    let mut sent = SentLines::default();
    let mut pacer = Pacer::new(plan.speed);
    let began = Instant::now();
    let failed = |lines: u64, source: io::Error| BenchError::Io {
        action: format!("send to {} after {lines} lines", plan.carbon),
        source,
    };
    let stream = connect(&plan.carbon).map_err(|error| failed(0, error))?;
    let mut stream = BufWriter::with_capacity(64 << 10, stream);
    let mut shift = None;
    for file in &plan.files {
        let unread = |source: io::Error| BenchError::Io { action: action(file), source };
        let mut reader = open(file).map_err(unread)?;
        while let Some(line) = next_line(&mut *reader, &mut sent.skipped).map_err(unread)? {
            let Some((rest, timestamp)) = point(&line) else {
                let is_empty = line.trim().is_empty() || line.starts_with('#');
                *sent.skipped.entry(reason::NO_POINT).or_default() += u64::from(!is_empty);
                continue;
            };
            // A timestamp of -1 means now.
            if timestamp >= 0
                && let Some(ahead) = pacer.ahead(timestamp as f64)
            {
                stream.flush().map_err(|error| failed(sent.lines, error))?;
                std::thread::sleep(ahead);
            }
            let shift = if plan.shift { *shift.get_or_insert_with(|| now() - timestamp.max(0)) } else { 0 };
            let timestamp = if timestamp < 0 { timestamp } else { timestamp + shift };
            writeln!(stream, "{rest} {timestamp}").map_err(|error| failed(sent.lines, error))?;
            sent.lines += 1;
            each();
        }
    }
    let ended = stream.flush().and_then(|()| stream.get_ref().shutdown(Shutdown::Write));
    ended.map_err(|error| failed(sent.lines, error))?;
    sent.skipped.retain(|_, count| *count > 0);
    sent.seconds = began.elapsed().as_secs_f64();
    sent.behind_seconds = pacer.behind;
    Ok(sent)
}

/// Name and value of a line, and its timestamp in whole seconds.
fn point(line: &str) -> Option<(&str, i64)> {
    let (rest, timestamp) = line.trim().rsplit_once([' ', '\t'])?;
    let rest = rest.trim_end();
    let (name, value) = rest.rsplit_once([' ', '\t'])?;
    value.parse::<f64>().ok()?;
    let seconds = timestamp.parse::<f64>().ok().filter(|seconds| (-1.0..1e11).contains(seconds))?;
    (!name.trim().is_empty()).then_some((rest, seconds.floor() as i64))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed())
}

fn connect(carbon: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host has no address");
    for address in carbon.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_are_points_or_left_out() {
        assert_eq!(point("a.b 1.5 1700000000"), Some(("a.b 1.5", 1_700_000_000)));
        assert_eq!(point(" a;b=c\t-1e3\t1700000000.9\r"), Some(("a;b=c\t-1e3", 1_700_000_000)));
        assert_eq!(point("a 1 -1"), Some(("a 1", -1)));
        for line in ["", "a", "a 1", " 1 1700000000", "a x 1700000000", "a 1 nan", "a 1 x", "a 1 -5"] {
            assert_eq!(point(line), None, "{line}");
        }
    }

    #[test]
    fn timestamps_move_together() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lines");
        std::fs::write(&file, "# recorded\na 1 1000\nodd\nb 2 1060\nc 3 -1\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let carbon = listener.local_addr().unwrap().to_string();
        let taking = std::thread::spawn(move || {
            let mut text = String::new();
            listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
            text
        });
        let before = now();
        let plan = LinesPlan { carbon, files: vec![file], speed: 0.0, shift: true };
        let sent = lines(&plan, &|| ()).unwrap();
        assert_eq!((sent.lines, sent.skipped[reason::NO_POINT]), (3, 1));
        let text = taking.join().unwrap();
        let times: Vec<i64> =
            text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
        assert!(times[0] >= before && times[0] <= now(), "{text}");
        assert_eq!((times[1] - times[0], times[2]), (60, -1));
    }
}
