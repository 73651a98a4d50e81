//! What ScyllaDB refuses and Cassandra does not, according to ScyllaDB's documentation and its own checks of
//! table properties (`docs.scylladb.com`: CQL reference, "How does ScyllaDB LWT differ from Apache
//! Cassandra").

const SYNTAX: i32 = 0x2000;
const INVALID: i32 = 0x2200;
const CONFIGURATION: i32 = 0x2300;

/// The properties that a table may have. ScyllaDB accepts some old properties of Cassandra and ignores them.
const PROPERTIES: [&str; 25] = [
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "encryption",
    "gc_grace_seconds",
    "id",
    "max_index_interval",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "paxos_grace_seconds",
    "per_partition_rate_limit",
    "speculative_retry",
    "synchronous_updates",
    "tablets",
    "tombstone_gc",
    "index_interval",
    "populate_io_cache_on_flush",
    "replicate_on_write",
    "read_repair_chance",
    "dclocal_read_repair_chance",
];

/// The shortest period after which memtables may be flushed, in milliseconds.
const FLUSH_PERIOD_MIN: u64 = 60_000;

/// An error with which ScyllaDB answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The protocol's error code.
    pub(super) code: i32,
    /// The message.
    pub(super) message: String,
}

impl Refusal {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The reason why ScyllaDB refuses a statement; `None` if it accepts the statement.
pub(super) fn refused(statement: &str) -> Option<Refusal> {
    let words = statement.split_whitespace().map(str::to_ascii_uppercase).collect::<Vec<_>>();
    let has = |word: &str| words.iter().any(|one| one == word);
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["CREATE", "CUSTOM", "INDEX", ..] => {
            Some(Refusal::new(INVALID, "Non-supported custom class for an index: SASI"))
        }
        ["CREATE" | "ALTER", "TABLE", ..] => properties(statement).iter().find_map(|one| property(one)),
        ["SELECT", ..] if has("LIKE") && !has("ALLOW") => {
            Some(Refusal::new(INVALID, "LIKE restriction is only supported with ALLOW FILTERING"))
        }
        ["SELECT", ..] => unknown_table(statement),
        _ => None,
    }
}

/// Refuses statements on system tables that exist in Cassandra but not in ScyllaDB.
fn unknown_table(statement: &str) -> Option<Refusal> {
    let unknown = ["system.peers_v2", "system_views.", "system.available_ranges_v2"];
    let table = unknown.into_iter().find(|table| statement.contains(table))?;
    Some(Refusal::new(INVALID, format!("unconfigured table {table}")))
}

/// The properties after `WITH`, as `name = value`.
fn properties(statement: &str) -> Vec<&str> {
    let Some((_, after)) = statement.split_once("WITH ") else { return Vec::new() };
    let mut found = Vec::new();
    let (mut start, mut quoted, mut depth) = (0, false, 0_u32);
    for (at, byte) in after.bytes().enumerate() {
        match byte {
            b'\'' => quoted = !quoted,
            b'{' | b'(' if !quoted => depth += 1,
            b'}' | b')' if !quoted => depth = depth.saturating_sub(1),
            b'A' if !quoted && depth == 0 && after[at..].starts_with("AND ") => {
                found.push(after[start..at].trim());
                start = at + "AND ".len();
            }
            _ => {}
        }
    }
    found.push(after[start..].trim().trim_end_matches(';'));
    found
}

fn property(text: &str) -> Option<Refusal> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    match name {
        _ if !PROPERTIES.contains(&name) => Some(Refusal::new(SYNTAX, format!("Unknown property '{name}'"))),
        "compression" if !value.contains("sstable_compression") && value.contains(':') => Some(Refusal::new(
            CONFIGURATION,
            "Missing sub-option 'sstable_compression' for the 'compression' option.",
        )),
        "memtable_flush_period_in_ms"
            if value.parse::<u64>().is_ok_and(|period| period != 0 && period < FLUSH_PERIOD_MIN) =>
        {
            Some(Refusal::new(CONFIGURATION, format!("{name} must be 0 or greater than {FLUSH_PERIOD_MIN}")))
        }
        "cdc" if !value.starts_with('{') => {
            Some(Refusal::new(SYNTAX, "Invalid value for property 'cdc'. It should be a map."))
        }
        "speculative_retry" if !known_retry(value.trim_matches('\'')) => {
            Some(Refusal::new(CONFIGURATION, format!("invalid speculative_retry type: {value}")))
        }
        _ => None,
    }
}

fn known_retry(value: &str) -> bool {
    let value = value.to_ascii_uppercase();
    let number = value.strip_suffix("PERCENTILE").or_else(|| value.strip_suffix("MS"));
    matches!(value.as_str(), "NONE" | "ALWAYS") || number.is_some_and(|text| text.parse::<f64>().is_ok())
}

/// The columns of the old row that ScyllaDB adds to `[applied]`. These are the columns of the condition. With
/// `IF NOT EXISTS` ScyllaDB adds all columns of the table; for the stand-in, those that the statement names
/// are enough. `None` for a statement without a condition.
pub(super) fn conditional_columns(statement: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let modifies = words.first().is_some_and(|word| matches!(*word, "INSERT" | "UPDATE" | "DELETE"));
    let condition = words.iter().position(|word| *word == "IF").filter(|_| modifies)?;
    if words.first() == Some(&"INSERT") {
        let (_, after) = statement.split_once('(')?;
        let (columns, _) = after.split_once(')')?;
        return Some(columns.split(',').map(|column| column.trim().to_owned()).collect());
    }
    let compared = words.windows(2).skip(condition).filter(|pair| pair[1] == "=");
    Some(compared.map(|pair| pair[0].to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(statement: &str) -> Option<String> {
        refused(statement).map(|refusal| refusal.message)
    }

    #[test]
    fn properties_are_told_apart() {
        let text = "CREATE TABLE t (a int PRIMARY KEY) WITH CLUSTERING ORDER BY (a DESC)\n    AND comment = 'this \
                    AND that' AND compaction = {'class': 'X', 'y': 'AND '}";
        assert_eq!(
            properties(text),
            [
                "CLUSTERING ORDER BY (a DESC)",
                "comment = 'this AND that'",
                "compaction = {'class': 'X', 'y': 'AND '}"
            ]
        );
        assert_eq!(message(text), None);
    }

    #[test]
    fn what_scylladb_refuses_is_refused() {
        for (statement, part) in [
            (
                "CREATE CUSTOM INDEX i ON t (c) USING 'org.apache.cassandra.index.sasi.SASIIndex'",
                "custom class",
            ),
            (
                "CREATE TABLE t (a int PRIMARY KEY) WITH read_repair = 'NONE'",
                "Unknown property 'read_repair'",
            ),
            ("ALTER TABLE t WITH gc_grace_seconds = 1 AND memtable = 'trie'", "Unknown property 'memtable'"),
            ("ALTER TABLE t WITH compression = {'class': 'LZ4Compressor'}", "sstable_compression"),
            ("ALTER TABLE t WITH memtable_flush_period_in_ms = 1000", "greater than 60000"),
            ("ALTER TABLE t WITH cdc = true", "map"),
            ("ALTER TABLE t WITH speculative_retry = '99p'", "99p"),
            ("SELECT a FROM t WHERE b LIKE 'x%'", "LIKE"),
            ("SELECT * FROM system.peers_v2", "peers_v2"),
        ] {
            let said = message(statement).unwrap_or_default();
            assert!(said.contains(part), "{statement}: {said:?}");
        }
    }

    #[test]
    fn what_scylladb_takes_is_taken() {
        for statement in [
            "ALTER TABLE t WITH compression = {'sstable_compression': 'LZ4Compressor'}",
            "ALTER TABLE t WITH compression = {}",
            "ALTER TABLE t WITH memtable_flush_period_in_ms = 0 AND speculative_retry = '99.0PERCENTILE'",
            "CREATE INDEX i ON t (c)",
            "SELECT release_version FROM system.local",
            "INSERT INTO t (a) VALUES (1)",
        ] {
            assert_eq!(message(statement), None, "{statement}");
        }
    }

    #[test]
    fn conditions_name_their_columns() {
        assert_eq!(
            conditional_columns("UPDATE l USING TTL ? SET host = ? WHERE name = ? IF holder = ?").unwrap(),
            ["holder"]
        );
        assert_eq!(conditional_columns("DELETE FROM l WHERE name = ? IF holder = ?").unwrap(), ["holder"]);
        assert_eq!(conditional_columns("UPDATE l SET host = ? WHERE name = ?"), None);
        assert_eq!(conditional_columns("CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY)"), None);
    }
}
