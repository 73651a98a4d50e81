//! The heads of metrics whose history is being stored, and the changes to them afterwards.
//!
//! While a history is stored, its metric is treated like one with late points in flight: no flush of it is
//! built, so its base does not change, and late points wait. New points still go into its head.

use std::borrow::Cow;
use std::sync::Arc;

use plumbago_model::{MetricConfig, MetricId, Window};

use super::Shard;
use crate::router::NameHash;
use crate::shard::downsample::MetricLayout;
use crate::shard::head::{OCTET, Pairs};
use crate::shard::head_state::{Late, LateEvent, mark};
use crate::shard::state_row::State;
use crate::shard::{ALLOWANCE, ApplyContext};

/// A metric whose history is about to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    pub(crate) hash: NameHash,
    /// The start of the slot after the last one of the history, in seconds since the epoch.
    pub(crate) until: u32,
    /// Whether to return the content without blocking the metric.
    pub(crate) dry_run: bool,
}

/// The answer to a [`Begin`].
#[derive(Debug)]
pub(crate) enum Begun {
    /// The metric has no head.
    Unknown,
    /// The metric is being created, flushed or changed. The caller has to ask again.
    Busy,
    /// No flush is built until [`Shard::end_import`].
    Ready(Box<ImportHead>),
}

/// The content of a head.
#[derive(Debug)]
pub(crate) struct ImportHead {
    pub(crate) at: u32,
    pub(crate) id: MetricId,
    pub(crate) layout: Arc<MetricLayout>,
    /// The store has the slots before this one, or will have them; the head has the slots from this one on.
    pub(crate) base: u32,
    /// Held slots. None of them is before the base.
    pub(crate) pairs: Pairs,
    /// The open windows, and the slot up to which they are folded. This is the base, unless the base was
    /// moved.
    pub(crate) open: Vec<Window>,
    pub(crate) open_at: u32,
    /// The state row, except for the open windows.
    pub(crate) state: State<'static>,
    /// The number of points that were dropped because their range is deleted.
    pub(crate) dropped: u64,
    /// Whether its state row was lost and it has got no point since then. It has no open windows in that
    /// case.
    pub(crate) is_refolded: bool,
}

/// The changes to a head after a history was stored, or after this failed.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) at: u32,
    pub(crate) name: Arc<str>,
    /// The open windows; `None` if they stay as they are.
    pub(crate) open: Option<Vec<Window>>,
    /// Slots of the history to put into the head, unless the head already has them.
    pub(crate) fill: Pairs,
    /// New settings.
    pub(crate) config: Option<Arc<MetricConfig>>,
}

impl Shard {
    /// Returns the content of a head, and keeps the head from being flushed. If the head holds no slots, its
    /// base moves to the end of the history.
    pub(crate) fn begin_import(&mut self, begin: &Begin) -> Begun {
        if self.deletions.contains(&begin.hash) {
            return Begun::Busy;
        }
        let Some(at) = self.find(&begin.hash) else { return Begun::Unknown };
        let head = &self.heads[at];
        let is_quiet =
            head.state.is_created() && !head.state.is_flushing() && head.state.late() == Late::None;
        if !is_quiet || self.late.is_in_flight(at) {
            return Begun::Busy;
        }
        let raw = self.layouts[usize::from(head.config)].raw;
        let open_at = if head.is(mark::PLACED) { head.base } else { 0 };
        if !begin.dry_run {
            self.block_flushes(at);
        }
        let base = self.base_after(at, raw.slot(begin.until), begin.dry_run);
        Begun::Ready(Box::new(self.import_head(at, base, open_at)))
    }

    /// Keeps a head from being flushed until [`Shard::end_import`].
    pub(super) fn block_flushes(&mut self, at: u32) {
        self.heads[at].state.on_late(LateEvent::Arrive);
        self.late.begin_import(at);
    }

    /// Returns the content of a head. The store has the slots before `base`; the open windows include those before
    /// `open_at`.
    pub(super) fn import_head(&mut self, at: u32, base: u32, open_at: u32) -> ImportHead {
        let layout = Arc::clone(&self.layouts[usize::from(self.heads[at].config)]);
        let open = self.open(&self.heads[at]);
        let mut pairs = Pairs::new();
        let head = &self.heads[at];
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        let sequence = self.sequence;
        let mut state = State {
            number: head.number,
            sequence,
            base,
            newest: if head.is(mark::PLACED) { head.newest.max(base) } else { 0 },
            resolution: layout.raw.resolution,
            open: Vec::new(),
            resolutions: self.resolutions(&layout),
            future: self.future_of(at, sequence),
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [f64::NAN; OCTET as usize],
        };
        state.hold(&pairs, &mut self.scratch);
        let id = self.heads[at].id;
        ImportHead { at, id, layout, base, pairs, open, open_at, state, dropped: 0, is_refolded: false }
    }

    /// The base of a head for a history that ends before slot `until`.
    fn base_after(&mut self, at: u32, until: u32, dry_run: bool) -> u32 {
        let head = &mut self.heads[at];
        let (is_placed, is_empty) = (head.is(mark::PLACED), head.is_empty());
        if is_placed && !(is_empty && until > head.base) {
            return head.base;
        }
        if !dry_run {
            head.set(mark::PLACED | mark::MERGE);
            head.clear(mark::REFOLD);
            (head.base, head.newest) = (until, head.newest.max(until));
            if self.limits.at_intervals {
                self.unwritten_from[at] = until;
            }
        }
        until
    }

    /// Applies the changes from storing histories. After this, the heads may be flushed again.
    pub(crate) fn end_import(&mut self, ends: Vec<End>, context: &mut ApplyContext<'_>) {
        for end in ends {
            self.late.end_import(end.at);
            if let Some(config) = &end.config {
                self.change_settings(end.at, config, context.now);
            }
            if let Some(open) = &end.open {
                let windows = self.heads[end.at].windows;
                for (k, window) in open.iter().enumerate() {
                    self.windows[windows + k as u32] = *window;
                }
            }
            self.end_late(end.at);
            self.fill(&end, context);
        }
    }

    /// Puts slots of a history into a head, except those that the head already has.
    fn fill(&mut self, end: &End, context: &mut ApplyContext<'_>) {
        if end.fill.is_empty() {
            return;
        }
        if self.heads[end.at].number == 0 && !self.assign_number(end.at, &end.name, context) {
            return;
        }
        let mut known = Pairs::new();
        self.heads[end.at].pairs(&self.pool, &mut self.scratch, &mut known);
        let raw = self.layouts[usize::from(self.heads[end.at].config)].raw;
        let ahead = raw.slot(u32::try_from(context.now).unwrap_or(u32::MAX)).saturating_add(ALLOWANCE);
        for (slot, value) in &end.fill {
            if *slot > ahead || known.binary_search_by_key(slot, |(slot, _)| *slot).is_ok() {
                continue;
            }
            let number = self.heads[end.at].number;
            self.sequence = context.writer.point(number, slot.saturating_mul(raw.resolution), *value);
            let head = &mut self.heads[end.at];
            if head.segment == 0 {
                head.segment = context.writer.segment();
            }
            self.ledger.received += 1;
            self.put(end.at, *slot, *value, context.now);
        }
    }
}
