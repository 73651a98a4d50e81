//! Scheduled maintenance: drops expired buckets, merges buckets, and keeps fjall's logs short.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fjall::AbstractTree;
use plumbago_fjall_host::space;
use plumbago_store::{ErrorKind, StoreError};

use crate::EmbeddedStore;
use crate::catalogue::{Bucket, Kind, StageBuckets};
use crate::errors::write_error;
use crate::locks::{lock, read};
use crate::merge::{Merged, merge};
use crate::open::Open;
use crate::shared::Core;

/// Size of all logs in bytes from which all keyspaces are flushed. fjall drops a log only when every keyspace
/// has written its rows in that log to tables. A keyspace with few writes never does this by itself.
const LOG_BYTES_MAX: u64 = 128 << 20;

/// A closed bucket is merged when nothing was written to it for this many seconds.
const QUIET: i64 = 600;
/// A closed bucket is merged after this many seconds even if there were writes.
const PATIENCE: i64 = 6 * 3600;
const DAY: i64 = 86_400;

/// A bucket that is still filling can be merged once its oldest fresh layer has existed for this many slots,
/// and for at least a day.
const OPEN_WINDOWS: i64 = 24;

/// Result of [`EmbeddedStore::maintain`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Number of buckets that were dropped because their retention had passed.
    pub expired_buckets: u64,
    /// Number of buckets that were rewritten with long blocks.
    pub merged_buckets: u64,
    /// Number of points in merged buckets.
    pub merged_points: u64,
    /// Size of the merged buckets' tables before the merge, in bytes.
    pub bytes_before: u64,
    /// Size of the merged buckets' tables after the merge, in bytes.
    pub bytes_after: u64,
    /// Number of buckets that could not be merged; the log contains the reasons.
    pub failed_buckets: u64,
}

/// Progress of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Number of buckets that were merged before this one.
    pub buckets_done: u64,
    /// Number of buckets to merge in this run.
    pub buckets: u64,
    /// Number of metrics of this bucket that were merged so far.
    pub metrics: u64,
    /// Number of points of this bucket that were merged so far.
    pub points: u64,
}

impl EmbeddedStore {
    /// Drops expired buckets and merges those that are due. The call blocks for a long time if a day of many
    /// metrics is merged; reads and commits continue meanwhile. Calls `progress` from time to time, and stops
    /// when it returns `false`.
    ///
    /// # Errors
    /// If the database cannot be read or written. A bucket that cannot be merged is only counted in the report.
    pub fn maintain(&self, progress: &mut dyn FnMut(&Step) -> bool) -> Result<Report, StoreError> {
        self.run(false, progress)
    }

    /// Like [`EmbeddedStore::maintain`], but merges every bucket that has fresh rows, due or not.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn merge_all(&self, progress: &mut dyn FnMut(&Step) -> bool) -> Result<Report, StoreError> {
        self.run(true, progress)
    }

    /// Writes all memtables to tables and waits until fjall is idle. Measurements use this.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn write_tables(&self) -> Result<(), StoreError> {
        let _one = lock(&self.core.maintenance);
        let open = self.core.open()?;
        for name in open.fjall.list_keyspace_names() {
            let keyspace = open.fjall.keyspace(&name, Default::default);
            keyspace
                .and_then(|keyspace| keyspace.rotate_memtable_and_wait())
                .map_err(|error| write_error("write out tables", error))?;
        }
        let mut idle = 0;
        while idle < 20 {
            let busy = open.fjall.outstanding_flushes() > 0 || open.fjall.active_compactions() > 0;
            idle = if busy { 0 } else { idle + 1 };
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(())
    }

    fn run(&self, all: bool, progress: &mut dyn FnMut(&Step) -> bool) -> Result<Report, StoreError> {
        let _one = lock(&self.core.maintenance);
        crate::names_copy::fill_copy(&self.core, &*self.core.open()?)?;
        let report = self.run_on(&*self.core.open()?, all, progress)?;
        if self.core.open()?.is_worn() {
            self.core.renew()?;
        }
        Ok(report)
    }

    fn run_on(
        &self,
        open: &Open,
        all: bool,
        progress: &mut dyn FnMut(&Step) -> bool,
    ) -> Result<Report, StoreError> {
        let core = &*self.core;
        let expired_buckets = core.watch(expire(core, open))?;
        let mut report = Report { expired_buckets, ..Report::default() };
        core.watch(shorten_log(open))?;
        gauge(core, open);
        let due = due(core, open, all);
        for (done, (stage, number)) in due.iter().enumerate() {
            let mut on = |merged: &Merged| {
                progress(&Step {
                    buckets_done: done as u64,
                    buckets: due.len() as u64,
                    metrics: merged.metrics,
                    points: merged.points,
                })
            };
            if !has_room(core, stage, *number) {
                report.failed_buckets += 1;
                continue;
            }
            match merge(core, open, stage, *number, &mut on) {
                Ok(merged) => {
                    core.stats.buckets_merged.add(1);
                    report.merged_buckets += 1;
                    report.merged_points += merged.points;
                    report.bytes_before += merged.bytes_before;
                    report.bytes_after += merged.bytes_after;
                }
                Err(error) if error.kind == ErrorKind::Overloaded => return Ok(report),
                Err(error) => {
                    report.failed_buckets += 1;
                    let cause = error.source.as_deref().map(ToString::to_string);
                    tracing::error!(%error, cause, "failed to merge a bucket, which stays as it is");
                    if error.kind == ErrorKind::Corrupt {
                        open.change_bucket(stage.key, *number, |bucket| bucket.damaged = true);
                    } else {
                        core.watch::<()>(Err(error)).ok();
                    }
                }
            }
        }
        gauge(core, open);
        Ok(report)
    }

    /// Updates the gauges of the disk: bytes of tables and logs, and free space. Reads directories only. Does
    /// nothing while the database is closed.
    pub fn measure(&self) {
        if let Ok(open) = self.core.open() {
            gauge(&self.core, &open);
        }
    }
}

/// Drops the buckets that have expired.
fn expire(core: &Core, open: &Open) -> Result<u64, StoreError> {
    let now = core.clock.now();
    let stages: Vec<_> = read(&open.catalogue).stages.values().cloned().collect();
    let mut expired = 0;
    for stage in stages {
        for (&number, _) in stage.buckets.iter().filter(|(number, _)| stage.is_expired(**number, now)) {
            let _creation = lock(&open.creation);
            open.save_bucket(core, stage.key, number, &[])?;
            let bucket = open.remove_bucket(stage.key, number).unwrap_or_default();
            open.delete_keyspaces(bucket.layers.iter().map(|layer| layer.keyspace.clone()).collect())?;
            core.stats.buckets_expired.add(1);
            expired += 1;
        }
    }
    Ok(expired)
}

fn shorten_log(open: &Open) -> Result<(), StoreError> {
    let failed = |error| write_error("shorten the write-ahead log", error);
    if open.fjall.journal_disk_space().map_err(failed)? < LOG_BYTES_MAX {
        return Ok(());
    }
    for name in open.fjall.list_keyspace_names() {
        let keyspace = open.fjall.keyspace(&name, Default::default).map_err(failed)?;
        if keyspace.tree.active_memtable().size() > 0 {
            keyspace.rotate_memtable().map_err(failed)?;
        }
    }
    Ok(())
}

fn gauge(core: &Core, open: &Open) {
    let stats = &core.stats;
    stats.keyspaces.set(open.fjall.keyspace_count() as f64);
    let logs = open.fjall.journal_disk_space().unwrap_or(0);
    stats.log_bytes.set(logs as f64);
    stats.table_bytes.set(open.fjall.disk_space().unwrap_or(0).saturating_sub(logs) as f64);
    stats.free_bytes.set(space::free_at(&core.dir).unwrap_or(0) as f64);
}

/// The buckets to merge now, oldest first.
fn due(core: &Core, open: &Open, all: bool) -> Vec<(Arc<StageBuckets>, u32)> {
    let now = core.clock.now();
    let mut due = Vec::new();
    for stage in read(&open.catalogue).stages.values() {
        for (number, bucket) in &stage.buckets {
            if can_merge(bucket) && (all || is_due(core, stage, *number, bucket, now)) {
                due.push((stage.clone(), *number));
            }
        }
    }
    due.sort_by_key(|(stage, number)| stage.end_of(*number) * u64::from(stage.key.stage.resolution));
    due
}

fn can_merge(bucket: &Bucket) -> bool {
    !bucket.damaged && bucket.layers.iter().any(|layer| matches!(layer.kind, Kind::Fresh { .. }))
}

fn is_due(core: &Core, stage: &StageBuckets, number: u32, bucket: &Bucket, now: i64) -> bool {
    let resolution = i64::from(stage.key.stage.resolution);
    let end = stage.end_of(number) as i64 * resolution;
    let last_blocks = if stage.key.coarse { 0 } else { 2 * i64::from(core.config.block_slots) * resolution };
    let closed = end + last_blocks + core.config.merge_after.as_secs() as i64;
    if now >= closed {
        let written = bucket.layers.iter().map(|layer| layer.written.load(Ordering::Relaxed)).max();
        let quiet = written.is_none_or(|written| now - written >= QUIET) || now >= closed + PATIENCE;
        return quiet && is_worth_it(bucket);
    }
    // A bucket that spans a long time is merged while it is still filling, unless it will be closed soon.
    let age = DAY.max(OPEN_WINDOWS * resolution);
    let oldest = bucket.layers.iter().filter_map(|layer| match layer.kind {
        Kind::Fresh { since, .. } => Some(since),
        Kind::Merged { .. } => None,
    });
    oldest.min().is_some_and(|since| now - since >= age) && end - now >= age / 2
}

/// Whether a merge of the bucket is worth its cost. A few late points on top of a merged layer are not.
fn is_worth_it(bucket: &Bucket) -> bool {
    let bytes = |fresh: bool| -> u64 {
        let layers = bucket.layers.iter().filter(|layer| matches!(layer.kind, Kind::Fresh { .. }) == fresh);
        layers.map(|layer| layer.keyspace.disk_space() + layer.keyspace.tree.active_memtable().size()).sum()
    };
    bucket.layers.len() > 3 || bytes(true) > bytes(false) / 8
}

/// Whether the disk has space for a second copy of the bucket.
fn has_room(core: &Core, stage: &StageBuckets, number: u32) -> bool {
    let bucket = stage.buckets.get(&number);
    let bytes: u64 = bucket.iter().flat_map(|b| &b.layers).map(|layer| layer.keyspace.disk_space()).sum();
    let free = space::free_at(&core.dir).unwrap_or(0);
    let enough = free >= core.config.min_free_bytes.0.saturating_add(bytes);
    if !enough {
        tracing::warn!(
            free_bytes = free,
            bucket_bytes = bytes,
            "a bucket was not merged, because the disk has no room for a second copy"
        );
    }
    enough
}
