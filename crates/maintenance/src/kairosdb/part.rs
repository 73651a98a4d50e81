//! Reads a part of the scratch directory: its series, with one value for each slot.

use std::collections::HashMap;
use std::path::Path;

use plumbago_store::{History, HistoryStage};

use super::report::{ImportKairosdbReport, RuleCounts};
use super::scratch::{Record, records};
use super::suggest::Suggestions;
use crate::histories::Histories;
use crate::verb::VerbError;

/// The parameters for all parts.
pub(super) struct Limits {
    /// The present time in seconds since the epoch. Later points count as future points.
    pub(super) now: i64,
    /// Whether to find resolutions for suggested rules.
    pub(super) suggests: bool,
}

/// The series of a part.
pub(super) struct Found {
    pub(super) series: Vec<History>,
    pub(super) report: ImportKairosdbReport,
    pub(super) suggestions: Suggestions,
}

/// Reads a part.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn read(path: &Path, limits: &Limits, histories: &dyn Histories) -> Result<Found, VerbError> {
    let mut found = Found {
        series: Vec::new(),
        report: ImportKairosdbReport::default(),
        suggestions: Suggestions::default(),
    };
    for record in series(path)? {
        found.add(record, limits, histories);
    }
    Ok(found)
}

/// The records of a part, one for each series.
fn series(path: &Path) -> Result<Vec<Record>, VerbError> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<Record> = Vec::new();
    records(path, |mut record| match places.get(&record.name) {
        Some(at) => {
            let known = &mut all[*at];
            known.points.append(&mut record.points);
            known.not_kept += record.not_kept;
            known.with_ttl += record.with_ttl;
            known.unlisted_rows += record.unlisted_rows;
        }
        None => {
            places.insert(record.name.clone(), all.len());
            all.push(record);
        }
    })?;
    Ok(all)
}

impl Found {
    fn add(&mut self, record: Record, limits: &Limits, histories: &dyn Histories) {
        let Record { name, not_kept, with_ttl, unlisted_rows, mut points } = record;
        let config = histories.config_for(&name);
        let raw = config.retention.finest();
        let total = points.len() as u64;
        // A stable sort: of two points of the same time and kind, the one in the later line wins.
        points.sort_by_key(|(key, _)| *key);
        if limits.suggests {
            self.suggestions.note(&name, &points);
        }
        let same_time = points.windows(2).filter(|pair| pair[0].0 >> 1 == pair[1].0 >> 1).count() as u64;
        points.retain(|(key, _)| seconds(*key) <= limits.now);
        let future = total - points.len() as u64;
        let oldest = limits.now - config.retention.duration() as i64;
        let resolution = i64::from(config.retention.stages().last().map_or(1, |stage| stage.resolution));
        let is_kept = |time: i64| time - time % resolution + resolution > oldest;
        points.retain(|(key, _)| is_kept(seconds(*key)));
        let too_old = total - future - points.len() as u64;
        let slots = slots(&points, raw.resolution);
        let same_slot = (points.len() - slots.len()) as u64;

        let report = &mut self.report;
        report.series += 1;
        report.slots += slots.len() as u64;
        report.same_time += same_time;
        report.same_slot += same_slot;
        report.too_old += too_old;
        report.future += future;
        report.add_rule(RuleCounts {
            section: histories.section_for(&name).unwrap_or_default(),
            retention: config.retention.spelled(),
            aggregation: config.aggregation.to_string(),
            series: 1,
            points: total,
            same_slot,
            too_old,
            not_kept,
            with_ttl,
            unlisted_rows,
        });
        if !slots.is_empty() {
            let stages =
                vec![HistoryStage { resolution: raw.resolution, points: slots, ..HistoryStage::default() }];
            self.series.push(History { name, config, stages });
        }
    }
}

/// The second of a sorted key.
fn seconds(key: i64) -> i64 {
    key / 2000
}

/// One point for each slot: the last of these sorted points in it.
fn slots(points: &[(i64, f64)], resolution: u32) -> Vec<(u32, f64)> {
    let mut slots: Vec<(u32, f64)> = Vec::with_capacity(points.len());
    for (key, value) in points {
        // Times after 2106 are in the future, so they are not here.
        let Ok(time) = u32::try_from(seconds(*key)) else { continue };
        let slot = time - time % resolution;
        match slots.last_mut().filter(|(last, _)| *last == slot) {
            Some((_, last)) => *last = *value,
            None => slots.push((slot, *value)),
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_point_of_a_slot_counts() {
        let key = |ms: i64, is_double: i64| ms * 2 + is_double;
        let points = [
            (key(1_000, 0), 1.0),
            (key(9_999, 0), 2.0),
            (key(10_000, 0), 3.0),
            (key(10_000, 1), 4.0),
            (key(40_500, 1), 5.0),
        ];
        assert_eq!(slots(&points, 10), [(0, 2.0), (10, 4.0), (40, 5.0)]);
        assert_eq!(slots(&points, 60), [(0, 5.0)]);
        assert_eq!(slots(&points, 1), [(1, 1.0), (9, 2.0), (10, 4.0), (40, 5.0)]);
        assert_eq!(slots(&[], 1), []);
    }
}
