//! Finds the metrics that are no longer written, and those that are not read.

use plumbago_model::MetricId;
use plumbago_store::MetricRow;

use crate::expire::have_points;
use crate::verb::{VerbError, Work};

pub(crate) const DAY: i64 = 86_400;
/// Number of metrics that are looked up in one request.
const LOOKED_UP: usize = 1000;
/// Number of metrics whose points are searched for in one request.
const READ_METRICS: usize = 100;

/// Decides whether a metric is unread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread {
    /// The metric was not read since this time, in seconds since the epoch.
    since: i64,
}

impl Unread {
    /// Finds metrics that were not read since a time. If reads have been recorded only since a later time,
    /// this is unknown, and that later time is returned as the error.
    pub(crate) async fn since(work: &Work, since: i64) -> Result<Result<Self, i64>, VerbError> {
        let noted_since = work.stores.rows.reads_noted_since().await?.map_or(0, i64::from);
        Ok(if noted_since > since { Err(noted_since) } else { Ok(Self { since }) })
    }

    /// Whether the metric was not read. A metric without a recorded read counts as last read at its creation.
    pub(crate) fn is(&self, row: &MetricRow) -> bool {
        // A store may keep only the day.
        let read = row.read_on.map_or(0, |time| i64::from(time) + DAY - 1);
        read.max(i64::from(row.created_on)) < self.since
    }

    /// The metrics among these that were not read.
    pub(crate) async fn of(&self, work: &Work, names: Vec<String>) -> Result<Vec<String>, VerbError> {
        let mut unread = Vec::new();
        for names in names.chunks(LOOKED_UP) {
            let all: Vec<&str> = names.iter().map(String::as_str).collect();
            let rows = work.stores.rows.look_up_rows(&all).await?.into_iter().flatten();
            unread.extend(rows.filter(|row| self.is(row)).map(|row| row.name));
        }
        Ok(unread)
    }
}

/// The metrics among `names` that have no points of the last `seconds`, neither in memory nor in the store.
pub(crate) async fn silent(work: &Work, names: Vec<String>, seconds: u64) -> Result<Vec<String>, VerbError> {
    let now = work.context.clock.now();
    let since = now.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX));
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let written = work.context.live.are_written(&all, since).await?;
    let quiet: Vec<&str> =
        all.iter().zip(written).filter(|(_, written)| !written).map(|(name, _)| *name).collect();
    let mut silent = Vec::new();
    for names in quiet.chunks(READ_METRICS) {
        let known = work.stores.metadata.get(names).await?;
        let metrics = known.iter().flatten().map(|meta| (meta.id(), &*meta.config));
        let has_points = have_points(&*work.stores.points, metrics, since, now).await?;
        let silent_ones = known.into_iter().flatten().zip(has_points).filter(|(_, has_points)| !has_points);
        silent.extend(silent_ones.map(|(meta, _)| meta.name));
    }
    Ok(silent)
}

/// Whether each of the metrics has no point since a time, as [`silent`] finds them. A metric that a daemon
/// recorded as written since then has points. A metric whose settings cannot be read counts as written.
pub(crate) async fn are_silent(work: &Work, rows: &[MetricRow], since: i64) -> Result<Vec<bool>, VerbError> {
    let now = work.context.clock.now();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let written = work.context.live.are_written(&names, since).await?;
    let was_updated = |row: &MetricRow| row.updated_on.is_some_and(|time| i64::from(time) >= since);
    let mut quiet = Vec::new();
    for (at, (row, written)) in rows.iter().zip(written).enumerate() {
        if let Some(config) = row.config.as_deref().filter(|_| !written && !was_updated(row)) {
            quiet.push((at, MetricId::of(&row.name), config));
        }
    }
    let mut silent = vec![false; rows.len()];
    for metrics in quiet.chunks(READ_METRICS) {
        let looked_for = metrics.iter().map(|(_, id, config)| (*id, *config));
        let has_points = have_points(&*work.stores.points, looked_for, since, now).await?;
        for ((at, ..), has_points) in metrics.iter().zip(has_points) {
            silent[*at] = !has_points;
        }
    }
    Ok(silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_counts_to_its_end() {
        let row = |created_on, read_on| MetricRow {
            name: "a".to_owned(),
            config: None,
            created_on,
            updated_on: None,
            read_on,
            problem: None,
        };
        let unread = Unread { since: 10 * DAY };
        let day = DAY as u32;
        assert!(unread.is(&row(day, None)));
        assert!(!unread.is(&row(10 * day, None)), "created since then");
        assert!(unread.is(&row(day, Some(8 * day))));
        assert!(!unread.is(&row(day, Some(9 * day + 1))), "the day that ends after the time");
    }
}
