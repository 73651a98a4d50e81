//! The results of an import of a history.

use std::collections::BTreeMap;

use plumbago_kairosdb::point::Reason;
use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::counts::{HistoryCounts, SkipCounts};

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportKairosdbReport {
    /// Number of files that were read.
    pub files: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// Entries that were read: a storage row of KairosDB, or points of OpenTSDB that were consecutive.
    pub entries: u64,
    /// Number of storage rows of a keyspace that were read.
    pub rows: u64,
    /// Storage rows that the indexes list, if they were read.
    pub listed_rows: u64,
    /// Number of listed rows without a point.
    pub empty_rows: u64,
    /// Number of rows that no index lists. They are searched for only in a dry run of a whole keyspace.
    pub unlisted_rows: u64,
    /// Number of points that were read and have a number as their value.
    pub points: u64,
    /// Number of points outside the requested metrics and times.
    pub outside: u64,
    /// Number of points whose times had milliseconds, which are cut off.
    pub cut: u64,
    /// Whole numbers beyond 2⁵³, which are rounded to the nearest double.
    pub rounded: u64,
    /// Number of points with a time to live, which is not kept.
    pub with_ttl: u64,
    /// Values that are not kept, by type.
    pub not_kept: BTreeMap<String, u64>,
    /// Refused points, by reason.
    pub refused: BTreeMap<String, u64>,
    /// The number of series.
    pub series: u64,
    /// Number of points that are the value of a slot of the finest stage.
    pub slots: u64,
    /// Number of points that are not kept because their slot has a later point.
    pub same_slot: u64,
    /// Number of points with the same millisecond as another point of their series.
    pub same_time: u64,
    /// Number of points that are older than any stage keeps.
    pub too_old: u64,
    /// Number of points that are later than now.
    pub future: u64,
    /// The counts of series and points by storage rule.
    pub rules: Vec<RuleCounts>,
    /// Number of series that existed with other settings than those of the rules. They keep theirs.
    pub other_settings: u64,
    /// The results of storing points and windows, in all stages.
    #[serde(flatten)]
    pub history: HistoryCounts,
    /// The numbers of skipped items.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// The coarsest storage rules that lose no more points than slots of one second would; empty if they were
    /// not requested.
    pub suggested_rules: String,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

/// The counts for one storage rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleCounts {
    /// The section; empty for the built-in rule.
    pub section: String,
    /// The retention of the section, like `60s:7d`.
    pub retention: String,
    /// The aggregation method that the rules give these series.
    pub aggregation: String,
    /// The number of series.
    pub series: u64,
    /// The number of points.
    pub points: u64,
    /// Number of points that are not kept because their slot has a later point.
    pub same_slot: u64,
    /// Number of points that are older than any stage keeps.
    pub too_old: u64,
    /// Number of values that are not kept, such as texts and types of plug-ins.
    pub not_kept: u64,
    /// Number of points with a time to live.
    pub with_ttl: u64,
    /// Number of rows of a keyspace that no index lists.
    pub unlisted_rows: u64,
}

impl ImportKairosdbReport {
    /// Adds the counts of other series.
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
