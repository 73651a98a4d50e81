//! The log lines of a start, for somebody who does not know this daemon: the program, its files, what they
//! contain, and how to try it out.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use plumbago_engine::Recovered;
use serde_json::{Value, json};

use crate::config::{self, Config, Loaded, StoreKind};

/// The file in the data directory that a clean stop leaves and the next start removes.
const LAST_STOP: &str = "last-stop.json";

/// The state of the data directory before it is opened.
#[derive(Debug)]
pub(super) struct Before {
    data_dir: PathBuf,
    is_used: bool,
    stopped: Option<Stopped>,
    /// When the journal was last written to, in seconds since the epoch.
    written: Option<i64>,
}

/// The end of the last run, if it was a clean stop.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stopped {
    /// Seconds since the epoch.
    at: i64,
    version: String,
}

impl Before {
    /// Logs the program and its directories, and checks the data directory. An empty one is a warning if the
    /// configuration names it, because its disk may not be mounted.
    pub(super) fn look(loaded: &Loaded) -> Self {
        let data_dir = config::shown_dir(&loaded.config.data_dir);
        let file = loaded.file.as_deref().map(config::shown_dir);
        let file = file.map_or("none, all defaults".to_owned(), |file| file.display().to_string());
        tracing::info!(
            "plumbago {} starts; configuration: {file}; data directory: {}; store: {}",
            env!("CARGO_PKG_VERSION"),
            data_dir.display(),
            store(&loaded.config)
        );
        let before = Self {
            is_used: config::is_used(&data_dir),
            stopped: Stopped::read(&data_dir),
            written: newest(&loaded.config.journal_dir()),
            data_dir,
        };
        if !before.is_used {
            before.warn_of_no_data(loaded.is_set("data_dir"));
        }
        before
    }

    fn warn_of_no_data(&self, is_named: bool) {
        let (dir, state) = (self.data_dir.display(), if self.data_dir.exists() { "empty" } else { "new" });
        if is_named {
            tracing::warn!(
                "the data directory {dir} is {state}: this start begins without points. If there should be some, \
                 stop the daemon and check data_dir, and whether the disk is mounted"
            );
        } else {
            tracing::info!("the data directory {dir} is {state}: this is the first start");
        }
    }

    /// Records that the data directory is in use: from now on the last stop no longer counts as clean.
    pub(super) fn opened(&self) {
        opened(&self.data_dir);
    }

    /// Logs what the start has found.
    pub(super) fn found(&self, found: &Recovered) {
        let Recovered { metrics, states, replayed, covered, unexplained, from_checkpoint, .. } = found;
        let points = grouped(*replayed);
        let count = grouped(*metrics);
        let text = match (self.is_used, &self.stopped, self.written) {
            (false, ..) => "no data yet".to_owned(),
            (true, Some(Stopped { at, version }), _) => {
                format!("found {count} metrics; last stopped cleanly at {} by version {version}", utc(*at))
            }
            (true, None, Some(at)) => format!(
                "found {count} metrics; the last run was not stopped cleanly: {points} points were recovered from \
                 the journal, last written at {}",
                utc(at)
            ),
            (true, None, None) => {
                format!("found {count} metrics; {points} points were recovered from the journal")
            }
        };
        tracing::info!(
            from_checkpoint,
            state_rows = states,
            replayed,
            covered,
            unexplained,
            names_ms = found.names.as_millis() as u64,
            load_ms = found.load.as_millis() as u64,
            replay_ms = found.replay.as_millis() as u64,
            "{text}"
        );
    }
}

impl Stopped {
    fn read(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join(LAST_STOP)).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        Some(Self { at: value["at"].as_i64()?, version: value["version"].as_str()?.to_owned() })
    }
}

/// From now on the last stop no longer counts as clean.
pub(super) fn opened(data_dir: &Path) {
    let _ = fs::remove_file(data_dir.join(LAST_STOP));
}

/// Records and logs that everything was closed cleanly. If the record cannot be written, the next start reports an
/// unclean stop, which does no harm.
pub(super) fn stopped(data_dir: &Path) {
    match closed(data_dir) {
        Ok(()) => tracing::info!("stopped cleanly"),
        Err(error) => {
            let path = data_dir.join(LAST_STOP);
            tracing::warn!(%error, "stopped cleanly, but {} cannot be written; the next start reports an unclean stop, which does no harm", path.display());
        }
    }
}

/// Records that everything was closed cleanly.
///
/// # Errors
/// If the record cannot be written.
pub(super) fn closed(data_dir: &Path) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let text = json!({ "at": now, "version": env!("CARGO_PKG_VERSION") }).to_string();
    let path = data_dir.join(LAST_STOP);
    let new = path.with_extension("new");
    fs::write(&new, text + "\n")?;
    fs::rename(&new, &path)
}

fn store(config: &Config) -> String {
    match config.store.kind {
        StoreKind::Embedded => format!("embedded, in {}", config::shown_dir(&config.store_dir()).display()),
        StoreKind::Cassandra => {
            let cassandra = &config.store.cassandra;
            let nodes = cassandra.contact_points.join(", ");
            format!("Cassandra or ScyllaDB at {nodes}, keyspace {}", cassandra.keyspace)
        }
    }
}

/// The time of the last change of a file in `dir` or in a directory inside it, in seconds since the epoch.
fn newest(dir: &Path) -> Option<i64> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let of = |entry: fs::DirEntry| {
        let found = entry.metadata().ok()?;
        if found.is_dir() {
            return newest(&entry.path());
        }
        let since = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        (entry.file_name() != "lock").then_some(since.as_secs() as i64)
    };
    entries.filter_map(of).max()
}

/// A time as `2026-11-23 22:00:01 UTC`.
fn utc(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns how to send a point and look at it, for the addresses and settings of this daemon. Empty if it has
/// no port for sending or no port for reading.
pub(super) fn hints(config: &Config, line: Option<SocketAddr>, api: Option<SocketAddr>) -> String {
    let (Some(line), Some(api)) = (line, api) else { return String::new() };
    let url = url(config, api);
    // A certificate seldom contains the loopback address under which somebody on the same machine connects.
    let insecure = if config.api.tls.is_on() { "--insecure " } else { "" };
    let lines = [
        String::new(),
        format!("Send a point:  {}", send(config, line)),
        format!("Look at it:    curl {insecure}'{url}/render?target=test.count&from=-10min&format=json'"),
        format!("Add it as a Graphite data source to Grafana: {url}"),
        "Stop with Ctrl-C. All settings, explained:   plumbago config default".to_owned(),
    ];
    lines.map(|line| line + "\n").concat()
}

fn send(config: &Config, line: SocketAddr) -> String {
    let (ip, port) = (reachable(line.ip()), line.port());
    let point = "\"test.count 42 $(date +%s)\"";
    let Some(tls) = config.ingest.tcp.get("line").map(|section| &section.tls).filter(|tls| tls.is_on())
    else {
        return format!("bash -c 'echo {point} > /dev/tcp/{ip}/{port}'");
    };
    let client = if tls.client_ca.is_empty() { "" } else { " -cert CLIENT.pem -key CLIENT.key" };
    let to = SocketAddr::new(ip, port);
    format!("echo {point} | openssl s_client -quiet -no_ign_eof{client} -connect {to}")
}

fn url(config: &Config, api: SocketAddr) -> String {
    let scheme = if config.api.tls.is_on() { "https" } else { "http" };
    let to = SocketAddr::new(reachable(api.ip()), api.port());
    format!("{scheme}://{to}{}", config.api.url_prefix)
}

/// An address that clients can connect to. Not every system accepts `0.0.0.0` as a destination.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hints_fit_the_settings() {
        let mut config = Config::default();
        let line = "127.0.0.1:2003".parse().ok();
        let plain = hints(&config, line, "0.0.0.0:8080".parse().ok());
        assert!(
            plain.contains("bash -c 'echo \"test.count 42 $(date +%s)\" > /dev/tcp/127.0.0.1/2003'"),
            "{plain}"
        );
        assert!(plain.contains("curl 'http://127.0.0.1:8080/render?"), "{plain}");
        config.api.url_prefix = "/graphite".to_owned();
        config.api.tls.cert = "c.pem".into();
        config.ingest.tcp.get_mut("line").unwrap().tls.cert = "c.pem".to_owned();
        let encrypted = hints(&config, "[::]:2003".parse().ok(), "[::1]:8080".parse().ok());
        assert!(encrypted.contains("openssl s_client -quiet -no_ign_eof -connect [::1]:2003"), "{encrypted}");
        assert!(encrypted.contains("curl --insecure 'https://[::1]:8080/graphite/render?"), "{encrypted}");
        assert!(encrypted.contains("Grafana: https://[::1]:8080/graphite\n"), "{encrypted}");
        assert_eq!(hints(&config, line, None), "");
    }

    #[test]
    fn a_clean_stop_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Stopped::read(directory.path()), None);
        stopped(directory.path());
        let read = Stopped::read(directory.path()).unwrap();
        assert!(read.at > 1_700_000_000 && read.version == env!("CARGO_PKG_VERSION"), "{read:?}");
        fs::write(directory.path().join(LAST_STOP), "{").unwrap();
        assert_eq!(Stopped::read(directory.path()), None);
    }

    #[test]
    fn numbers_and_times_for_people() {
        assert_eq!(["0", "999", "1,000", "10,000,000"], [0, 999, 1000, 10_000_000].map(grouped));
        assert_eq!(utc(1_700_000_000), "2023-11-14 22:13:20 UTC");
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(newest(directory.path()), None);
        fs::create_dir(directory.path().join("segment")).unwrap();
        fs::write(directory.path().join("segment/frames"), "x").unwrap();
        assert!(newest(directory.path()).unwrap() > 1_700_000_000);
    }
}
