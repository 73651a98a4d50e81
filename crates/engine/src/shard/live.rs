//! Metrics that come and go by other ways than points: made by other programs, or deleted.

use std::sync::Arc;

use plumbago_journal::JournalWriter;
use plumbago_model::{MetricConfig, MetricId, Window};

use super::{Shard, table_hash};
use crate::head::flag;
use crate::router::NameHash;

/// A metric that is in the metadata.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) hash: NameHash,
    pub(crate) id: MetricId,
    pub(crate) config: Arc<MetricConfig>,
}

impl Shard {
    /// Takes in metrics that are not known yet.
    pub(crate) fn adopt(&mut self, metrics: &[Adopted]) {
        for metric in metrics {
            if self.find(&metric.hash).is_none() {
                self.insert(metric.hash, metric.id, 0, &metric.config, flag::CREATED | flag::MERGE);
            }
        }
    }

    /// True when the metric got a point since then, or is being created.
    pub(crate) fn is_written(&self, hash: &NameHash, since: i64) -> bool {
        let Some(at) = self.find(hash) else { return false };
        let head = &self.heads[at];
        if !head.is(flag::CREATED) || head.is(flag::IN_FLIGHT | flag::STALE | flag::WAITS) {
            return true;
        }
        if head.is(flag::NEW) {
            return head.segment != 0;
        }
        let resolution = i64::from(self.plans[usize::from(head.config)].raw.resolution);
        i64::from(head.newest) * resolution >= since
    }

    /// Forgets a metric that got no point since then and holds none; false when it must stay. The next
    /// metric gets its head, but not its number: old records of the journal must not mean another metric.
    pub(crate) fn forget(&mut self, hash: &NameHash, since: i64, writer: &mut JournalWriter) -> bool {
        let Some(at) = self.find(hash) else { return true };
        let head = &self.heads[at];
        if self.is_written(hash, since) || head.is(flag::DUE) || head.segment != 0 || !head.is_empty() {
            return false;
        }
        if head.number != 0 {
            self.sequence = writer.removal(head.number);
        }
        self.vacate(at);
        true
    }

    pub(super) fn clear_windows(&mut self, at: u32) {
        let head = &self.heads[at];
        for k in 0..self.plans[usize::from(head.config)].coarse() as u32 {
            self.windows[head.windows + k] = Window::default();
        }
    }

    /// Takes the name off a head that holds nothing, so that the next metric may have it.
    pub(super) fn vacate(&mut self, at: u32) {
        let hash = table_hash(&self.heads[at].hash);
        if let Ok(entry) = self.table.find_entry(hash, |found| *found == at) {
            entry.remove();
        }
        self.clear_windows(at);
        (self.heads[at].number, self.heads[at].segment) = (0, 0);
        self.heads[at].flags = flag::NEW | flag::VACANT;
        let coarse = self.plans[usize::from(self.heads[at].config)].coarse();
        if self.limits.at_intervals {
            self.unwritten_from[at] = 0;
        }
        self.vacant.entry(coarse).or_default().push(at);
    }
}
