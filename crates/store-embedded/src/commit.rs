//! Writes batches: runs are cut into rows at the borders of blocks, and all rows of a batch are one commit.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use fjall::{Keyspace, PersistMode};
use plumbago_fjall_host::pressure;
use plumbago_store::{ErrorKind, Run, StateRow, StoreError, WriteBatch};

use crate::catalogue::{Catalogue, Layer, StageBuckets, StageKey};
use crate::errors::{host_error, read_error, write_error};
use crate::layers::Missing;
use crate::locks::{lock, read};
use crate::open::Open;
use crate::row::{Block, Key, key};
use crate::shared::Core;

/// Commits rows and state rows, all or nothing.
///
/// # Errors
/// `Unavailable` if fjall refuses writes, `Overloaded` if the disk is too slow, `Invalid` if there are too
/// many time buckets.
pub(crate) fn commit(
    core: &Core,
    open: &Open,
    rows: &WriteBatch,
    states: &[StateRow],
) -> Result<(), StoreError> {
    let now = core.clock.now();
    let start = Instant::now();
    while start.elapsed() < pressure::WAIT_MAX {
        // Held until the commit is done, so that no layer is frozen in between.
        let catalogue = read(&open.catalogue);
        let mut plan = CommitPlan { raw_slots: core.config.block_slots, ..CommitPlan::default() };
        plan.cut(&catalogue, rows, now);
        let missing = !plan.missing.is_empty();
        if !missing && !plan.keyspaces(open).any(pressure::is_behind) {
            return plan.commit(core, open, rows, states, now);
        }
        drop(catalogue);
        if missing {
            open.create_layers(core, &plan.missing)?;
        } else {
            pressure::wait(&open.fjall, plan.keyspaces(open)).map_err(host_error)?;
        }
    }
    Err(StoreError::new(ErrorKind::Overloaded, "commit: tables are not written fast enough"))
}

/// The part of a run that belongs to one row.
struct Piece {
    key: Key,
    /// Position of the run in the batch.
    run: usize,
    /// The slots of the run, counted from its first one.
    slots: Range<usize>,
    /// Position of the first of these slots in the block.
    at: usize,
    /// Whether the piece replaces all slots of the stored row, so that the row need not be read.
    whole: bool,
}

/// The pieces that are written to one layer.
struct Part {
    layer: Arc<Layer>,
    pieces: Vec<Piece>,
}

/// The pieces of each row, one slice per row.
fn by_row(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|a, b| a.key == b.key)
}

#[derive(Default)]
struct CommitPlan {
    /// Number of slots in a raw block.
    raw_slots: u32,
    parts: Vec<Part>,
    missing: Vec<Missing>,
    expired: u64,
}

impl CommitPlan {
    /// Cuts runs at the borders of buckets and blocks.
    fn cut(&mut self, catalogue: &Catalogue, rows: &WriteBatch, now: i64) {
        for (index, run) in rows.runs.iter().enumerate() {
            let key = StageKey { stage: run.stage, coarse: run.stage_index > 0 };
            let Some(stage) = catalogue.stages.get(&key) else {
                self.miss(key, run.first_slot, run);
                continue;
            };
            let end = u64::from(run.first_slot) + u64::from(run.len);
            let mut slot = run.first_slot;
            while u64::from(slot) < end {
                let bucket = stage.bucket_of(slot);
                let until = end.min(stage.end_of(bucket));
                self.cut_in_bucket(stage, bucket, index, rows, slot..until as u32, now);
                // The last slot that a u32 can hold.
                slot = u32::try_from(until).unwrap_or(u32::MAX);
                if slot == u32::MAX {
                    break;
                }
            }
        }
    }

    fn cut_in_bucket(
        &mut self,
        stage: &StageBuckets,
        bucket: u32,
        index: usize,
        rows: &WriteBatch,
        slots: Range<u32>,
        now: i64,
    ) {
        let run = &rows.runs[index];
        if stage.is_expired(bucket, now) {
            self.expired += u64::from(slots.end - slots.start);
            return;
        }
        // Raw blocks have the engine's length. If the newest layer has blocks of another length, a new layer is added
        // on top.
        let wanted = (!stage.key.coarse).then_some(self.raw_slots);
        let live = stage.buckets.get(&bucket).and_then(|bucket| bucket.live(wanted));
        let Some(layer) = live else {
            self.miss(stage.key, slots.start, run);
            return;
        };
        let part = self.part_of(layer);
        let block_slots = i64::from(layer.block_slots());
        let values = rows.values(run);
        let run_end = i64::from(run.first_slot) + i64::from(run.len);
        let mut slot = slots.start;
        while slot < slots.end {
            let number = layer.block_of(&run.id, slot);
            let start = layer.block_start(&run.id, number);
            let until = (start + block_slots).min(i64::from(slots.end)) as u32;
            let covers = i64::from(run.first_slot) <= start && start + block_slots <= run_end;
            let slots = (slot - run.first_slot) as usize..(until - run.first_slot) as usize;
            let known = values[slots.clone()].iter().filter(|value| !value.is_nan()).count();
            if known == 0 && !run.whole {
                // Unknown slots of a run change nothing.
                slot = until;
                continue;
            }
            // A block whose slots are all known replaces the stored block.
            let whole = covers && (run.whole || known == slots.len());
            part.pieces.push(Piece {
                key: key(&run.id, number),
                run: index,
                slots,
                at: (i64::from(slot) - start) as usize,
                whole,
            });
            slot = until;
        }
    }

    fn miss(&mut self, key: StageKey, slot: u32, run: &Run) {
        // A whole run of a coarse stage is one block, so a new layer gets blocks of that length.
        let block_slots = match (key.coarse, run.whole) {
            (false, _) => self.raw_slots,
            (true, true) => run.len.max(1),
            (true, false) => 1,
        };
        self.missing.push(Missing { key, slot, block_slots });
    }

    fn part_of(&mut self, layer: &Arc<Layer>) -> &mut Part {
        // A linear search: a batch has few layers.
        let index = self.parts.iter().position(|part| Arc::ptr_eq(&part.layer, layer));
        let index = index.unwrap_or_else(|| {
            self.parts.push(Part { layer: layer.clone(), pieces: Vec::new() });
            self.parts.len() - 1
        });
        &mut self.parts[index]
    }

    fn commit(
        mut self,
        core: &Core,
        open: &Open,
        rows: &WriteBatch,
        states: &[StateRow],
        now: i64,
    ) -> Result<(), StoreError> {
        let mut count = states.len();
        for part in &mut self.parts {
            // fjall inserts sorted keys faster, and flushes are mostly sorted already. The sort is stable:
            // later runs win.
            if !part.pieces.is_sorted_by(|a, b| a.key <= b.key) {
                part.pieces.sort_by_key(|piece| piece.key);
            }
            count += part.pieces.len();
        }
        let mut batch = fjall::OwnedWriteBatch::with_capacity(open.fjall.clone(), count)
            .durability(Some(PersistMode::Buffer));
        let mut encoder = Encoder { rows, block: Block::default(), bytes: Vec::new() };
        for Part { layer, pieces } in &self.parts {
            for row in by_row(pieces).filter(|row| row[0].whole) {
                encoder.lay(layer, row, true);
                batch.insert(&layer.keyspace, row[0].key, encoder.row(&row[0].key));
            }
        }
        for state in states {
            if state.bytes.is_empty() {
                batch.remove(&open.state, state.id.0);
            } else {
                batch.insert(&open.state, state.id.0, state.bytes.as_slice());
            }
        }
        let _writer = lock(&open.writer);
        for Part { layer, pieces } in &self.parts {
            for row in by_row(pieces).filter(|row| !row[0].whole) {
                let known = encoder.load(core, layer, &row[0].key)?;
                encoder.lay(layer, row, !known);
                batch.insert(&layer.keyspace, row[0].key, encoder.row(&row[0].key));
                core.stats.rows_read_before_write.add(1);
            }
            layer.touch(now);
        }
        core.stats.rows.add((batch.len() - states.len()) as u64);
        let number = open.number_commit(&mut batch);
        core.stats.commits.add(1);
        core.stats.slots_expired.add(self.expired);
        let rotate = |keyspace: &Keyspace| pressure::rotate_when_full(keyspace, core.config.memtable_bytes.0);
        let committed = batch.commit();
        // The cached columns become stale even after a failed commit, because a part of it may have been
        // written.
        rows.runs.iter().for_each(|run| core.columns.written(&run.id));
        if committed.is_ok() {
            core.host.committed(number);
        }
        committed
            .and_then(|()| self.keyspaces(open).try_for_each(rotate))
            .map_err(|error| write_error(format!("commit to {}", core.dir.display()), error))
    }

    fn keyspaces<'a>(&'a self, open: &'a Open) -> impl Iterator<Item = &'a Keyspace> + Clone {
        self.parts.iter().map(|part| &part.layer.keyspace).chain([&open.state, &open.system])
    }
}

/// Encodes rows.
struct Encoder<'a> {
    rows: &'a WriteBatch,
    block: Block,
    bytes: Vec<u8>,
}

impl Encoder<'_> {
    /// Reads the stored row into `block`. Returns `false` if there is none or it is damaged.
    ///
    /// # Errors
    /// Temporary errors, such as too few file descriptors. The row must then not be overwritten.
    fn load(&mut self, core: &Core, layer: &Layer, key: &Key) -> Result<bool, StoreError> {
        let row = match layer.keyspace.get(key) {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(false),
            Err(error) => {
                let text = error.to_string();
                let error = read_error("read a row before it is rewritten", error);
                if error.kind != ErrorKind::Corrupt {
                    return Err(error);
                }
                core.damage.report(&layer.keyspace, &key.escape_ascii(), &text);
                return Ok(false);
            }
        };
        let decoded = self.block.decode(key, &row, layer.block_slots() as usize, layer.coarse);
        if decoded.is_err() {
            core.damage.report(&layer.keyspace, &key.escape_ascii(), &"checksum mismatch");
        }
        Ok(decoded.is_ok())
    }

    /// Writes the pieces of a row over the block, which is cleared first if `clean` is set.
    fn lay(&mut self, layer: &Layer, pieces: &[Piece], clean: bool) {
        if clean {
            self.block.reset(layer.block_slots() as usize, layer.coarse);
        }
        for piece in pieces {
            let run = &self.rows.runs[piece.run];
            let slots = piece.slots.clone();
            let counts = self.rows.counts(run).get(slots.clone()).unwrap_or_default();
            self.block.overlay(piece.at, &self.rows.values(run)[slots], counts);
        }
    }

    fn row(&mut self, key: &Key) -> &[u8] {
        self.bytes.clear();
        self.block.encode(key, None, &mut self.bytes);
        &self.bytes
    }
}
