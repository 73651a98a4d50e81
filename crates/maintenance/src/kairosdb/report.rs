//! What an import has done.

use std::collections::BTreeMap;

use plumbago_kairosdb::point::Reason;
use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::counts::{HistoryCounts, SkipCounts};

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportKairosdbReport {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that were read: a storage row of KairosDB, or points of OpenTSDB that followed each other.
    pub entries: u64,
    /// Storage rows of a keyspace that were read.
    pub rows: u64,
    /// Storage rows that the indexes list, if they were read.
    pub listed_rows: u64,
    /// Listed rows without a point.
    pub empty_rows: u64,
    /// Rows that no index lists. They are only looked for in a dry run of a whole keyspace.
    pub unlisted_rows: u64,
    /// Numbers that were read.
    pub points: u64,
    /// Points that were not asked for.
    pub outside: u64,
    /// Points whose time had milliseconds, which are cut.
    pub cut: u64,
    /// Whole numbers beyond 2⁵³, which become the nearest number that has a double.
    pub rounded: u64,
    /// Points with a time to live, which is not kept.
    pub with_ttl: u64,
    /// Values that are not kept, by type.
    pub not_kept: BTreeMap<String, u64>,
    /// Points that are none, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Series.
    pub series: u64,
    /// Points that have a slot of the finest stage.
    pub slots: u64,
    /// Points whose slot has a later one.
    pub same_slot: u64,
    /// Points of the same millisecond as another one of their series.
    pub same_time: u64,
    /// Points that are older than any stage keeps.
    pub too_old: u64,
    /// Points that are later than now.
    pub future: u64,
    /// The same by storage rule.
    pub rules: Vec<RuleCounts>,
    /// Series that existed with other settings than the rules give. They keep theirs.
    pub other_settings: u64,
    /// What became of the points and windows, in all stages.
    #[serde(flatten)]
    pub history: HistoryCounts,
    /// What was skipped.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// The coarsest storage rules that lose no more than slots of a second; empty if they were not asked for.
    pub suggested_rules: String,
    /// How long it took.
    pub seconds: f64,
}

/// What comes under one storage rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleCounts {
    /// The section; empty for the built-in rule.
    pub section: String,
    /// The retention that it gives.
    pub retention: String,
    /// The method.
    pub aggregation: String,
    /// Series.
    pub series: u64,
    /// Points.
    pub points: u64,
    /// Points whose slot has a later one.
    pub same_slot: u64,
    /// Points that are older than any stage keeps.
    pub too_old: u64,
    /// Values that are not kept: text and types of plug-ins.
    pub not_kept: u64,
    /// Points with a time to live.
    pub with_ttl: u64,
    /// Rows of a keyspace that no index lists.
    pub unlisted_rows: u64,
}

impl ImportKairosdbReport {
    /// Adds what was found and stored of other series.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.series, other.series),
            (&mut self.slots, other.slots),
            (&mut self.same_slot, other.same_slot),
            (&mut self.same_time, other.same_time),
            (&mut self.too_old, other.too_old),
            (&mut self.future, other.future),
            (&mut self.other_settings, other.other_settings),
        ] {
            *sum += more;
        }
        other.rules.iter().for_each(|rule| self.add_rule(rule.clone()));
        self.history.add(&other.history);
        self.skips.add(&other.skips);
    }

    pub(super) fn add_rule(&mut self, rule: RuleCounts) {
        let key =
            |rule: &RuleCounts| (rule.section.clone(), rule.retention.clone(), rule.aggregation.clone());
        match self.rules.iter_mut().find(|known| key(known) == key(&rule)) {
            None => self.rules.push(rule),
            Some(known) => {
                known.series += rule.series;
                known.points += rule.points;
                known.same_slot += rule.same_slot;
                known.too_old += rule.too_old;
                known.not_kept += rule.not_kept;
                known.with_ttl += rule.with_ttl;
                known.unlisted_rows += rule.unlisted_rows;
            }
        }
    }

    pub(super) fn add_stored(&mut self, stored: &HistoryReport) {
        self.history.note(stored);
        self.other_settings += u64::from(stored.differs);
    }
}

/// The name of a reason in the report.
pub(super) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Timestamp => "timestamp",
        Reason::Nan => "not_finite",
        Reason::Value => "value",
        _ => "incomplete",
    }
}
