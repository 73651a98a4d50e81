//! Settings of the two HTTP ports. A change needs a restart, except where noted.

use std::net::IpAddr;
use std::path::PathBuf;

use plumbago_model::{ByteSize, Period};
use plumbago_render::TimeZone;
use plumbago_tls::{Certificates, Files, TlsError};
use serde::{Deserialize, Serialize};

use crate::users::{self, UsersConfig};

/// The `[api]` section: the port of Graphite's API.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port; "" switches the port off.
    pub listen: String,
    /// Path that all URLs begin with, like "/graphite"; "" for none.
    pub url_prefix: String,
    /// Origins from which browsers may send requests; "*" allows any origin. An empty list allows none.
    pub cors_allowed_origins: Vec<String>,
    /// Time zone of requests without the parameter `tz`, like "Europe/Rome".
    pub time_zone: String,
    /// Whether to compress bodies of 4 KiB or more for clients that accept gzip. On a fast network
    /// compression takes more time than it saves.
    pub gzip: bool,
    /// Whether to answer /tags/tagSeries, tagMultiSeries and delSeries. As in Graphite, every client that may
    /// read may then create tagged series and remove them from tag searches.
    pub tag_writes: bool,
    /// Whether to answer /metrics/set-metadata. Every client that may read can then change the aggregation
    /// method of metrics. So can any link that such a client opens.
    pub metadata_writes: bool,
    /// Whether to take points over HTTP: KairosDB's /api/v1/datapoints and OpenTSDB's /api/put. Every client that may
    /// read may then write.
    pub point_writes: bool,
    /// Whether to answer KairosDB's /api/v1/datapoints/delete and DELETE /api/v1/metric/{name}. Every client that may
    /// read may then delete.
    pub deletes: bool,
    /// Who may use the port.
    pub users: UsersConfig,
    /// Memory for the events of /events, in bytes. On disk they take up to twice as much. When it is full,
    /// the oldest events are dropped. 0 switches events off.
    pub events_bytes: ByteSize,
    /// The cache of /render responses.
    pub cache: CacheConfig,
    /// The web page at `/`.
    pub page: PageConfig,
    /// Certificate and key; the port is not encrypted while both are empty.
    pub tls: TlsConfig,
    /// Limits of connections and requests.
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
            metadata_writes: false,
            point_writes: false,
            deletes: false,
            users: UsersConfig::default(),
            events_bytes: ByteSize::mib(16),
            cache: CacheConfig::default(),
            page: PageConfig::default(),
            tls: TlsConfig::default(),
            limits: Limits::default(),
        }
    }
}

/// The `[api.cache]` section: responses of /render are kept and sent again for the same parameters.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Memory for kept responses, in bytes. 0 switches the cache off.
    pub bytes: ByteSize,
    /// How long a response is kept if its request has no `cacheTimeout`. 0 keeps no such response. Points
    /// that arrive during this time are missing from the kept response.
    pub time: Period,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { bytes: ByteSize::mib(64), time: Period::default() }
    }
}

/// The `[api.page]` section: the web page for people.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageConfig {
    /// Whether browsers get the page at `/`. The calls /plumbago/browse and /plumbago/search are answered in
    /// any case.
    pub enabled: bool,
    /// Who may see the daemon's status and costs, and test its rules.
    pub status: StatusAccess,
    /// Values of the header `Host` under which clients on this machine may see the status, besides addresses and
    /// localhost.
    pub hosts: Vec<String>,
    /// Directory with boards (saved views of the page), one in each file; "" for none.
    pub boards: PathBuf,
}

/// Who may see the daemon's status on the API's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusAccess {
    /// Requests from this machine, and those with the admin token.
    #[default]
    Auto,
    /// Requests with the admin token only.
    Token,
    /// Nobody.
    Off,
}

impl Default for PageConfig {
    fn default() -> Self {
        Self { enabled: true, status: StatusAccess::default(), hosts: Vec::new(), boards: PathBuf::new() }
    }
}

/// The `[admin]` section: the port for operators.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address and port; "" switches the port off.
    pub listen: String,
    /// Bearer token that all requests except /healthz and /readyz must send. Required if other machines can
    /// reach the port. At least 16 characters.
    pub token: String,
    /// Certificate and key; the port is not encrypted while both are empty.
    pub tls: TlsConfig,
    /// Limits of connections.
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

/// Certificate and key of a port. Both must be set, or neither. SIGHUP reads the files again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Path of the PEM file with the certificate chain; "" for no encryption.
    pub cert: PathBuf,
    /// Path of the PEM file with the private key.
    pub key: PathBuf,
}

impl TlsConfig {
    /// Whether the port is encrypted.
    pub fn is_on(&self) -> bool {
        !self.cert.as_os_str().is_empty()
    }

    /// Returns the two paths, for `Certificates::load` and `Certificates::reload`.
    pub fn files(&self) -> Files {
        Files { cert: self.cert.clone(), key: self.key.clone(), ..Files::default() }
    }

    /// Reads both files and offers HTTP/1.1 only.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the two are not a valid certificate and its key.
    pub(crate) fn load(&self) -> Result<Certificates, TlsError> {
        Certificates::load(&self.files(), |config| config.alpn_protocols = vec![b"http/1.1".to_vec()])
    }
}

/// The connection limits of a port.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortLimits {
    /// Maximum number of open connections. A further connection replaces the one that has been idle longest, if that
    /// has been idle for at least a second. Otherwise the further connection is closed; if it is unencrypted, it gets
    /// a 503 first.
    pub connections: usize,
    /// How long the server waits for a complete request head, on a new connection or after a response. Then
    /// it closes the connection.
    pub idle: Period,
    /// How long requests in progress may continue after a stop was requested. Then their connections are
    /// closed.
    pub drain: Period,
}

impl Default for PortLimits {
    fn default() -> Self {
        Self { connections: 64, idle: Period::seconds(75), drain: Period::seconds(10) }
    }
}

/// The `[api.limits]` section. A request beyond a limit is refused with a message that names the setting.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum number of open connections. A further connection replaces the one that has been idle longest, if that
    /// has been idle for at least a second. Otherwise the further connection is closed; if it is unencrypted, it gets
    /// a 503 first.
    pub connections: usize,
    /// How long the server waits for a complete request head, on a new connection or after a response. Then
    /// it closes the connection.
    pub idle: Period,
    /// How long a request may take until its response begins.
    pub request_time: Period,
    /// How long requests in progress may continue after a stop was requested. Then their connections are
    /// closed.
    pub drain: Period,
    /// Largest request body, in bytes.
    pub body: ByteSize,
    /// Maximum number of targets of a render or info request, or queries of a find or expand request.
    pub targets: usize,
    /// Maximum number of series that a render request reads.
    pub series: usize,
    /// Maximum number of points that a render request reads, before consolidation to maxDataPoints. Each takes 8 bytes
    /// until the request is answered.
    pub points: usize,
    /// Maximum number of points that all functions of a render request compute together.
    pub computed_points: usize,
    /// Maximum number of function calls that a render request evaluates. Calls inside a moving window count once per
    /// evaluation.
    pub calls: usize,
    /// Maximum number of fetches of a render request. A fetch is a pair of a path and a time range.
    pub fetches: usize,
    /// Maximum memory that a render request holds at any time, in bytes: the series that it read and the results of
    /// functions.
    pub memory: ByteSize,
    /// Maximum memory that all render requests hold together, in bytes. In the configuration file 0 means an eighth
    /// of `engine.memory_max`; the binary puts that value here. A 0 that remains sets no limit.
    pub memory_total: ByteSize,
    /// Maximum number of names that a find, an expand or a tag search returns.
    pub find_results: usize,
    /// Maximum number of index nodes that a find or expand visits, or values and series that a tag search tests.
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
    /// Checks the section `[api]` and reads the files that it names. Returns one text of the form `key: message` per
    /// problem.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        check_listen("api.listen", &self.listen, &mut problems);
        check_tls("api.tls", &self.tls, &mut problems);
        if let Some(problem) = users::problem(&self.users.file) {
            problems.push(format!("api.users.file: {problem}"));
        }
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
                    "api.cors_allowed_origins: {origin:?} is not an origin like \
                     \"https://grafana.example.org\""
                ));
            }
        }
        problems
    }
}

impl AdminConfig {
    /// Checks the section `[admin]` and reads the files that it names. Returns one text of the form `key: message`
    /// per problem.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        check_listen("admin.listen", &self.listen, &mut problems);
        check_tls("admin.tls", &self.tls, &mut problems);
        check_amount("admin.limits.connections", self.limits.connections, &mut problems);
        check_period("admin.limits.idle", self.limits.idle, &mut problems);
        if self.token.is_empty() && !self.listen.is_empty() && !is_loopback(&self.listen) {
            problems
                .push(format!(
                    "admin.token: needed because other machines can reach {}: set 16 or more characters that nobody can \
                     guess, or set admin.listen to an address that only this machine reaches, like 127.0.0.1:8081",
                    self.listen
                ));
        }
        if !self.token.is_empty() && self.token.len() < 16 {
            let message = "admin.token: has fewer than 16 characters and could be guessed; `openssl rand -hex 16` makes one";
            problems.push(message.to_owned());
        }
        problems
    }
}

impl Limits {
    /// Returns the limits of connections alone.
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
        problems.push(format!("{key}: {listen:?} is not an address and port like \"127.0.0.1:8080\""));
    }
}

fn check_tls(key: &str, tls: &TlsConfig, problems: &mut Vec<String>) {
    problems.extend(tls.files().problems().iter().map(|error| format!("{key}.{}: {error}", error.setting())));
}

/// Splits `host:port` or `[v6]:port`.
fn host_and_port(listen: &str) -> Option<(&str, u16)> {
    let (host, port) = listen.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

fn is_loopback(listen: &str) -> bool {
    match host_and_port(listen) {
        Some((host, _)) => host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        None => true, // `check_listen` reports it
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
            "api.tls.cert: a.pem: cannot be read",
            "api.tls.cert: cert and key must be set together",
            "api.limits.points",
            "api.limits.idle",
        ] {
            assert!(problems.iter().any(|p| p.starts_with(key)), "{key} is not in {problems:?}");
        }
        assert_eq!(problems.len(), 8);
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
