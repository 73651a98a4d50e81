//! Merges a bucket: turns the rows of all its layers into long blocks in one new layer.
//!
//! The new layer is a new keyspace, filled by fjall's ingestion. All of its rows become durable together when
//! the ingestion is finished. Then the bucket's catalogue row is replaced and synced, and only then are the
//! old layers deleted. After a crash, the catalogue row names either the old or the new keyspaces; the next
//! start deletes the keyspaces that no row names.

use std::iter::Peekable;
use std::sync::Arc;

use fjall::{Guard, Iter};
use plumbago_model::MetricId;
use plumbago_store::{ErrorKind, StoreError};

use crate::catalogue::{Kind, Layer, StageBuckets};
use crate::delete::delete_from;
use crate::deletion::Deletion;
use crate::errors::write_error;
use crate::locks::lock;
use crate::open::Open;
use crate::row::{Block, KEY_BYTES, key, parse_key};
use crate::shared::Core;

/// Result of a merge.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Merged {
    pub(crate) metrics: u64,
    pub(crate) points: u64,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
}

/// Merges the layers that a bucket has now. Stops when `go_on` returns `false`.
///
/// # Errors
/// `Overloaded` if `go_on` stopped the merge, `Corrupt` if a row cannot be read, or an error of fjall.
pub(crate) fn merge(
    core: &Core,
    open: &Open,
    stage: &StageBuckets,
    number: u32,
    go_on: &mut dyn FnMut(&Merged) -> bool,
) -> Result<Merged, StoreError> {
    let mut sources = Vec::new();
    open.change_bucket(stage.key, number, |bucket| {
        sources = bucket.layers.clone();
        bucket.frozen = sources.len();
    });
    *lock(&open.deleted_in_merge) = Some(Vec::new());
    let result = rewrite(core, open, stage, number, &sources, go_on);
    let result = result.and_then(|(layer, merged)| {
        switch(core, open, stage, number, &sources, layer)?;
        Ok(merged)
    });
    *lock(&open.deleted_in_merge) = None;
    if result.is_err() {
        open.change_bucket(stage.key, number, |bucket| bucket.frozen = 0);
    }
    result
}

/// Writes the new layer.
fn rewrite(
    core: &Core,
    open: &Open,
    stage: &StageBuckets,
    number: u32,
    sources: &[Arc<Layer>],
    go_on: &mut dyn FnMut(&Merged) -> bool,
) -> Result<(Layer, Merged), StoreError> {
    let failed = |error| write_error(format!("merge bucket {number} of stage {}", stage.key.stage), error);
    let kind = Kind::Merged { block_slots: stage.merged_slots() };
    let layer = {
        let _creation = lock(&open.creation);
        open.create_layer(stage, number, kind, core.clock.now())?
    };
    let written = fill(core, open, stage, number, &layer, sources, go_on);
    match written {
        Ok(mut merged) => {
            merged.bytes_before = sources.iter().map(|source| source.keyspace.disk_space()).sum();
            merged.bytes_after = layer.keyspace.disk_space();
            Ok((layer, merged))
        }
        Err(error) => {
            open.delete_keyspaces(vec![layer.keyspace])?;
            Err(match error {
                Stop::Failed(error) => failed(error),
                Stop::Asked => StoreError::new(ErrorKind::Overloaded, "merge a bucket: stopped"),
            })
        }
    }
}

enum Stop {
    Failed(fjall::Error),
    Asked,
}

impl From<fjall::Error> for Stop {
    fn from(error: fjall::Error) -> Self {
        Self::Failed(error)
    }
}

fn fill(
    core: &Core,
    open: &Open,
    stage: &StageBuckets,
    number: u32,
    layer: &Layer,
    sources: &[Arc<Layer>],
    go_on: &mut dyn FnMut(&Merged) -> bool,
) -> Result<Merged, Stop> {
    let mut merged = Merged::default();
    let mut ingestion = layer.keyspace.start_ingestion()?;
    let mut cursors: Vec<Cursor<'_>> = sources.iter().map(|source| Cursor::new(source)).collect();
    let mut bucket = Block::default();
    let mut row = Block::default();
    let mut bytes = Vec::new();
    while let Some(id) = next_metric(&mut cursors)? {
        bucket.reset(stage.bucket_slots as usize, stage.key.coarse);
        for cursor in &mut cursors {
            cursor.lay(core, &id, stage, number, &mut bucket, &mut row)?;
        }
        for (chunk, first) in (0..stage.bucket_slots).step_by(layer.block_slots() as usize).enumerate() {
            let until = (first + layer.block_slots()).min(stage.bucket_slots);
            let known = cut(&bucket, first as usize..until as usize, layer.block_slots() as usize, &mut row);
            if known > 0 {
                let key = key(&id, chunk as u32);
                bytes.clear();
                row.encode(&key, Some(core.config.merge_effort), &mut bytes);
                ingestion.write(key, bytes.as_slice())?;
                merged.points += known;
            }
        }
        merged.metrics += 1;
        let closing = open.closing.load(std::sync::atomic::Ordering::Relaxed);
        if closing || merged.metrics.is_multiple_of(1024) && !go_on(&merged) {
            return Err(Stop::Asked);
        }
    }
    ingestion.finish()?;
    Ok(merged)
}

/// Encodes a block of `len` slots of the bucket into `row`. Returns the number of known slots.
fn cut(bucket: &Block, slots: std::ops::Range<usize>, len: usize, row: &mut Block) -> u64 {
    let values = &bucket.values[slots.clone()];
    let known = values.iter().filter(|v| !v.is_nan()).count() as u64;
    if known > 0 {
        row.reset(len, !bucket.counts.is_empty());
        row.overlay(0, values, bucket.counts.get(slots).unwrap_or_default());
    }
    known
}

/// Reads one source in key order.
struct Cursor<'a> {
    layer: &'a Layer,
    rows: Peekable<Box<dyn Iterator<Item = fjall::Result<fjall::KvPair>>>>,
}

impl<'a> Cursor<'a> {
    fn new(layer: &'a Layer) -> Self {
        let rows: Iter = layer.keyspace.iter();
        let rows: Box<dyn Iterator<Item = _>> = Box::new(rows.map(Guard::into_inner));
        Self { layer, rows: rows.peekable() }
    }

    fn metric(&mut self) -> fjall::Result<Option<MetricId>> {
        loop {
            match self.rows.peek() {
                None => return Ok(None),
                Some(Ok((key, _))) => match parse_key(key) {
                    Some((id, _)) if key.len() == KEY_BYTES => return Ok(Some(id)),
                    _ => {}
                },
                Some(Err(_)) => {
                    // A part of the table is lost. The bucket stays as it is, so that its sound rows remain
                    // readable.
                    return match self.rows.next() {
                        Some(Err(error)) => Err(error),
                        _ => Ok(None),
                    };
                }
            }
            self.rows.next();
        }
    }

    /// Writes this source's rows of a metric over the bucket's slots.
    fn lay(
        &mut self,
        core: &Core,
        id: &MetricId,
        stage: &StageBuckets,
        number: u32,
        bucket: &mut Block,
        row: &mut Block,
    ) -> fjall::Result<()> {
        let start = i64::from(stage.start_of(number));
        while self.metric()? == Some(*id) {
            let Some(Ok((key, bytes))) = self.rows.next() else { break };
            let Some((_, block)) = parse_key(&key) else { continue };
            if row.decode(&key, &bytes, self.layer.block_slots() as usize, self.layer.coarse).is_err() {
                core.damage.report(&self.layer.keyspace, id, &"checksum mismatch");
                continue;
            }
            // A raw block may extend beyond the bucket; those slots are unknown.
            let block_start = self.layer.block_start(id, block) - start;
            let skip = (-block_start).max(0) as usize;
            let at = block_start.max(0) as usize;
            if skip < row.values.len() && at < bucket.values.len() {
                let counts = row.counts.get(skip..).unwrap_or_default();
                bucket.overlay(at, &row.values[skip..], counts);
            }
        }
        Ok(())
    }
}

/// The smallest id among the next metrics of all sources.
fn next_metric(cursors: &mut [Cursor<'_>]) -> fjall::Result<Option<MetricId>> {
    let mut next = None;
    for cursor in cursors {
        let metric = cursor.metric()?;
        next = match (next, metric) {
            (Some(a), Some(b)) => Some(std::cmp::min::<MetricId>(a, b)),
            (a, b) => a.or(b),
        };
    }
    Ok(next)
}

/// Replaces the sources by the new layer.
fn switch(
    core: &Core,
    open: &Open,
    stage: &StageBuckets,
    number: u32,
    sources: &[Arc<Layer>],
    layer: Layer,
) -> Result<(), StoreError> {
    let layer = Arc::new(layer);
    let _creation = lock(&open.creation);
    let mut result = Ok(());
    // While these locks are held, no commit and no deletion is in progress.
    open.change_bucket(stage.key, number, |bucket| {
        let late = &bucket.layers[sources.len().min(bucket.layers.len())..];
        let layers: Vec<_> = std::iter::once(layer.clone()).chain(late.iter().cloned()).collect();
        let deleted = lock(&open.deleted_in_merge).take().unwrap_or_default();
        result = deleted_again(core, open, (stage, number), &layer, &deleted)
            .and_then(|()| open.save_bucket(core, stage.key, number, &layers));
        if result.is_ok() {
            bucket.layers = layers;
            bucket.frozen = 0;
        }
    });
    if result.is_err() {
        open.delete_keyspaces(vec![layer.keyspace.clone()])?;
        return result;
    }
    open.delete_keyspaces(sources.iter().map(|source| source.keyspace.clone()).collect())
}

/// Repeats in the new layer the deletions that were made while it was written.
fn deleted_again(
    core: &Core,
    open: &Open,
    (stage, number): (&StageBuckets, u32),
    layer: &Layer,
    deleted: &[Deletion],
) -> Result<(), StoreError> {
    let mut deleted = deleted.iter().filter(|deletion| deletion.key == stage.key);
    deleted.try_for_each(|deletion| delete_from(core, open, stage, number, layer, deletion))
}
