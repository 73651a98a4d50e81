//! Compares the schema of a server with the one that is needed.

use std::fmt;

use super::{Column, Key, LiveSchema, LiveTable, Purpose, Schema, TTL_MARGIN, TableDef};

/// How severe a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The difference does not affect any function.
    Harmless,
    /// The difference turns one feature off; everything else works.
    Feature,
    /// The table or keyspace cannot be used.
    Fatal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Harmless => "harmless",
            Self::Feature => "feature off",
            Self::Fatal => "fatal",
        })
    }
}

/// One difference between the wanted schema and the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The keyspace with the difference.
    pub keyspace: String,
    /// The table with the difference; empty if the difference concerns the keyspace itself.
    pub table: String,
    /// How severe the difference is.
    pub severity: Severity,
    /// What is different, as part of a message.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.table.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}: {} ({})", self.keyspace, self.table, self.what, self.severity)
    }
}

/// Lists the differences between the `wanted` schema and the one that a server reports.
pub fn diff(wanted: &Schema, live: &LiveSchema) -> Vec<Difference> {
    let mut found = Vec::new();
    for keyspace in &wanted.keyspaces {
        if !live.keyspaces.contains_key(&keyspace.name) {
            found.push(Difference {
                keyspace: keyspace.name.clone(),
                table: String::new(),
                severity: Severity::Fatal,
                what: "the keyspace does not exist".to_owned(),
            });
        }
    }
    for table in &wanted.tables {
        compare(table, live, &mut found);
    }
    found
}

fn compare(table: &TableDef, live: &LiveSchema, found: &mut Vec<Difference>) {
    let mut report = |severity, what: String| {
        // An optional table that is broken costs no more than one that is missing: its feature is off.
        let severity =
            if table.purpose == Purpose::Extra { Severity::Feature.min(severity) } else { severity };
        found.push(Difference {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            severity,
            what,
        });
    };
    let Some(there) = live.table(&table.keyspace, &table.name) else {
        report(Severity::Fatal, "the table does not exist".to_owned());
        return;
    };
    columns(table, there, &mut report);
    options(table, there, &mut report);
    indexes(table, live, &mut report);
}

fn columns(table: &TableDef, live: &LiveTable, report: &mut impl FnMut(Severity, String)) {
    let mut places = [0; 2];
    for column in &table.columns {
        let place = match column.key {
            Key::Partition => Some(&mut places[0]),
            Key::Ascending | Key::Descending => Some(&mut places[1]),
            Key::None => None,
        };
        let wanted_place = place.map(|place| {
            *place += 1;
            *place - 1
        });
        match live.columns.iter().find(|there| there.name == column.name) {
            None => report(Severity::Fatal, format!("column {} is missing", column.name)),
            Some(there) => {
                if there.cql_type != column.cql_type {
                    let what =
                        format!("column {} is {}, not {}", column.name, there.cql_type, column.cql_type);
                    report(Severity::Fatal, what);
                }
                if !same_key(column, there.key) || wanted_place.is_some_and(|place| place != there.position) {
                    let what =
                        format!("column {} has another place or order in the primary key", column.name);
                    report(Severity::Fatal, what);
                }
            }
        }
    }
    for there in &live.columns {
        if !table.columns.iter().any(|column| column.name == there.name) {
            let (severity, more) = if there.key == Key::None {
                (Severity::Harmless, "")
            } else {
                (Severity::Fatal, " in the key")
            };
            report(severity, format!("column {} is not expected{more}", there.name));
        }
    }
}

fn same_key(column: &Column, live: Key) -> bool {
    column.key == live
}

fn options(table: &TableDef, live: &LiveTable, report: &mut impl FnMut(Severity, String)) {
    let wanted = &table.options;
    let mut differs = |what: String| report(Severity::Harmless, what);
    if let Some(window) = wanted.window {
        let class =
            live.compaction.get("class").map_or("", |class| class.rsplit('.').next().unwrap_or(class));
        if class != "TimeWindowCompactionStrategy" {
            differs(format!("compaction is {class}, not TimeWindowCompactionStrategy"));
        } else if live.window() != Some(window) {
            differs(format!("the compaction window is not {} s", window.seconds()));
        }
    }
    if let Some(ttl) = wanted.ttl
        && ttl_differs(table, ttl, live.ttl)
    {
        differs(format!("default_time_to_live is {}, not {ttl}", live.ttl));
    }
    if let Some(seconds) = wanted.gc_grace_seconds
        && live.gc_grace_seconds != seconds
    {
        differs(format!("gc_grace_seconds is {}, not {seconds}", live.gc_grace_seconds));
    }
    if let Some(ms) = wanted.flush_period_ms
        && live.flush_period_ms != ms
    {
        differs(format!("memtable_flush_period_in_ms is {}, not {ms}", live.flush_period_ms));
    }
    if let Some(comment) = &wanted.comment
        && table.purpose != Purpose::Extra
        && normal(comment) != normal(&live.comment)
    {
        differs("the comment is different".to_owned());
    }
}

/// Whether a table's default TTL is wrong. Where the server's latest expiry limits the TTL, the limit
/// shrinks from day to day, so a table keeps the larger TTL of the day it was created. That is harmless,
/// because each row then gets its own TTL.
fn ttl_differs(table: &TableDef, wanted: u64, live: u64) -> bool {
    match table.purpose {
        Purpose::Points(points) if wanted < points.ttl() => {
            !(wanted.saturating_sub(TTL_MARGIN as u64)..=points.ttl()).contains(&live)
        }
        _ => live != wanted,
    }
}

/// Makes comments of different BigGraphite versions comparable: under Python 2 it wrote a row size of
/// `2000`, under Python 3 `2000.0`.
fn normal(comment: &str) -> String {
    comment.replace("2000.0}", "2000}")
}

fn indexes(table: &TableDef, live: &LiveSchema, report: &mut impl FnMut(Severity, String)) {
    let missing: Vec<&str> = table
        .indexes
        .iter()
        .filter(|index| !live.has_sasi(&table.keyspace, &table.name, &index.column))
        .map(|index| index.column.as_str())
        .collect();
    let Some(first) = missing.first() else { return };
    let instead = match live.other_index(&table.keyspace, &table.name) {
        Some(class) => format!("; there is {class} instead"),
        None => String::new(),
    };
    let more = if missing.len() > 1 { format!(" and {} more", missing.len() - 1) } else { String::new() };
    let what =
        format!("no SASI index on {first}{more}{instead}: names cannot be found by index.mode \"sasi\"");
    report(Severity::Feature, what);
}
