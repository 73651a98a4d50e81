//! Metrics that other programs create, and metrics that are deleted.

use std::sync::Arc;

use plumbago_journal::JournalWriter;
use plumbago_model::{MetricConfig, MetricId, Window};

use super::{ALLOWANCE, ApplyContext, Shard, table_hash};
use crate::quotas::Places;
use crate::router::NameHash;
use crate::shard::creation::Created;
use crate::shard::head::Pairs;
use crate::shard::head_state::{LifeEvent, mark};

/// A metric that another program created in the metadata store.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) hash: NameHash,
    pub(crate) id: MetricId,
    pub(crate) config: Arc<MetricConfig>,
    /// The accounts of the quotas that count it.
    pub(crate) places: Places,
}

impl Shard {
    /// Adds the metrics that have no head yet. The other metrics get the new settings if the stored values
    /// can be read with them.
    pub(crate) fn adopt(&mut self, metrics: Vec<Adopted>) {
        for metric in metrics {
            if let Some(at) = self.find(&metric.hash) {
                self.configure(at, &metric.config);
            } else if !self.deletions.contains(&metric.hash) {
                let at = self.insert(metric.hash, metric.id, 0, &metric.config, LifeEvent::InsertKnown);
                self.enter_quotas(at, metric.places);
            }
        }
    }

    /// Gives a metric other settings. Its open windows and its flushes in flight continue. If the new settings
    /// fold windows in another way, they take effect only after a restart.
    fn configure(&mut self, at: u32, config: &Arc<MetricConfig>) {
        let known = &self.layouts[usize::from(self.heads[at].config)].config;
        if *known != *config && config.reads_what_was_stored_with(known) {
            self.heads[at].config = self.layout(config);
        }
    }

    /// Notes that a metric is in the metadata store. From now on its points go to the store.
    pub(crate) fn created(&mut self, created: &Created, context: &mut ApplyContext<'_>) {
        if let Some(config) = &created.stored {
            self.begin_again(created.at, config, context);
        }
        self.heads[created.at].state.on_life(LifeEvent::Create);
    }

    /// Gives other settings to a metric of which nothing is stored yet. Its points move to the slots of the
    /// new settings. If several points get the same slot, the last one is kept.
    fn begin_again(&mut self, at: u32, config: &Arc<MetricConfig>, context: &mut ApplyContext<'_>) {
        let old = self.layouts[usize::from(self.heads[at].config)].raw;
        let mut pairs = Pairs::new();
        let head = &mut self.heads[at];
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        head.refill(&mut self.pool, &mut self.scratch, &[]);
        self.change_settings(at, config, context.now);
        self.clear_windows(at);
        let raw = self.layouts[usize::from(self.heads[at].config)].raw;
        let head = &mut self.heads[at];
        if head.is(mark::PLACED) {
            // All late points stay before the base.
            let base = u64::from(head.base) * u64::from(old.resolution);
            head.base = u32::try_from(base.div_ceil(u64::from(raw.resolution))).unwrap_or(u32::MAX);
            head.newest = head.base;
            head.set(mark::MERGE);
        }
        for (slot, value) in pairs {
            let timestamp = slot.saturating_mul(old.resolution);
            let age = context.now - i64::from(timestamp);
            let reach = -i64::from(ALLOWANCE * raw.resolution)..=raw.duration() as i64;
            self.ledger.held -= 1;
            if self.heads[at].is_late(raw.slot(timestamp)) || !reach.contains(&age) {
                // Such points go to the store as late or future points, so they need journal records of their
                // own.
                self.accept(at, timestamp, value, context);
            } else {
                self.put(at, raw.slot(timestamp), value, context.now);
            }
        }
    }

    /// The settings in the head of a metric.
    pub(crate) fn settings(&self, hash: &NameHash) -> Option<Arc<MetricConfig>> {
        let head = &self.heads[self.find(hash)?];
        Some(Arc::clone(&self.layouts[usize::from(head.config)].config))
    }

    /// Gives a metric other settings. Its raw resolution stays the same, so the slots in its head stay valid.
    /// The caller sets the open windows.
    pub(super) fn change_settings(&mut self, at: u32, config: &Arc<MetricConfig>, now: i64) {
        let had = self.layouts[usize::from(self.heads[at].config)].coarse();
        let index = self.layout(config);
        let layout = Arc::clone(&self.layouts[usize::from(index)]);
        if layout.coarse() > had {
            self.heads[at].windows = self.windows.len() as u32;
            for _ in 0..layout.coarse() {
                self.windows.push(Window::default());
            }
        }
        self.heads[at].config = index;
        // A new raw stage lacks the slots that were stored earlier and are still in the head.
        self.heads[at].set(mark::REWRITE);
        self.late.change_layout(at, &layout, now);
    }

    /// Whether the metric got a point since `since` (seconds since the epoch), holds a point that is not
    /// stored, or is being created.
    pub(crate) fn is_written(&self, hash: &NameHash, since: i64) -> bool {
        let Some(at) = self.find(hash) else { return false };
        let head = &self.heads[at];
        if !head.state.is_created() || head.is_needed() {
            return true;
        }
        if !head.is(mark::PLACED) {
            return head.segment != 0;
        }
        let resolution = i64::from(self.layouts[usize::from(head.config)].raw.resolution);
        i64::from(head.newest) * resolution >= since
    }

    /// Whether the metric may have points in a range of time (seconds since the epoch, both ends included);
    /// `None` if its head does not show this. A flush of the whole head moves its newest slot forward, so the
    /// answer may stay true for some time after the last point.
    pub(crate) fn may_have_points(
        &self,
        hash: &NameHash,
        (from, until): (i64, i64),
        now: i64,
    ) -> Option<bool> {
        let head = &self.heads[self.find(hash)?];
        let layout = &self.layouts[usize::from(head.config)];
        if until < now.saturating_sub_unsigned(layout.config.retention.duration()) {
            return Some(false);
        }
        if !head.state.is_created() || head.is_needed() {
            return Some(true);
        }
        if !head.is(mark::PLACED) {
            return (head.segment != 0).then_some(true);
        }
        let end = (i64::from(head.newest) + 1) * i64::from(layout.raw.resolution);
        Some(end > from)
    }

    /// The time (seconds since the epoch) before which the windows of the metric are closed. The head stores
    /// none of them again, except for late points.
    pub(crate) fn closed_until(&self, hash: &NameHash) -> i64 {
        let Some(at) = self.find(hash) else { return i64::MAX };
        let head = &self.heads[at];
        if !head.is(mark::PLACED) {
            return if head.segment == 0 { i64::MAX } else { 0 };
        }
        let resolution = self.layouts[usize::from(head.config)].raw.resolution;
        let is_at_rest = head.is_empty() && head.segment == 0;
        if is_at_rest && self.open(head).iter().all(|window| window.count == 0) {
            return i64::MAX;
        }
        i64::from(head.base) * i64::from(resolution)
    }

    /// Forgets a metric that got no point since `since` and holds none. Returns `false` when it must stay. A
    /// later metric may get its head, but not its number, because the journal still has records with that
    /// number.
    pub(crate) fn forget(&mut self, hash: &NameHash, since: i64, writer: &mut JournalWriter) -> bool {
        let Some(at) = self.find(hash) else { return true };
        let head = &self.heads[at];
        let is_needed = head.segment != 0 || !head.holds_nothing();
        if self.is_written(hash, since) || is_needed || head.is(mark::DUE) {
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
        for k in 0..self.layouts[usize::from(head.config)].coarse() as u32 {
            self.windows[head.windows + k] = Window::default();
        }
    }

    /// Removes a metric whose head holds nothing. The head can then be given to another metric.
    pub(super) fn vacate(&mut self, at: u32) {
        let hash = table_hash(&self.heads[at].hash);
        if let Ok(entry) = self.table.find_entry(hash, |found| *found == at) {
            entry.remove();
        }
        self.clear_windows(at);
        self.leave_quotas(at);
        (self.heads[at].number, self.heads[at].segment) = (0, 0);
        self.heads[at].state.on_life(LifeEvent::Vacate);
        let coarse = self.layouts[usize::from(self.heads[at].config)].coarse();
        if self.limits.at_intervals {
            self.unwritten_from[at] = 0;
        }
        self.vacant.entry(coarse).or_default().push(at);
    }
}
