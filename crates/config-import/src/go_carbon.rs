//! go-carbon's TOML file. Switches that are missing have go-carbon's defaults.

use toml::de::{DeTable, DeValue};

use crate::draft::{At, Draft, RemarkKind, Value};
use crate::parse;

type Table<'a> = DeTable<'a>;

/// A key of a table with its value.
struct Key<'a> {
    name: String,
    value: &'a DeValue<'a>,
    line: usize,
    /// The key with its tables in front.
    path: String,
}

impl Key<'_> {
    fn at(&self) -> At<'_> {
        At { line: self.line, key: &self.path }
    }

    fn text(&self) -> &str {
        self.value.as_str().unwrap_or_default()
    }

    fn flag(&self) -> Option<bool> {
        self.value.as_bool()
    }

    fn number(&self) -> Option<i64> {
        match self.value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        }
    }
}

/// A table with its keys.
struct Section<'a> {
    /// The path.
    path: String,
    line: usize,
    keys: Vec<Key<'a>>,
}

impl<'a> Section<'a> {
    fn new(path: &str, line: usize, table: &'a Table<'a>, text: &str) -> Self {
        let keys = table.iter().map(|(name, value)| Key {
            name: name.get_ref().to_string(),
            value: value.get_ref(),
            line: line_at(text, name.span().start),
            path: format!("{path}.{}", name.get_ref()),
        });
        Self { path: path.to_owned(), line, keys: keys.collect() }
    }

    fn at(&self) -> At<'_> {
        At { line: self.line, key: &self.path }
    }

    fn key(&self, name: &str) -> Option<&Key<'a>> {
        self.keys.iter().find(|key| key.name == name)
    }

    fn is_on(&self, name: &str, default: bool) -> bool {
        self.key(name).and_then(Key::flag).unwrap_or(default)
    }

    /// The text of a key that is not empty.
    fn text(&self, name: &str) -> Option<&Key<'a>> {
        self.key(name).filter(|key| !key.text().is_empty())
    }
}

/// Reads a file.
pub(crate) fn read(text: &str, draft: &mut Draft<'_>) {
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let line = error.span().map_or(0, |span| line_at(text, span.start));
            return draft.error(At { line, key: "" }, error.message());
        }
    };
    for (name, value) in document.get_ref() {
        let line = line_at(text, name.span().start);
        let path = name.get_ref().as_ref();
        match (path, value.get_ref()) {
            ("receiver", DeValue::Table(receivers)) => {
                for (name, receiver) in receivers {
                    let DeValue::Table(table) = receiver.get_ref() else { continue };
                    let line = line_at(text, name.span().start);
                    let path = format!("receiver.{}", name.get_ref());
                    further_receiver(&Section::new(&path, line, table, text), draft);
                }
            }
            ("logging", DeValue::Array(loggers)) => {
                for logger in loggers {
                    if let DeValue::Table(table) = logger.get_ref() {
                        logging(&Section::new(path, line, table, text), draft);
                    }
                }
            }
            (_, DeValue::Table(table)) => section(&Section::new(path, line, table, text), draft),
            _ => draft.no_equivalent(At { line, key: path }, "no such setting of go-carbon is known"),
        }
    }
}

fn section(section: &Section<'_>, draft: &mut Draft<'_>) {
    if !is_typed(section, draft) {
        return;
    }
    match section.path.as_str() {
        "common" => common(section, draft),
        "whisper" => whisper(section, draft),
        "cache" => cache(section, draft),
        "udp" => receiver(section, "udp", draft),
        "tcp" => receiver(section, "tcp", draft),
        "pickle" => receiver(section, "pickle", draft),
        "carbonlink" => carbonlink(section, draft),
        "carbonserver" => carbonserver(section, draft),
        "grpc" if section.is_on("enabled", true) => {
            draft.no_equivalent(
                section.at(),
                "there is no gRPC port; cache queries are answered by [carbonlink]",
            );
        }
        "tags" => draft.not_needed(section.at(), "tags are indexed here, without requests to graphite-web"),
        "dump" => draft.not_needed(section.at(), "the journal keeps accepted points over a stop and a kill"),
        "pprof" | "grpc" => draft.not_needed(section.at(), "it serves go-carbon's own debugging"),
        "prometheus" => draft.todo(
            section.at(),
            "metrics for Prometheus are on the port of admin.listen; if other machines can reach it, set \
             admin.token",
        ),
        _ => draft.no_equivalent(section.at(), "no such section of go-carbon is known"),
    }
}

/// Whether paths, addresses and switches have go-carbon's types. Without this check, `listen = 2003` would count as
/// a listener that is off.
fn is_typed(section: &Section<'_>, draft: &mut Draft<'_>) -> bool {
    const TEXTS: [&str; 6] =
        ["aggregation-file", "data-dir", "listen", "protocol", "quotas-file", "schemas-file"];
    const SWITCHES: [&str; 3] = ["compressed", "enabled", "hard-max-creates-per-second"];
    let mut all = true;
    for key in &section.keys {
        let name = key.name.as_str();
        if TEXTS.contains(&name) && key.value.as_str().is_none() {
            draft.error(key.at(), "the value is not a text in quotation marks");
        } else if SWITCHES.contains(&name) && key.flag().is_none() {
            draft.error(key.at(), "the value is neither true nor false");
        } else {
            continue;
        }
        all = false;
    }
    all
}

fn common(section: &Section<'_>, draft: &mut Draft<'_>) {
    for key in &section.keys {
        let at = key.at();
        match key.name.as_str() {
            "graph-prefix" => match key.text().strip_suffix(".agents.{host}") {
                Some(prefix) if !prefix.is_empty() && !prefix.contains(['.', '{']) => {
                    draft.text("self_metrics.prefix", prefix, at);
                }
                _ => draft.no_equivalent(
                    at,
                    "the names of the self-metrics are PREFIX.agents.HOST-a.*; only the prefix can be chosen",
                ),
            },
            "metric-endpoint" if matches!(key.text(), "" | "local") => {}
            "metric-endpoint" => draft.no_equivalent(at, "self-metrics are points of the daemon itself"),
            "metric-interval" => period("self_metrics.interval", key, draft),
            "max-cpu" => {
                draft.not_needed(at, "the number of threads follows the processors; see engine.shards");
            }
            "user" => draft.not_needed(at, "the systemd unit names the user"),
            "log-level" | "logfile" => draft.not_needed(at, "see log.level; the log goes to standard error"),
            _ => unknown(key, draft),
        }
    }
}

fn whisper(section: &Section<'_>, draft: &mut Draft<'_>) {
    if !section.is_on("enabled", true) {
        return draft.no_equivalent(section.at(), "there is no mode in which the daemon stores nothing");
    }
    for (name, ours) in [("schemas-file", "storage_schemas"), ("aggregation-file", "storage_aggregation")] {
        if let Some(key) = section.text(name) {
            rules_file(ours, key, draft);
        }
    }
    if let Some(key) = section.text("data-dir") {
        draft.todo(key.at(), format!("import the whisper files: plumbago import-whisper {}", key.text()));
    }
    if section.is_on("compressed", false)
        && let Some(key) = section.key("compressed")
    {
        draft.no_equivalent(
            key.at(),
            "import-whisper does not read compressed files; convert them first with go-whisper's convert",
        );
    }
    creates(section, draft);
    if let Some(key) = section.text("quotas-file") {
        draft.todo(
            key.at(),
            "quotas have another format here: write them into a file, and name that file in quotas.rules \
             (docs/quotas.md has a table)",
        );
    }
    const READ: [&str; 8] = [
        "enabled",
        "schemas-file",
        "aggregation-file",
        "data-dir",
        "compressed",
        "max-creates-per-second",
        "hard-max-creates-per-second",
        "quotas-file",
    ];
    for key in section.keys.iter().filter(|key| !READ.contains(&key.name.as_str())) {
        draft.not_needed(key.at(), "points are not kept in whisper files");
    }
}

fn rules_file(ours: &str, key: &Key<'_>, draft: &mut Draft<'_>) {
    let path = draft.directory().join(key.text());
    match draft.exists(&path) {
        true => draft.text(ours, path.to_string_lossy(), key.at()),
        false => draft.todo(key.at(), format!("{} does not exist, so {ours} is not set", path.display())),
    }
}

/// Reads the limit on new metrics. A soft limit of go-carbon delays the creation of files. Plumbago refuses
/// points of further metrics, as with a hard limit.
fn creates(section: &Section<'_>, draft: &mut Draft<'_>) {
    let Some(key) = section.key("max-creates-per-second") else { return };
    let is_hard = section.is_on("hard-max-creates-per-second", false);
    match (key.number(), is_hard) {
        (Some(0), false) => {}
        (Some(0), true) => draft.text("engine.max_creates_per_minute", "none", key.at()),
        (Some(limit @ 1..), true) => {
            draft.set("engine.max_creates_per_minute", Value::Number(limit.saturating_mul(60)), key.at());
        }
        (Some(1..), false) => {
            draft.not_needed(key.at(), "creating a metric makes no file, so it needs no delay");
        }
        _ => draft.error(key.at(), "the value is not a number"),
    }
}

fn cache(section: &Section<'_>, draft: &mut Draft<'_>) {
    for key in &section.keys {
        match key.name.as_str() {
            "max-size" => {
                draft.todo(key.at(), "the limit is in bytes of the process: set engine.memory_max");
            }
            _ => draft
                .not_needed(key.at(), "points are written in large blocks, so their order does not matter"),
        }
    }
}

/// Reads a receiver in `[receiver.NAME]`.
fn further_receiver(section: &Section<'_>, draft: &mut Draft<'_>) {
    if !is_typed(section, draft) {
        return;
    }
    let Some(protocol) = section.text("protocol") else {
        return draft.error(section.at(), "the receiver has no protocol");
    };
    match protocol.text() {
        "kafka" | "pubsub" => draft.no_equivalent(protocol.at(), "points are not read from a message broker"),
        known @ ("udp" | "tcp" | "pickle" | "protobuf" | "http") => receiver(section, known, draft),
        other => draft.no_equivalent(protocol.at(), format!("there is no protocol {other}")),
    }
}

fn receiver(section: &Section<'_>, protocol: &str, draft: &mut Draft<'_>) {
    let (listener, limit) = match protocol {
        "tcp" => ("line", ""),
        "http" => ("http", "body_bytes_max"),
        other => (other, "frame_bytes_max"),
    };
    let ours = format!("ingest.{listener}.listen");
    let is_on = section.is_on("enabled", true);
    match section.text("listen").filter(|_| is_on) {
        Some(key) => match address(key.text()) {
            Ok(address) => draft.add(&ours, [address], key.at()),
            Err(problem) => draft.error(key.at(), problem),
        },
        None if draft.value(&ours).is_none() => {
            draft.text(&ours, "", section.key("enabled").map_or(section.at(), Key::at));
        }
        None => {}
    }
    if !is_on {
        return;
    }
    for key in &section.keys {
        match key.name.as_str() {
            "listen" | "enabled" | "protocol" => {}
            "max-message-size" if !limit.is_empty() => match key.number() {
                Some(bytes @ 1..) => {
                    draft.text(&format!("ingest.{listener}.{limit}"), parse::bytes(bytes), key.at());
                }
                _ => draft.error(key.at(), "the value is not a number of bytes"),
            },
            "compression" if matches!(key.text(), "" | "none") => {}
            "compression" if matches!(key.text(), "gzip" | "lz4" | "snappy") => {
                draft.not_needed(key.at(), "compressed streams are recognised");
            }
            "compression" => {
                let text =
                    "this compression is not supported; let the senders use gzip, LZ4 or framed snappy";
                draft.no_equivalent(key.at(), text);
            }
            "buffer-size" | "log-incomplete" => {
                draft.not_needed(key.at(), "each queue has its own limit");
            }
            _ => unknown(key, draft),
        }
    }
}

fn address(text: &str) -> Result<String, String> {
    let (host, port) = parse::host_port(text).ok_or_else(|| format!("{text:?} is not host:port"))?;
    parse::listen(host, port)
}

fn one_address(ours: &str, key: &Key<'_>, draft: &mut Draft<'_>) {
    match address(key.text()) {
        Ok(address) => draft.text(ours, address, key.at()),
        Err(problem) => draft.error(key.at(), problem),
    }
}

fn carbonlink(section: &Section<'_>, draft: &mut Draft<'_>) {
    if !section.is_on("enabled", true) {
        return;
    }
    for key in &section.keys {
        match key.name.as_str() {
            "listen" => one_address("carbonlink.listen", key, draft),
            "read-timeout" => period("carbonlink.idle_timeout", key, draft),
            "enabled" => {}
            _ => unknown(key, draft),
        }
    }
}

fn carbonserver(section: &Section<'_>, draft: &mut Draft<'_>) {
    if !section.is_on("enabled", false) {
        return;
    }
    for key in &section.keys {
        match key.name.as_str() {
            "listen" => one_address("api.listen", key, draft),
            "read-timeout" => period("api.limits.idle", key, draft),
            "write-timeout" => period("api.limits.request_time", key, draft),
            "enabled" => {}
            "max-globs" | "max-metrics-globbed" | "max-metrics-rendered" | "fail-on-max-globs" => draft
                .remark(
                    RemarkKind::Todo,
                    key.at(),
                    "other limits bound a request: api.limits.find_results, find_visited and series",
                ),
            _ => draft
                .not_needed(key.at(), "names are answered from an index in memory; answers are not cached"),
        }
    }
}

fn logging(section: &Section<'_>, draft: &mut Draft<'_>) {
    for key in &section.keys {
        match (key.name.as_str(), key.text()) {
            ("level", level @ ("debug" | "info" | "warn" | "error")) => {
                // Several loggers may have different levels; the first one is used.
                if draft.value("log.level").is_none() {
                    draft.text("log.level", level, key.at());
                }
            }
            ("level", "dpanic" | "panic" | "fatal") => draft.text("log.level", "error", key.at()),
            _ => draft.not_needed(key.at(), "the log goes to standard error"),
        }
    }
}

fn period(ours: &str, key: &Key<'_>, draft: &mut Draft<'_>) {
    match parse::go_duration(key.text()) {
        Some(period) => draft.text(ours, period, key.at()),
        None => draft.error(key.at(), format!("{:?} is not a duration", key.text())),
    }
}

fn unknown(key: &Key<'_>, draft: &mut Draft<'_>) {
    draft.no_equivalent(key.at(), "no such setting of go-carbon is known");
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
