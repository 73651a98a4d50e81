//! BigGraphite's keys, `BG_…`, which are set in `carbon.conf` or in the settings of graphite-web.

use std::net::IpAddr;

use crate::draft::{At, Draft, Value};
use crate::parse;

/// A key and its value.
pub(crate) struct Entry {
    /// The name without `BG_`, in capitals.
    pub(crate) name: String,
    pub(crate) value: String,
    /// The key as it is written, with its section.
    pub(crate) key: String,
    pub(crate) line: usize,
}

impl Entry {
    fn at(&self) -> At<'_> {
        At { line: self.line, key: &self.key }
    }
}

/// The port of the server if none is set.
const PORT: u16 = 9042;

/// Maps all keys of a file.
pub(crate) fn read(entries: &[Entry], draft: &mut Draft<'_>) {
    let Some(first) = entries.first() else { return };
    draft.text("store.kind", "cassandra", first.at());
    contact_points(entries, "", "store.cassandra.contact_points", draft);
    contact_points(entries, "_METADATA", "store.cassandra.metadata.contact_points", draft);
    let has_metadata = !draft.list("store.cassandra.metadata.contact_points").is_empty();
    for entry in entries {
        one(entry, has_metadata, draft);
    }
}

/// The contact points of the cluster for points or for names, with the port, which is a separate key.
fn contact_points(entries: &[Entry], suffix: &str, key: &str, draft: &mut Draft<'_>) {
    let find = |name: &str| entries.iter().find(|entry| entry.name == format!("CASSANDRA_{name}{suffix}"));
    let Some(points) = find("CONTACT_POINTS") else { return };
    // The port of the names' cluster is that of the points' cluster unless it is set.
    let of_points = entries.iter().find(|entry| entry.name == "CASSANDRA_PORT");
    let port = find("PORT").or(of_points);
    let port = match port.map(|entry| (entry, entry.value.trim().parse::<u16>())) {
        None => PORT,
        Some((_, Ok(port))) => port,
        Some((entry, Err(_))) => {
            draft.error(entry.at(), format!("{:?} is not a port", entry.value));
            PORT
        }
    };
    let (hosts, others): (Vec<_>, Vec<_>) = parse::items(&points.value).partition(|host| is_host(host));
    for other in others {
        let text = format!("{other:?} is not a host name; the port belongs into BG_CASSANDRA_PORT{suffix}");
        draft.error(points.at(), text);
    }
    draft.add(key, hosts.iter().map(|host| parse::joined(host, port)), points.at());
}

fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
        || text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn one(entry: &Entry, has_metadata: bool, draft: &mut Draft<'_>) {
    let at = entry.at();
    let value = entry.value.trim();
    match entry.name.as_str() {
        "CASSANDRA_CONTACT_POINTS" | "CASSANDRA_CONTACT_POINTS_METADATA" => {}
        "CASSANDRA_PORT" | "CASSANDRA_PORT_METADATA" => {}
        "CASSANDRA_KEYSPACE" => draft.text("store.cassandra.keyspace", value, at),
        "CASSANDRA_USERNAME" => credential("username", value, has_metadata, at, draft),
        "CASSANDRA_PASSWORD" => credential("password", value, has_metadata, at, draft),
        "CASSANDRA_TIMEOUT" => draft.seconds("store.cassandra.request_timeout", value, at),
        "CASSANDRA_REPLICA" => match value.parse() {
            Ok(replica @ 0..=3) => draft.set("store.cassandra.replica", Value::Number(replica), at),
            _ => draft.error(at, format!("{value:?} is not a replica; replicas are 0 to 3")),
        },
        "CASSANDRA_READ_ON_SAMPLING_RATE" => sampling(value, at, draft),
        "CASSANDRA_UPDATED_ON_TTL_SEC" => draft.seconds("store.cassandra.touch_after", value, at),
        "CASSANDRA_MAX_METRICS_PER_PATTERN" => match value.parse() {
            Ok(most @ 1..) => draft.set("api.limits.find_results", Value::Number(most), at),
            _ => draft.error(at, format!("{value:?} is not a number of metrics")),
        },
        "LOGLEVEL" => log_level(value, at, draft),
        name => match name.strip_prefix("CASSANDRA_") {
            Some(name) if name.ends_with("_CONSISTENCY") => consistency(name, value, at, draft),
            Some(name) if name.starts_with("SSL_") => ssl(name, value, at, draft),
            _ => other(name, value, at, draft),
        },
    }
}

fn credential(what: &str, value: &str, has_metadata: bool, at: At<'_>, draft: &mut Draft<'_>) {
    draft.text(&format!("store.cassandra.{what}"), value, at);
    if has_metadata {
        draft.text(&format!("store.cassandra.metadata.{what}"), value, at);
    }
}

/// Converts a sampling rate: BigGraphite sets the share of reads that are recorded (such as 0.1), Plumbago sets
/// one of N reads (such as N = 10).
fn sampling(value: &str, at: At<'_>, draft: &mut Draft<'_>) {
    match value.parse::<f64>() {
        Ok(0.0) => draft.set("store.cassandra.read_on_sampling", Value::Number(0), at),
        Ok(rate) if rate > 0.0 && rate <= 1.0 => {
            draft.set("store.cassandra.read_on_sampling", Value::Number((1.0 / rate).round() as i64), at);
        }
        _ => draft.error(at, format!("{value:?} is not a share from 0 to 1")),
    }
}

fn log_level(value: &str, at: At<'_>, draft: &mut Draft<'_>) {
    let level = match value.to_uppercase().as_str() {
        "DEBUG" => "debug",
        "INFO" => "info",
        "WARNING" | "WARN" => "warn",
        "ERROR" | "CRITICAL" | "FATAL" => "error",
        _ => return draft.error(at, format!("{value:?} is not a log level")),
    };
    draft.text("log.level", level, at);
}

fn consistency(name: &str, value: &str, at: At<'_>, draft: &mut Draft<'_>) {
    const LEVELS: [&str; 9] =
        ["ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE"];
    let key = match name.strip_suffix("_CONSISTENCY") {
        Some("DATA_WRITE") => "write",
        Some("DATA_READ") => "read",
        Some("META_WRITE") => "metadata_write",
        Some("META_READ") => "metadata_read",
        Some("META_SERIAL" | "META_BACKGROUND") => {
            return draft.not_needed(at, "jobs choose the level that they need");
        }
        _ => return other(name, value, at, draft),
    };
    let level = value.to_uppercase();
    match LEVELS.contains(&level.as_str()) {
        true => draft.text(&format!("store.cassandra.consistency.{key}"), level, at),
        false => draft.error(at, format!("{value:?} is not a consistency level")),
    }
}

fn ssl(name: &str, value: &str, at: At<'_>, draft: &mut Draft<'_>) {
    let (name, section) = match name.strip_suffix("_METADATA") {
        Some(name) => (name, "store.cassandra.metadata.tls"),
        None => (name, "store.cassandra.tls"),
    };
    match name {
        // As in BigGraphite, any text counts as true, even "False".
        "SSL_ENABLE" => draft.set(&format!("{section}.enabled"), Value::Flag(!value.is_empty()), at),
        "SSL_VERIFY_LOCATIONS" => draft.text(&format!("{section}.ca"), value, at),
        "SSL_CERT_FILE" => draft.text(&format!("{section}.cert"), value, at),
        "SSL_KEY_FILE" => draft.text(&format!("{section}.key"), value, at),
        "SSL_VERIFY_MODE" if value == "required" => draft.not_needed(at, "certificates are always verified"),
        "SSL_VERIFY_MODE" => {
            draft.no_equivalent(
                at,
                "certificates are always verified; name the file of the authorities in the key ca",
            );
        }
        "SSL_CHECK_HOSTNAME" => {
            draft.no_equivalent(at, "a node's certificate has to name the address by which it is reached");
        }
        _ => other(name, value, at, draft),
    }
}

/// Handles keys for which Plumbago has no setting.
fn other(name: &str, value: &str, at: At<'_>, draft: &mut Draft<'_>) {
    match name {
        "DRIVER" | "METADATA_DRIVER" | "DATA_DRIVER" => match value.to_lowercase().as_str() {
            "cassandra" => {}
            "elasticsearch" => draft.no_equivalent(
                at,
                "names are kept in Cassandra; `plumbago import-names` creates the names that only \
                 Elasticsearch has",
            ),
            other => draft.no_equivalent(at, format!("there is no driver {other}")),
        },
        "CASSANDRA_WRITER" => {
            draft.not_needed(at, "each daemon chooses its own writer id and keeps it in data_dir");
        }
        "ADMIN_PORT" => draft.todo(
            at,
            "metrics for Prometheus are on the port of admin.listen; if other machines can reach it, set \
             admin.token",
        ),
        "CASSANDRA_USE_LUCENE" => {
            draft.not_needed(at, "globs are answered from memory; Lucene indexes stay as they are");
        }
        "CASSANDRA_BULKIMPORT" => draft.no_equivalent(at, "use `plumbago import-whisper`"),
        "CASSANDRA_COMPRESSION" => draft.no_equivalent(at, "requests to the server are not compressed"),
        "TRACING_METHODS" | "TRACING_TARGET_WHITELIST" | "CASSANDRA_TRACE" => {
            draft.no_equivalent(at, "requests are not traced; their times are in the metrics");
        }
        _ if name.starts_with("ELASTICSEARCH_") => {
            draft.no_equivalent(at, "names are kept in Cassandra");
        }
        "STORAGE_DIR" | "CACHE" | "CACHE_SIZE" | "CACHE_TTL" | "CACHE_SYNC" => {
            draft.not_needed(at, "all names are in memory");
        }
        "CREATION_RATE_LIMIT" | "SYNC_EVERY_N_WRITES" => {
            draft.not_needed(at, "points wait until their metric is created, whatever the rate");
        }
        "CASSANDRA_MAX_QUERIES_PER_PATTERN"
        | "CASSANDRA_MAX_CONCURRENT_QUERIES_PER_PATTERN"
        | "CASSANDRA_MAX_CONCURRENT_CONNECTIONS"
        | "CASSANDRA_ENABLE_METRICS" => draft.not_needed(at, "Plumbago always does this, without a setting"),
        _ => draft.no_equivalent(at, "no such setting of BigGraphite is known"),
    }
}
