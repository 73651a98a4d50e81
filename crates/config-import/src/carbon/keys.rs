//! All other keys of `carbon.conf`: the setting that each becomes, or why it is left out.

use super::{Instance, Key};
use crate::draft::{Draft, Table};
use crate::parse;

/// Keys that other modules read.
const READ_ELSEWHERE: &[&str] = &[
    "LINE_RECEIVER_INTERFACE",
    "LINE_RECEIVER_PORT",
    "ENABLE_UDP_LISTENER",
    "UDP_RECEIVER_INTERFACE",
    "UDP_RECEIVER_PORT",
    "PICKLE_RECEIVER_INTERFACE",
    "PICKLE_RECEIVER_PORT",
    "PICKLE_RECEIVER_MAX_LENGTH",
    "PROTOBUF_RECEIVER_INTERFACE",
    "PROTOBUF_RECEIVER_PORT",
    "CACHE_QUERY_INTERFACE",
    "CACHE_QUERY_PORT",
    "MAX_CREATES_PER_MINUTE",
    "MAX_RECEIVER_CONNECTIONS",
    "METRIC_CLIENT_IDLE_TIMEOUT",
    "USE_WHITELIST",
    "STORAGE_DIR",
    "LOCAL_DATA_DIR",
    "CONF_DIR",
    "DESTINATIONS",
    "DESTINATION_PROTOCOL",
    "DESTINATION_TRANSPORT",
    "DESTINATION_SSL_CA",
    "RELAY_METHOD",
    "RELAY_RULES",
    "AGGREGATION_RULES",
    "REWRITE_RULES",
    "FORWARD_ALL",
    "MAX_AGGREGATION_INTERVALS",
    "WRITE_BACK_FREQUENCY",
];

/// Prefixes of keys that Plumbago works without, each with the reason.
const NOT_NEEDED: Table = &[
    ("ENABLE_LOGROTATION", "the log goes to standard error, where systemd or the container collects it"),
    ("LOG_", "the log goes to standard error, and says nothing about single points or files"),
    ("PID_DIR", "no PID file is written; systemd knows the process"),
    ("WHITELISTS_DIR", "the lists are named by ingest.whitelist and ingest.blacklist"),
    ("USER", "the systemd unit names the user"),
    ("MAX_UPDATES_PER_SECOND", "points are written in large blocks, so their rate needs no limit"),
    ("CACHE_WRITE_STRATEGY", "points are written in large blocks, so their order does not matter"),
    ("WHISPER_", "points are not kept in whisper files"),
    ("CERES_", "points are not kept in ceres files"),
    ("CACHE_METRIC_NAMES_", "all names are in memory"),
    ("USE_INSECURE_UNPICKLER", "pickles are read without running any code in them"),
    ("TCP_KEEP", "broken connections are always looked for"),
    ("MAX_QUEUE_SIZE", "each destination has a queue on disk, relay.max_bytes"),
    ("QUEUE_LOW_WATERMARK_PCT", "each destination has a queue on disk, relay.max_bytes"),
    ("MAX_DATAPOINTS_PER_MESSAGE", "the sender chooses its batches"),
    ("TIME_TO_DEFER_SENDING", "the sender chooses its batches"),
    ("USE_RATIO_RESET", "a connection that makes no progress is opened again"),
    ("MIN_RESET_", "a connection that makes no progress is opened again"),
    ("TAG_", "tags are indexed here, without requests to graphite-web"),
    ("GRAPHITE_URL", "tags are indexed here, without requests to graphite-web"),
    ("SKIP_TAGS_FOR_NONTAGGED", "tags are indexed here, without requests to graphite-web"),
    ("REPLICATION_FACTOR", "it matters to consistent hashing only"),
    ("DIVERSE_REPLICAS", "it matters to consistent hashing only"),
    ("ROUTER_HASH_TYPE", "it matters to consistent hashing only"),
    ("DYNAMIC_ROUTER", "it matters to consistent hashing only"),
    ("DESTINATION_POOL_REPLICAS", "it matters to consistent hashing only"),
];

/// Prefixes of keys that have no equivalent in Plumbago.
const NO_EQUIVALENT: Table = &[
    ("AMQP_", "points are not read from a message broker"),
    ("BIND_PATTERNS", "points are not read from a message broker"),
    ("MANHOLE_", "there is no shell in the process; ask the admin port"),
    (
        "MIN_TIMESTAMP_RESOLUTION",
        "the slot of a point follows from its time, so its time need not be rounded",
    ),
    ("MIN_TIMESTAMP_LAG", "points are visible as soon as they are accepted"),
    ("RAVEN_DSN", "errors are not sent to Sentry; see the log and the conditions of /readyz"),
];

/// Reads all keys that no other module reads.
pub(super) fn read(instance: &Instance, draft: &mut Draft<'_>) {
    let others = |key: &&Key| !READ_ELSEWHERE.contains(&key.name.as_str()) && !key.name.starts_with("BG_");
    for key in instance.keys.iter().filter(others) {
        one(key, draft);
    }
}

fn one(key: &Key, draft: &mut Draft<'_>) {
    let at = key.at();
    let is_on = parse::flag(&key.value) == Some(true);
    match key.name.as_str() {
        "CARBON_METRIC_PREFIX" => draft.text("self_metrics.prefix", key.value.trim_matches('.'), at),
        "CARBON_METRIC_INTERVAL" => draft.seconds("self_metrics.interval", &key.value, at),
        "MAX_CACHE_SIZE" if key.value == "inf" => draft.not_needed(at, "engine.memory_max limits the memory"),
        "MAX_CACHE_SIZE" => draft.todo(at, "the limit is in bytes of the process: set engine.memory_max"),
        "USE_FLOW_CONTROL" if is_on => draft.not_needed(at, "reading pauses when the daemon is behind"),
        "USE_FLOW_CONTROL" => draft.no_equivalent(at, "points are not dropped; reading pauses instead"),
        "ENABLE_TAGS" if is_on => draft.not_needed(at, "tags are always understood"),
        "ENABLE_TAGS" => draft.no_equivalent(at, "tags are always understood"),
        "ENABLE_AMQP" | "ENABLE_MANHOLE" if !is_on => {}
        "ENABLE_AMQP" => draft.no_equivalent(at, "points are not read from a message broker"),
        "ENABLE_MANHOLE" => draft.no_equivalent(at, "there is no shell in the process; ask the admin port"),
        "DATABASE" => database(key, draft),
        _ => draft.remark_by(NOT_NEEDED, NO_EQUIVALENT, at, "no such setting of carbon is known"),
    }
}

fn database(key: &Key, draft: &mut Draft<'_>) {
    if key.value.contains("biggraphite") {
        draft.text("store.kind", "cassandra", key.at());
    } else if key.value != "whisper" {
        draft.no_equivalent(key.at(), format!("files of {} cannot be imported", key.value));
    }
}
