//! Repeats recorded traffic: requests of an access log or of a network capture, and lines of carbon's protocol.
//!
//! Requests and lines are sent at the pace of the recording, or faster or slower by a factor. Requests that
//! change something are left out. Start at [`requests`] and [`lines`].

mod access_log;
mod files;
mod gzip;
mod packet;
mod pcap;
mod pcapng;
mod points;
mod replay;
mod stream;
mod text;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

pub use points::{LinesPlan, SentLines, lines};
pub use replay::{Replayed, RequestsPlan, requests};

/// A request as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recorded {
    /// When the request was sent, in seconds since the epoch.
    pub(crate) at: f64,
    /// The path with its query string, encoded as a request needs it.
    pub(crate) path: String,
    /// The body of a POST with its `Content-Type`; `None` for a GET.
    pub(crate) body: Option<(String, Vec<u8>)>,
}

/// The number of requests or lines that were left out, by reason.
pub type Skipped = BTreeMap<&'static str, u64>;

/// The reasons why a request or a line is left out.
mod reason {
    pub(super) const CHANGES: &str = "requests that change something";
    pub(super) const EXCLUDED: &str = "excluded requests";
    pub(super) const METHOD: &str = "requests that are neither GET nor POST";
    pub(super) const NO_BODY: &str = "POST requests in logs, which have no bodies";
    pub(super) const NO_LOG: &str = "lines that are not in the format of an access log";
    pub(super) const NO_POINT: &str = "lines that are not points";
    pub(super) const LONG: &str = "lines longer than 1 MiB";
    pub(super) const CHUNKED: &str = "requests with a body in chunks";
    pub(super) const LARGE: &str = "requests that are too large";
    pub(super) const MISSING: &str = "connections with packets that are missing";
    pub(super) const NETWORK: &str = "packets of networks that are not read";
    pub(super) const CUT: &str = "captures that end within a packet";
}

/// The requests that change something, by the end of their path.
const CHANGING: [&str; 4] = ["/set-metadata", "/tagSeries", "/tagMultiSeries", "/delSeries"];

/// Checks a request line and returns its path in a usable form. `has_body` says whether the body of a POST is
/// known.
fn request_path(method: &str, target: &str, has_body: bool) -> Result<String, &'static str> {
    // A request to a proxy contains the whole address.
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => target,
    };
    let path = target.split('?').next().unwrap_or_default().trim_end_matches('/');
    let is_event = path.ends_with("/events") && method == "POST";
    if is_event || CHANGING.iter().any(|end| path.ends_with(end)) {
        return Err(reason::CHANGES);
    }
    match method {
        "GET" => Ok(encoded(target)),
        "POST" if has_body => Ok(encoded(target)),
        "POST" => Err(reason::NO_BODY),
        _ => Err(reason::METHOD),
    }
}

/// Percent-encodes the characters that a request line must not contain.
fn encoded(target: &str) -> String {
    let is_plain = |byte: u8| (0x21..0x7f).contains(&byte) && !b"\"#<>\\^`".contains(&byte);
    let mut text = String::with_capacity(target.len() + 1);
    if !target.starts_with('/') {
        text.push('/');
    }
    for byte in target.bytes() {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Determines how long to wait before each recorded request or line.
#[derive(Debug)]
struct Pacer {
    speed: f64,
    begin: Option<(Instant, f64)>,
    behind: f64,
}

impl Pacer {
    /// `speed` is a factor for the pace; 0 means without waiting.
    fn new(speed: f64) -> Self {
        Self { speed, begin: None, behind: 0.0 }
    }

    /// How long to wait before an item recorded at `at` (seconds since the epoch) is sent; `None` if it is
    /// due. An item recorded before the first one is due at once.
    fn ahead(&mut self, at: f64) -> Option<Duration> {
        if self.speed <= 0.0 {
            return None;
        }
        let (began, first) = *self.begin.get_or_insert_with(|| (Instant::now(), at));
        let due = ((at - first) / self.speed).max(0.0);
        let ahead = due - began.elapsed().as_secs_f64();
        if ahead <= 0.0 && at >= first {
            self.behind = self.behind.max(-ahead);
        }
        Duration::try_from_secs_f64(ahead).ok().filter(|ahead| !ahead.is_zero())
    }

    fn wait(&mut self, at: f64) {
        if let Some(ahead) = self.ahead(at) {
            thread::sleep(ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_is_left_out() {
        for (method, target, has_body, expected) in [
            ("GET", "/render?target=a.b", false, Ok("/render?target=a.b")),
            ("GET", "http://g/x/render?target=a", false, Ok("/x/render?target=a")),
            ("GET", "http://g", false, Ok("/")),
            ("GET", "/render?target=http://a/b", false, Ok("/render?target=http://a/b")),
            ("POST", "/render", true, Ok("/render")),
            ("POST", "/render", false, Err(reason::NO_BODY)),
            ("POST", "/events/", true, Err(reason::CHANGES)),
            ("GET", "/events/get_data?tags=a", false, Ok("/events/get_data?tags=a")),
            ("POST", "/tags/delSeries", true, Err(reason::CHANGES)),
            ("GET", "/metrics/set-metadata?metric=a", false, Err(reason::CHANGES)),
            ("DELETE", "/x", false, Err(reason::METHOD)),
            ("GET", "/render?target=\u{fc} b\"#", false, Ok("/render?target=%C3%BC%20b%22%23")),
        ] {
            assert_eq!(request_path(method, target, has_body), expected.map(str::to_owned), "{target}");
        }
    }

    #[test]
    fn the_pace_is_that_of_the_recording() {
        let mut pacer = Pacer::new(2.0);
        assert_eq!(pacer.ahead(1000.0), None);
        let ahead = pacer.ahead(1010.0).unwrap();
        assert!(ahead > Duration::from_secs(4) && ahead <= Duration::from_secs(5), "{ahead:?}");
        assert_eq!(pacer.ahead(500.0), None);
        assert_eq!(Pacer::new(0.0).ahead(5.0), None);
        assert!(Pacer::new(1.0).ahead(f64::NAN).is_none());
    }
}
