//! Settings of the two ports.

use std::net::IpAddr;
use std::path::PathBuf;

use plumbago_model::{ByteSize, Period};
use plumbago_render::TimeZone;
use plumbago_tls::{Certificates, Files, TlsError};
use serde::{Deserialize, Serialize};

/// The port of Graphite's API.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port; "" switches the port off. reload: no
    pub listen: String,
    /// Path under which everything is found, like "/graphite". reload: no
    pub url_prefix: String,
    /// Origins that browsers may ask from ("*" for any); none by default. reload: no
    pub cors_allowed_origins: Vec<String>,
    /// Zone in which days begin when a request names none. reload: no
    pub time_zone: String,
    /// Compress bodies over 4 KiB for clients that ask for it. It costs more time than it saves on a
    /// fast network. reload: no
    pub gzip: bool,
    /// Answer /tags/tagSeries, tagMultiSeries and delSeries. As in Graphite whoever may read may then make
    /// tagged series and take them out of searches by tags. reload: no
    pub tag_writes: bool,
    /// What the events of /events take in memory, and half of what they take on the disk; the oldest
    /// make room. 0 takes none. reload: no
    pub events_bytes: ByteSize,
    /// Answers kept for those who ask the same again. reload: no
    pub cache: CacheConfig,
    /// Encryption. reload: no
    pub tls: TlsConfig,
    /// What one client may use. reload: no
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            url_prefix: String::new(),
            cors_allowed_origins: Vec::new(),
            time_zone: "UTC".to_owned(),
            gzip: false,
            tag_writes: true,
            events_bytes: ByteSize::mib(16),
            cache: CacheConfig::default(),
            tls: TlsConfig::default(),
            limits: Limits::default(),
        }
    }
}

/// Answers of /render that are kept.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// What they take; the oldest make room. 0 keeps none. reload: no
    pub bytes: ByteSize,
    /// How long an answer is kept whose client does not say (`cacheTimeout`): points may be so much older than
    /// those that are there. 0 keeps it for nobody. reload: no
    pub time: Period,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { bytes: ByteSize::mib(64), time: Period::default() }
    }
}

/// The port for operators: metrics, health, actions.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address and port; "" switches the port off. reload: no
    pub listen: String,
    /// Bearer token asked for by everything but /healthz and /readyz; required when the port listens
    /// beyond this machine. reload: no
    pub token: String,
    /// Encryption. reload: no
    pub tls: TlsConfig,
    /// What its clients may use. reload: no
    pub limits: PortLimits,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8081".to_owned(),
            token: String::new(),
            tls: TlsConfig::default(),
            limits: PortLimits::default(),
        }
    }
}

/// The certificate of a port; both files or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// PEM file with the certificate chain; "" for no encryption. Read again on SIGHUP. reload: no
    pub cert: PathBuf,
    /// PEM file with the private key. reload: no
    pub key: PathBuf,
}

impl TlsConfig {
    /// True when the port is encrypted.
    pub fn is_on(&self) -> bool {
        !self.cert.as_os_str().is_empty()
    }

    /// Its files.
    pub fn files(&self) -> Files {
        Files { cert: self.cert.clone(), key: self.key.clone(), ..Files::default() }
    }

    /// What its files hold now.
    pub(crate) fn load(&self) -> Result<Certificates, TlsError> {
        Certificates::load(&self.files(), |config| config.alpn_protocols = vec![b"http/1.1".to_vec()])
    }
}

/// What connections may use.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortLimits {
    /// Open connections; more are answered 503 and closed.
    pub connections: usize,
    /// How long a connection may stay without a complete request head, between requests too.
    pub idle: Period,
    /// How long open requests may go on after the stop.
    pub drain: Period,
}

impl Default for PortLimits {
    fn default() -> Self {
        Self { connections: 64, idle: Period::seconds(75), drain: Period::seconds(10) }
    }
}

/// What one client may use. A request beyond a limit is refused with a text that names it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections; more are answered 503 and closed.
    pub connections: usize,
    /// How long a connection may stay without a complete request head, between requests too.
    pub idle: Period,
    /// How long a request may take until its answer begins.
    pub request_time: Period,
    /// How long open requests may go on after the stop.
    pub drain: Period,
    /// Size of a request's body.
    pub body: ByteSize,
    /// Targets of a render request, queries of an expand request.
    pub targets: usize,
    /// Series of a render request.
    pub series: usize,
    /// Points that a render request reads, before maxDataPoints; each takes 8 bytes while it is answered.
    pub points: usize,
    /// Points that the functions of a render request make, all together.
    pub computed_points: usize,
    /// Calls of functions that a render request evaluates; those in a moving window count again.
    pub calls: usize,
    /// Paths and ranges of time that a render request reads.
    pub fetches: usize,
    /// Memory that a render request holds at a time, for what it read and what functions make of it.
    pub memory: ByteSize,
    /// Memory that all render requests hold together; 0 is a quarter of the machine's.
    pub memory_total: ByteSize,
    /// Names that a find, an expand or a search by tags gives.
    pub find_results: usize,
    /// Places in the index that a find or expand looks at; values and series that a search by tags tries.
    pub find_visited: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            idle: Period::seconds(75),
            request_time: Period::seconds(60),
            drain: Period::seconds(10),
            body: ByteSize::mib(4),
            targets: 1000,
            series: 100_000,
            points: 20_000_000,
            computed_points: 200_000_000,
            calls: 100_000,
            fetches: 10_000,
            memory: ByteSize::mib(512),
            memory_total: ByteSize(0),
            find_results: 1_000_000,
            find_visited: 20_000_000,
        }
    }
}

impl Config {
    /// Everything that is wrong with the section `[api]`.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        check_listen("api.listen", &self.listen, &mut problems);
        check_tls("api.tls", &self.tls, &mut problems);
        self.limits.check("api.limits", &mut problems);
        if !self.url_prefix.is_empty() && !is_prefix(&self.url_prefix) {
            problems.push(format!(
                "api.url_prefix: {:?} must begin with / and not end with one, without {{ }} * ? #",
                self.url_prefix
            ));
        }
        if TimeZone::named(&self.time_zone).is_none() {
            problems.push(format!("api.time_zone: no time zone is called {:?}", self.time_zone));
        }
        for origin in &self.cors_allowed_origins {
            if origin != "*" && (!origin.contains("://") || origin.ends_with('/')) {
                problems.push(format!(
                    "api.cors_allowed_origins: {origin:?} is no origin like \"https://grafana.example.org\""
                ));
            }
        }
        problems
    }
}

impl AdminConfig {
    /// Everything that is wrong with the section `[admin]`.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        check_listen("admin.listen", &self.listen, &mut problems);
        check_tls("admin.tls", &self.tls, &mut problems);
        check_amount("admin.limits.connections", self.limits.connections, &mut problems);
        check_period("admin.limits.idle", self.limits.idle, &mut problems);
        if self.token.is_empty() && !self.listen.is_empty() && !is_loopback(&self.listen) {
            problems
                .push(format!("admin.token: needed because {} is reached from other machines", self.listen));
        }
        if !self.token.is_empty() && self.token.len() < 16 {
            problems.push("admin.token: shorter than 16 characters".to_owned());
        }
        problems
    }
}

impl Limits {
    /// What concerns connections.
    pub(crate) fn of_port(&self) -> PortLimits {
        PortLimits { connections: self.connections, idle: self.idle, drain: self.drain }
    }

    fn check(&self, key: &str, problems: &mut Vec<String>) {
        let amounts = [
            ("connections", self.connections),
            ("body", self.body.bytes()),
            ("targets", self.targets),
            ("series", self.series),
            ("points", self.points),
            ("computed_points", self.computed_points),
            ("calls", self.calls),
            ("fetches", self.fetches),
            ("memory", self.memory.bytes()),
            ("find_results", self.find_results),
            ("find_visited", self.find_visited),
        ];
        for (name, amount) in amounts {
            check_amount(&format!("{key}.{name}"), amount, problems);
        }
        for (name, period) in [("idle", self.idle), ("request_time", self.request_time)] {
            check_period(&format!("{key}.{name}"), period, problems);
        }
    }
}

fn check_amount(key: &str, amount: usize, problems: &mut Vec<String>) {
    if amount == 0 {
        problems.push(format!("{key}: must not be 0"));
    }
}

fn check_period(key: &str, period: Period, problems: &mut Vec<String>) {
    if period.is_zero() {
        problems.push(format!("{key}: must not be 0"));
    }
}

fn check_listen(key: &str, listen: &str, problems: &mut Vec<String>) {
    if !listen.is_empty() && host_and_port(listen).is_none() {
        problems.push(format!("{key}: {listen:?} is no address and port like \"127.0.0.1:8080\""));
    }
}

fn check_tls(key: &str, tls: &TlsConfig, problems: &mut Vec<String>) {
    if tls.cert.as_os_str().is_empty() != tls.key.as_os_str().is_empty() {
        problems.push(format!("{key}: cert and key are needed together"));
    }
}

/// `host:port` or `[v6]:port`.
fn host_and_port(listen: &str) -> Option<(&str, u16)> {
    let (host, port) = listen.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

fn is_loopback(listen: &str) -> bool {
    match host_and_port(listen) {
        Some((host, _)) => host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        None => true, // already a problem of its own
    }
}

fn is_prefix(prefix: &str) -> bool {
    prefix.starts_with('/') && !prefix.ends_with('/') && !prefix.contains(['{', '}', '*', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_have_no_problems_and_read_back() {
        assert!(Config::default().problems().is_empty());
        assert!(AdminConfig::default().problems().is_empty());
        let text = serde_json::to_string(&Config::default()).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), Config::default());
        assert!(serde_json::from_str::<Config>(r#"{"listne": ""}"#).is_err());
        assert!(serde_json::from_str::<Config>(r#"{"limits": {"idle": "30"}}"#).is_err());
    }

    #[test]
    fn every_problem_is_named() {
        let config = Config {
            listen: "8080".to_owned(),
            url_prefix: "graphite/".to_owned(),
            cors_allowed_origins: vec!["example.org".to_owned(), "*".to_owned()],
            time_zone: "Rome".to_owned(),
            tls: TlsConfig { cert: "a.pem".into(), key: PathBuf::new() },
            limits: Limits { points: 0, idle: Period::default(), ..Limits::default() },
            ..Config::default()
        };
        let problems = config.problems();
        for key in [
            "api.listen",
            "api.url_prefix",
            "api.cors_allowed_origins",
            "api.time_zone",
            "api.tls",
            "api.limits.points",
            "api.limits.idle",
        ] {
            assert!(problems.iter().any(|p| p.starts_with(key)), "{key} is not in {problems:?}");
        }
        assert_eq!(problems.len(), 7);
    }

    #[test]
    fn the_admin_port_needs_a_token_off_loopback() {
        let with = |listen: &str, token: &str| AdminConfig {
            listen: listen.to_owned(),
            token: token.to_owned(),
            ..AdminConfig::default()
        };
        for listen in ["127.0.0.1:1", "127.3.0.1:1", "[::1]:1", "localhost:1", ""] {
            assert!(with(listen, "").problems().is_empty(), "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.7:1", "host.example.org:1"] {
            assert_eq!(with(listen, "").problems().len(), 1, "{listen}");
            assert!(with(listen, "0123456789abcdef").problems().is_empty(), "{listen}");
        }
        assert_eq!(with("0.0.0.0:1", "short").problems().len(), 1);
    }
}
