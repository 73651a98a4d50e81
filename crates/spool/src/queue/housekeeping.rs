//! Housekeeping: free space, expiry, and opening again after a failure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::lock;
use super::segment::Segment;
use super::shared::{self, Shared};
use crate::SpoolError;
use plumbago_fjall_host::{HostError, space};

/// The steps in which a commit waits for a slow disk, and the longest wait. After that it is refused.
const STALL_STEP: Duration = Duration::from_millis(5);
const STALL_STEPS: u32 = 200;

/// Retained slices that are not released yet expire only if all slices take more than this fraction of the
/// limit: one half. The rest is for new commits, all of which may be pending when an unreachable server
/// returns.
const HELD_PART: u64 = 2;

/// How long slices are retained if the settings do not say: a server without a commit log may lose what it
/// acknowledged up to 15 minutes ago, until it writes its memtables; one with a log syncs it every 10 s.
const RETAIN: Duration = Duration::from_secs(20 * 60);
const RETAIN_DURABLE: Duration = Duration::from_secs(60);

/// The shortest time between two drops, each of which costs a few syncs.
const DROP_EVERY_MS: i64 = 15_000;

impl Shared {
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), SpoolError> {
        let least = self.config.min_free_bytes;
        if bytes > 0
            && let Some(free) = space::free_at(&self.dir)
            && free < least.saturating_add(bytes)
        {
            let reason =
                format!("{} has {free} bytes left, and spool.min_free_bytes is {least}", self.dir.display());
            return Err(SpoolError::unavailable(reason));
        }
        let wanted = |held: u64| held.saturating_add(bytes) > self.max_bytes;
        if bytes > 0 && wanted(lock(&self.segments).held_bytes()) {
            self.drop_retained_for(bytes)?;
            let held_bytes = lock(&self.segments).held_bytes();
            if wanted(held_bytes) {
                return Err(SpoolError::Full { held_bytes, max_bytes: self.max_bytes });
            }
        }
        Ok(())
    }

    /// Waits while fjall is behind with writing memtables, up to a limit.
    pub(super) fn await_disk(&self) -> Result<(), SpoolError> {
        for _ in 0..STALL_STEPS {
            if !self.host.get()?.is_stalled() {
                return Ok(());
            }
            std::thread::sleep(STALL_STEP);
        }
        Err(SpoolError::unavailable("the disk is too slow: rows were not written to tables in time"))
    }

    /// Whether retained slices have to expire although a server may have lost them.
    fn must_expire(&self) -> bool {
        lock(&self.segments).held_bytes() > self.max_bytes / HELD_PART
    }

    /// Drops segments that were retained for long enough.
    fn drop_expired(&self) -> Result<(), SpoolError> {
        let now_ms = self.steady_ms();
        {
            let mut dropped_ms = lock(&self.dropped_ms);
            if (0..DROP_EVERY_MS).contains(&now_ms.saturating_sub(*dropped_ms)) {
                return Ok(());
            }
            *dropped_ms = now_ms;
        }
        let must_expire = self.must_expire();
        let until_ms =
            if must_expire { now_ms } else { now_ms.min(self.released_ms.load(Ordering::Relaxed)) };
        let retain_ms = i64::try_from(self.retain().as_millis()).unwrap_or(i64::MAX);
        let expired_ms = until_ms.saturating_sub(retain_ms);
        let keep = {
            let resend = lock(&self.resend);
            let needs = |number| !must_expire && resend.needs(number);
            lock(&self.segments).keep_from(expired_ms, needs)
        };
        self.drop_before(keep)?;
        if must_expire || lock(&self.resend).is_idle() { self.drop_arrived(expired_ms) } else { Ok(()) }
    }

    /// How long slices are retained.
    fn retain(&self) -> Duration {
        let is_durable = self.is_durable.load(Ordering::Relaxed);
        self.config.retain.unwrap_or(if is_durable { RETAIN_DURABLE } else { RETAIN })
    }

    /// Makes room for a commit by dropping retained segments, oldest first.
    fn drop_retained_for(&self, bytes: u64) -> Result<(), SpoolError> {
        let (keep, freed) = {
            let segments = lock(&self.segments);
            let mut held = segments.held_bytes();
            let before = held;
            let mut keep = segments.all.keys().next().copied().unwrap_or(segments.sending);
            for (number, segment) in segments.all.range(..segments.sending) {
                if held.saturating_add(bytes) <= self.max_bytes {
                    break;
                }
                held -= segment.sums.bytes;
                keep = number + 1;
            }
            (keep, before - held)
        };
        self.metrics.dropped_early.add(freed);
        self.drop_before(keep)
    }

    fn drop_before(&self, number: u32) -> Result<(), SpoolError> {
        let dropped = {
            let mut segments = lock(&self.segments);
            let kept = segments.all.split_off(&number);
            std::mem::replace(&mut segments.all, kept)
        };
        if dropped.is_empty() {
            return Ok(());
        }
        self.with("drop segments", |database| database.drop_before(number, dropped.into_keys()))
    }

    fn open_again(&self) {
        if !self.host.is_broken() {
            return;
        }
        // No commit may come between reading the marks and using them.
        let last_us = lock(&self.commits);
        match shared::open(&self.host, self.config.memtable_bytes) {
            Ok((marks, _)) => {
                // A refused commit may nevertheless have reached the log.
                let (number, found) = marks.newest;
                let mut segments = lock(&self.segments);
                if let Some(segment) = segments.all.get_mut(&number) {
                    *segment = Segment { acknowledged_ms: segment.acknowledged_ms, ..found };
                } else if number == segments.open && found.sums.slices > 0 {
                    segments.all.insert(number, found);
                }
                drop(segments);
                drop(last_us);
                self.clear_trouble();
            }
            Err(error) => {
                self.set_trouble(&error);
                if self.refusals.pass(self.clock.now_ms()).is_some() {
                    tracing::error!(dir = %self.dir.display(), %error, "the spool could not be reopened; retrying");
                }
            }
        }
    }

    /// Keeps the reason of a failure for [`Shared::trouble`].
    pub(super) fn note_failure(&self, error: HostError) -> SpoolError {
        let error = SpoolError::from(error);
        if !matches!(error, SpoolError::Closed) {
            self.set_trouble(&error);
        }
        error
    }

    pub(super) fn note_refusal(&self, error: &SpoolError) {
        self.metrics.refused.add(1);
        self.set_trouble(error);
        if let Some(suppressed) = self.refusals.pass(self.clock.now_ms()) {
            tracing::error!(dir = %self.dir.display(), %error, suppressed, "the spool refused a commit; the commit is retried");
        }
    }

    fn set_trouble(&self, error: &SpoolError) {
        *lock(&self.trouble) = Some(error.to_string());
        self.metrics.healthy.set(0.0);
    }

    pub(super) fn clear_trouble(&self) {
        if lock(&self.trouble).take().is_some() {
            self.metrics.healthy.set(1.0);
            tracing::info!(dir = %self.dir.display(), "the spool accepts commits again");
        }
    }

    pub(super) fn show(&self) {
        let stats = self.stats();
        self.metrics.pending_bytes.set(stats.pending_bytes as f64);
        self.metrics.pending_rows.set(stats.pending_rows as f64);
        self.metrics.retained_bytes.set(stats.retained_bytes as f64);
        self.metrics.resend_bytes.set(stats.resend_bytes as f64);
        self.metrics.segments.set(lock(&self.segments).all.len() as f64);
        self.metrics.oldest_seconds.set(stats.oldest.map_or(0.0, |oldest| oldest.as_secs_f64()));
        self.metrics.healthy.set(if self.trouble().is_none() { 1.0 } else { 0.0 });
    }
}

impl Shared {
    /// One run of the background thread.
    pub(super) fn housekeeping(&self) {
        self.open_again();
        // Failures are logged and counted where they occur.
        let _ = self.drop_expired();
        self.show();
    }
}
