//! Deferred slices: those that could not be sent while others could. After they have arrived, they are
//! retained in separate segments.

use super::chunk::SpooledSlice;
use super::row::{self, Key, read_value};
use super::segment::{ARRIVED, DEFERRED, Segment, Sums};
use super::shared::Shared;
use super::{Slice, lock};
use crate::SpoolError;

impl Shared {
    pub(super) fn next_deferred(
        &self,
        after: Option<&SpooledSlice>,
        most_bytes: usize,
    ) -> Result<Vec<SpooledSlice>, SpoolError> {
        let from = after.map_or(Key::first(DEFERRED, [0; 16]), |slice| Key {
            segment: DEFERRED,
            id: slice.id,
            timestamp_us: slice.timestamp_us.saturating_add(1),
        });
        let mut slices = Vec::new();
        let mut bytes = 0;
        self.visit(from, Key::end(DEFERRED), &mut |key, value| {
            bytes += value.len();
            match read_value(&value) {
                Some((rows, _)) => {
                    let Key { id, timestamp_us, .. } = key;
                    slices.push(SpooledSlice { id, timestamp_us, rows, value });
                }
                None => self.report_damage(&key, "its value is not a slice"),
            }
            bytes < most_bytes
        })?;
        if slices.is_empty() && after.is_none() {
            self.reset_deferred()?;
        }
        Ok(slices)
    }

    pub(super) fn defer(&self, slices: &[(i64, Slice<'_>)]) -> Result<(), SpoolError> {
        let _commits = lock(&self.commits);
        let mut deferred = lock(&self.segments).deferred;
        let mut rows = Vec::with_capacity(slices.len());
        for (timestamp_us, slice) in slices {
            let value = row::value(slice.rows, slice.bytes);
            deferred.add(Sums::of_slice(value.len(), slice.rows), *timestamp_us, *timestamp_us);
            rows.push((Key { segment: DEFERRED, id: slice.id, timestamp_us: *timestamp_us }, Some(value)));
            self.metrics.deferred_rows.add(u64::from(slice.rows));
        }
        self.with("defer slices", |database| database.change(rows, &[(DEFERRED, deferred)]))?;
        lock(&self.segments).deferred = deferred;
        Ok(())
    }

    /// Moves deferred slices that were acknowledged to the retained ones.
    pub(super) fn retain_deferred(&self, slices: &[SpooledSlice]) -> Result<(), SpoolError> {
        let _commits = lock(&self.commits);
        let (mut deferred, at, mut arrived) = {
            let segments = lock(&self.segments);
            let at = segments.collecting;
            (segments.deferred, at, segments.arrived[at])
        };
        let mut rows = Vec::with_capacity(2 * slices.len());
        for slice in slices {
            let sums = Sums::of_slice(slice.value.len(), slice.rows);
            deferred.sums = deferred.sums.minus(sums);
            arrived.add(sums, slice.timestamp_us, slice.timestamp_us);
            let key = |segment| Key { segment, id: slice.id, timestamp_us: slice.timestamp_us };
            rows.push((key(DEFERRED), None));
            rows.push((key(ARRIVED[at]), Some(slice.value.to_vec())));
        }
        if deferred.sums.slices == 0 {
            deferred = Segment::default();
        }
        arrived.acknowledged_ms = Some(self.steady_ms());
        let marks = [(DEFERRED, deferred), (ARRIVED[at], arrived)];
        self.with("retain deferred slices", |database| database.change(rows, &marks))?;
        let mut segments = lock(&self.segments);
        segments.deferred = deferred;
        segments.arrived[at] = arrived;
        Ok(())
    }

    /// Drops the arrived slices of each segment whose slices were all acknowledged before the given time (milliseconds
    /// of the steady clock). The segment that collects new slices is not dropped.
    pub(super) fn drop_arrived(&self, acknowledged_before_ms: i64) -> Result<(), SpoolError> {
        let other = {
            let segments = lock(&self.segments);
            let other = 1 - segments.collecting;
            let segment = segments.arrived[other];
            if segment.acknowledged_ms.is_some_and(|at| at >= acknowledged_before_ms) {
                return Ok(());
            }
            (segment.sums.slices > 0).then_some(other)
        };
        if let Some(at) = other {
            self.with("drop retained slices", |database| database.drop_arrived(ARRIVED[at]))?;
        }
        let _commits = lock(&self.commits);
        let mut segments = lock(&self.segments);
        let collecting = segments.collecting;
        segments.arrived[1 - collecting] = Segment::default();
        if segments.arrived[collecting].sums.slices > 0 {
            segments.collecting = 1 - collecting;
        }
        Ok(())
    }

    /// Resets the sums of the deferred segment, which was found empty. Deletions and replaced slices are
    /// not counted one by one.
    pub(super) fn reset_deferred(&self) -> Result<(), SpoolError> {
        let _commits = lock(&self.commits);
        if std::mem::take(&mut lock(&self.segments).deferred) == Segment::default() {
            return Ok(());
        }
        self.with("reset the deferred segment", |database| {
            database.change(Vec::new(), &[(DEFERRED, Segment::default())])
        })
    }
}
