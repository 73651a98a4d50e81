//! Keeping house: room, what is dropped, and opening again after a failure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::SpoolError;
use super::database::Database;
use super::segment::Segment;
use super::shared::{Held, Shared};
use crate::background::Chores;
use crate::{lock, space};

/// How long a commit waits for a slow disk before it is refused.
const STALL_STEP: Duration = Duration::from_millis(5);
const STALL_STEPS: u32 = 200;

/// What is held while a server is away takes no more than this part of the ceiling: once the server is
/// back all of it waits, and new commits need room meanwhile.
const HELD_PART: u64 = 2;

/// Dropping costs a few syncs, so not for every segment.
const DROP_EVERY_MS: i64 = 15_000;

impl Shared {
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), SpoolError> {
        let least = self.config.min_free_bytes;
        if bytes > 0
            && let Some(free) = space::free_at(&self.dir)
            && free < least.saturating_add(bytes)
        {
            let reason = format!("{} has {free} bytes left, least are {least}", self.dir.display());
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

    /// Waits a little while fjall is behind with writing memtables.
    pub(super) fn await_disk(&self) -> Result<(), SpoolError> {
        for _ in 0..STALL_STEPS {
            if !self.read().get()?.is_stalled() {
                return Ok(());
            }
            std::thread::sleep(STALL_STEP);
        }
        Err(SpoolError::unavailable("the disk is behind with writing"))
    }

    /// True while what is retained does not expire.
    fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed) && lock(&self.segments).held_bytes() <= self.max_bytes / HELD_PART
    }

    /// Drops what was retained for long enough.
    fn drop_expired(&self) -> Result<(), SpoolError> {
        if self.holds() {
            return Ok(());
        }
        let now_ms = self.clock.now_ms();
        {
            let mut dropped_ms = lock(&self.dropped_ms);
            if (0..DROP_EVERY_MS).contains(&now_ms.saturating_sub(*dropped_ms)) {
                return Ok(());
            }
            *dropped_ms = now_ms;
        }
        let retain_ms = i64::try_from(self.config.retain.as_millis()).unwrap_or(i64::MAX);
        let keep = lock(&self.segments).keep_from(now_ms.saturating_sub(retain_ms));
        self.drop_before(keep)
    }

    /// Makes room for a commit at the cost of what is only retained, oldest first.
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

    /// Lets a database go that fjall has given up; the background thread opens it again.
    pub(super) fn break_down(&self, operation: &str, error: &fjall::Error) -> SpoolError {
        let mut database = self.write();
        if matches!(*database, Held::Open(_)) {
            *database = Held::Broken;
            tracing::error!(dir = %self.dir.display(), operation, %error, "spool write failed, opening it again");
        }
        drop(database);
        let error = SpoolError::unavailable(format!("failed to {operation}: {error}"));
        self.set_trouble(&error);
        error
    }

    fn open_again(&self) {
        if !matches!(*self.read(), Held::Broken) {
            return;
        }
        let last_us = lock(&self.commits);
        let opened = Database::open(&self.dir)
            .map_err(SpoolError::Open)
            .and_then(|(database, repaired)| Ok((database.marks()?, database, repaired)));
        match opened {
            Ok((marks, database, repaired)) => {
                self.metrics.reopened.add(1);
                self.metrics.torn_tails.add(u64::from(repaired.is_some()));
                // A commit that was refused may have reached the log all the same.
                let (number, found) = marks.newest;
                let mut segments = lock(&self.segments);
                if let Some(segment) = segments.all.get_mut(&number) {
                    *segment = Segment { acknowledged_ms: segment.acknowledged_ms, ..found };
                } else if number == segments.open && found.sums.slices > 0 {
                    segments.all.insert(number, found);
                }
                drop(segments);
                *self.write() = Held::Open(database);
                drop(last_us);
                self.clear_trouble();
            }
            Err(error) => {
                self.set_trouble(&error);
                if self.refusals.pass(self.clock.now_ms()).is_some() {
                    tracing::error!(dir = %self.dir.display(), %error, "spool cannot be opened again yet");
                }
            }
        }
    }

    pub(super) fn poison(&self, error: &fjall::Error) -> SpoolError {
        let reason = error.to_string();
        *self.write() = Held::Poisoned(reason.clone());
        tracing::error!(
            dir = %self.dir.display(), %error,
            "spool sync failed: rows since the last sync may be lost in a crash, no more are taken until a restart"
        );
        let error = SpoolError::Poisoned { reason };
        self.set_trouble(&error);
        error
    }

    pub(super) fn note_refusal(&self, error: &SpoolError) {
        self.metrics.refused.add(1);
        self.set_trouble(error);
        if let Some(held_back) = self.refusals.pass(self.clock.now_ms()) {
            tracing::error!(dir = %self.dir.display(), %error, held_back, "spool refused a commit");
        }
    }

    fn set_trouble(&self, error: &SpoolError) {
        *lock(&self.trouble) = Some(error.to_string());
        self.metrics.healthy.set(0.0);
    }

    pub(super) fn clear_trouble(&self) {
        if lock(&self.trouble).take().is_some() {
            self.metrics.healthy.set(1.0);
            tracing::info!(dir = %self.dir.display(), "spool takes commits again");
        }
    }

    pub(super) fn show(&self) {
        let stats = self.stats();
        self.metrics.unsent_bytes.set(stats.unsent_bytes as f64);
        self.metrics.unsent_rows.set(stats.unsent_rows as f64);
        self.metrics.retained_bytes.set(stats.retained_bytes as f64);
        self.metrics.segments.set(lock(&self.segments).all.len() as f64);
        self.metrics.oldest_seconds.set(stats.oldest.map_or(0.0, |oldest| oldest.as_secs_f64()));
        self.metrics.healthy.set(if self.trouble().is_none() { 1.0 } else { 0.0 });
    }
}

impl Chores for Shared {
    fn sync(&self) {
        let _ = Self::sync(self);
    }

    fn care(&self) {
        self.open_again();
        // Failures are noted by what fails.
        let _ = self.drop_expired();
        self.show();
    }
}
