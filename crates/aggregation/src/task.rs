//! The task that computes buffers when they are due, and keeps the log short.

use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::PointBatch;
use tokio_util::sync::CancellationToken;

use crate::aggregation::Aggregation;
use crate::buffers::{Closing, Computed};

/// The pause between two checks for due buffers.
const TICK: Duration = Duration::from_millis(100);
/// The most buffers that are computed or written to the log in one go; no points can be taken meanwhile.
const AT_ONCE: usize = 1000;

/// Receives the points that the rules make.
#[boxed_futures]
pub trait Derived: Send + Sync + 'static {
    /// Accepts points, and waits while there is no room. Returns false once no more points will be accepted.
    async fn push(&self, batch: PointBatch) -> bool;

    /// Waits until a kill cannot lose the points that were pushed before. Returns false if this will never be the case.
    async fn wait_written(&self) -> bool;
}

impl Aggregation {
    /// Computes buffers when they are due, until `stop`. Then computes every buffer once more; intervals that are still
    /// open stay in the log for the next start.
    pub async fn run(self, derived: impl Derived, stop: CancellationToken) {
        let mut chores =
            Chores { aggregation: self, derived, written_bytes: 0, last_ms: i64::MIN, is_first: true };
        while stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
            if !chores.tick().await {
                return;
            }
        }
        chores.aggregation.0.state().buffers.make_due(chores.aggregation.0.clock.now_ms());
        chores.compute().await;
    }
}

struct Chores<D> {
    aggregation: Aggregation,
    derived: D,
    /// The size of the log in bytes after its last rewrite.
    written_bytes: u64,
    /// The time of the last tick.
    last_ms: i64,
    is_first: bool,
}

impl<D: Derived> Chores<D> {
    /// Returns false if nothing more can be done.
    async fn tick(&mut self) -> bool {
        let now_ms = self.aggregation.0.clock.now_ms();
        if now_ms < self.last_ms {
            // The clock was set back. Otherwise a buffer that was due a moment ago would wait until the clock
            // reaches that time again.
            self.aggregation.0.state().buffers.make_due(now_ms);
        }
        self.last_ms = now_ms;
        if !self.compute().await {
            return false;
        }
        self.tend_log().await;
        true
    }

    /// Computes what is due. Returns false if nothing more can be done.
    async fn compute(&self) -> bool {
        let inner = &*self.aggregation.0;
        loop {
            let Computed { points, closing, nan, more } = {
                let mut state = inner.state();
                let limits = state.active.limits;
                state.buffers.compute(inner.clock.now_ms(), &limits, AT_ONCE)
            };
            inner.stats.nan.add(nan);
            if !points.is_empty() {
                let count = points.len() as u64;
                if !self.derived.push(points).await {
                    return false;
                }
                inner.stats.derived.add(count);
            }
            if !closing.is_empty() && !self.close(&closing).await {
                return false;
            }
            if !more {
                return true;
            }
        }
    }

    /// Closes intervals once their last value is safe. Returns false if nothing more can be done.
    async fn close(&self, closing: &[Closing]) -> bool {
        if !self.derived.wait_written().await {
            return false;
        }
        let mut state = self.aggregation.0.state();
        // A broken log cannot record that intervals were closed, so they stay open. If they were closed, a
        // restart would restore them with only a part of their values.
        if !state.buffers.log.is_broken() {
            state.buffers.close(closing);
            state.write_out();
        }
        true
    }

    /// Rewrites the log after the start, when it has grown, and after the disk accepted no records for a long
    /// time.
    async fn tend_log(&mut self) {
        let inner = &*self.aggregation.0;
        {
            let mut state = inner.state();
            if state.buffers.log.is_broken() {
                if !state.buffers.log.begin_again() {
                    return;
                }
                state.buffers.forget_log();
                self.is_first = true;
            }
            // Needed even if there are no records: it switches to the current segment for new records.
            state.write_out();
        }
        let segments = inner.journal.segments();
        let bytes = segments.iter().map(|segment| segment.bytes).sum();
        let (segment, is_long, is_empty) = {
            let state = inner.state();
            let buffers = &state.buffers;
            let is_long = buffers.log_is_long(bytes, self.written_bytes);
            (buffers.log.segment(), is_long, buffers.open() == 0)
        };
        let is_old = segments.first().is_some_and(|first| first.number < segment);
        if is_old && (is_long || self.is_first || is_empty) {
            self.rewrite(segment).await;
        }
    }

    /// Writes everything that is only in segments before `segment` to the log again, and drops these segments.
    async fn rewrite(&mut self, segment: u32) {
        let inner = &*self.aggregation.0;
        let rewrite = |number| {
            let mut state = inner.state();
            let next = state.buffers.rewrite(number, AT_ONCE, segment);
            state.write_out();
            state.trouble.is_none().then_some(next)
        };
        let mut from = 0;
        loop {
            match rewrite(from) {
                Some(Some(next)) => from = next,
                Some(None) => break,
                // The log is broken because the disk accepts no records.
                None => return,
            }
            tokio::task::yield_now().await;
        }
        let journal = inner.journal.clone();
        let dropped = tokio::task::spawn_blocking(move || {
            journal.sync()?;
            journal.drop_before(segment)
        });
        match dropped.await {
            Ok(Ok(_)) => {
                self.is_first = false;
                inner.state().buffers.note_rewritten();
                self.written_bytes = inner.journal.segments().iter().map(|segment| segment.bytes).sum();
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot shorten the log of open intervals; it grows until a later attempt succeeds");
            }
            Err(error) => {
                tracing::error!(%error, "the task that shortens the log of open intervals ended unexpectedly");
            }
        }
    }
}
