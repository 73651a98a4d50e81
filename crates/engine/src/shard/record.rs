//! The record of a head in a checkpoint (`docs/formats/checkpoint.md`). It contains everything that the head
//! needs to continue as if there had been no stop. A state row contains less, because a start reads the
//! journal after it.

use std::sync::Arc;

use plumbago_model::{MetricConfig, MetricId, Window};

use super::future::FuturePoint;
use super::{BATCH, Shard, table_hash};
use crate::bytes::{put_varint, take, take_slice, take_u32, take_varint};
use crate::router::NameHash;
use crate::shard::head::{OCTET, Octet};
use crate::shard::head_state::{Life, LifeEvent, mark};
use crate::shard::pool::Chain;

/// The marks of a head that a record contains, each with its bit in the record.
const MARKS: [(u16, u8); 5] =
    [(mark::PLACED, 1), (mark::MERGE, 2), (mark::REFOLD, 4), (mark::DUE, 8), (mark::REWRITE, 16)];
/// The record contains future points.
const FUTURE: u8 = 32;
/// The record contains slots before the newest octet.
const CHAIN: u8 = 64;
/// At least one window is open.
const OPEN: u8 = 128;
/// Size of a future point, in bytes.
const FUTURE_BYTES: usize = 20;

/// A decoded record.
#[derive(Debug)]
pub(crate) struct HeadRecord<'a> {
    pub(crate) id: MetricId,
    pub(crate) number: u32,
    /// The position of the metric's settings in the header.
    pub(crate) config: usize,
    marks: u8,
    /// How many journal segments ago the oldest unflushed point arrived, plus one; 0 if there is none.
    age: u32,
    base: u32,
    newest: u32,
    octet: Octet,
    /// The encoded open windows: a count for each, and the value if the count is not 0.
    open: &'a [u8],
    chain: &'a [u8],
    future: &'a [u8],
}

impl<'a> HeadRecord<'a> {
    /// Takes the next record. `coarse` contains the number of coarse stages of each [`MetricConfig`]. `None` if
    /// the bytes are not a valid record.
    pub(crate) fn take(rest: &mut &'a [u8], coarse: &[usize]) -> Option<Self> {
        let id = MetricId(take(rest)?);
        let number = take_u32(rest)?;
        let config = take_varint(rest)? as usize;
        let [marks] = take(rest)?;
        let age = take_varint(rest)?;
        let base = take_u32(rest)?;
        let newest = base.wrapping_add(take_varint(rest)?);
        let [known] = take(rest)?;
        let mut octet = [f64::NAN; OCTET as usize];
        for (slot, value) in octet.iter_mut().enumerate() {
            if known >> slot & 1 == 1 {
                *value = f64::from_bits(u64::from_le_bytes(take(rest)?));
            }
        }
        let windows = *coarse.get(config)?;
        let open = if marks & OPEN == 0 { &[] } else { take_windows(rest, windows)? };
        let chain = match marks & CHAIN {
            0 => &[],
            _ => {
                let len = take_varint(rest)? as usize;
                take_slice(rest, len)?
            }
        };
        let future = match marks & FUTURE {
            0 => &[],
            _ => {
                let points = take_varint(rest)? as usize;
                take_slice(rest, points.checked_mul(FUTURE_BYTES)?)?
            }
        };
        Some(Self { id, number, config, marks, age, base, newest, octet, open, chain, future })
    }
}

/// Takes the bytes of `windows` open windows.
fn take_windows<'a>(rest: &mut &'a [u8], windows: usize) -> Option<&'a [u8]> {
    let mut left = *rest;
    for _ in 0..windows {
        take_window(&mut left)?;
    }
    take_slice(rest, rest.len() - left.len())
}

fn take_window(rest: &mut &[u8]) -> Option<Window> {
    let count = take_varint(rest)?;
    let value = if count > 0 { f64::from_le_bytes(take(rest)?) } else { 0.0 };
    Some(Window { value, count })
}

impl Shard {
    /// Finds the heads of these names, at most [`BATCH`] of them, and loads them into the cache; `u32::MAX` for a name
    /// without a head.
    pub(crate) fn heads_of(&self, hashes: &[NameHash], found: &mut [u32; BATCH]) {
        let found = &mut found[..hashes.len().min(BATCH)];
        for (at, hash) in found.iter_mut().zip(hashes) {
            *at = self.table.iter_hash(table_hash(hash)).next().copied().unwrap_or(u32::MAX);
        }
        for (at, hash) in found.iter_mut().zip(hashes) {
            if *at != u32::MAX && self.heads[*at].hash != *hash {
                *at = self.find(hash).unwrap_or(u32::MAX);
            }
        }
        let known = || found.iter().copied().filter(|at| *at != u32::MAX);
        known().for_each(|at| self.warm_windows(at));
        self.pool.warm_ends(known().map(|at| self.heads[at].chain()));
    }

    /// Appends the record of a head. `configs` contains the position in the header of each of the shard's
    /// layouts, and `segment` is the newest journal segment.
    pub(crate) fn put_record(&self, at: u32, configs: &[u32], segment: u32, out: &mut Vec<u8>) {
        let head = &self.heads[at];
        let layout = &self.layouts[usize::from(head.config)];
        let open = (0..layout.coarse() as u32).map(|k| self.windows[head.windows + k]);
        let is_open = open.clone().any(|window| window.count > 0);
        let mut marks: u8 = MARKS.iter().filter(|(mark, _)| head.is(*mark)).map(|(_, bit)| bit).sum();
        for (is_set, bit) in
            [(head.is(mark::FUTURE), FUTURE), (!head.chain().is_empty(), CHAIN), (is_open, OPEN)]
        {
            marks |= if is_set { bit } else { 0 };
        }
        out.extend_from_slice(&head.id.0);
        out.extend_from_slice(&head.number.to_le_bytes());
        put_varint(out, configs.get(usize::from(head.config)).copied().unwrap_or(u32::MAX));
        out.push(marks);
        put_varint(out, if head.segment == 0 { 0 } else { segment.saturating_sub(head.segment) + 1 });
        out.extend_from_slice(&head.base.to_le_bytes());
        put_varint(out, head.newest.wrapping_sub(head.base));
        put_octet(head.newest_octet(), out);
        if is_open {
            open.for_each(|window| put_window(window, out));
        }
        if !head.chain().is_empty() {
            self.put_chain(head.chain(), out);
        }
        if head.is(mark::FUTURE) {
            self.put_future(at, out);
        }
    }

    fn put_chain(&self, chain: Chain, out: &mut Vec<u8>) {
        put_varint(out, chain.len());
        self.pool.read(chain, out);
    }

    fn put_future(&self, at: u32, out: &mut Vec<u8>) {
        put_varint(out, self.future.of_head(at).count() as u32);
        for FuturePoint { timestamp, value, sequence } in self.future.of_head(at) {
            out.extend_from_slice(&timestamp.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
            out.extend_from_slice(&sequence.to_le_bytes());
        }
    }

    /// Makes room for this many metrics.
    pub(crate) fn reserve(&mut self, metrics: usize) {
        let heads = &self.heads;
        self.table.reserve(metrics, |at| table_hash(&heads[*at].hash));
    }

    /// Adds the metric of a record. `config` are its settings, and `segment` is the newest journal segment of
    /// the checkpoint. Returns the head; `None` if the record is damaged.
    pub(crate) fn take_record(
        &mut self,
        hash: NameHash,
        record: &HeadRecord<'_>,
        config: &Arc<MetricConfig>,
        segment: u32,
    ) -> Option<u32> {
        let at = self.insert(hash, record.id, record.number, config, LifeEvent::InsertKnown);
        let head = &mut self.heads[at];
        for (mark, bit) in MARKS {
            head.clear(mark);
            if record.marks & bit != 0 {
                head.set(mark);
            }
        }
        if head.is(mark::DUE) {
            self.due.push(at);
        }
        (head.base, head.newest) = (record.base, record.newest);
        head.segment = if record.age == 0 { 0 } else { segment.saturating_sub(record.age - 1).max(1) };
        head.adopt(&mut self.pool, record.chain, record.octet);
        let first = head.windows;
        let mut open = record.open;
        for k in 0.. {
            if open.is_empty() {
                break;
            }
            self.windows[first + k] = take_window(&mut open)?;
        }
        let mut future = record.future;
        while !future.is_empty() {
            let timestamp = take_u32(&mut future)?;
            let (value, sequence) = (f64::from_le_bytes(take(&mut future)?), take(&mut future)?);
            self.keep_future(at, FuturePoint { timestamp, value, sequence: u64::from_le_bytes(sequence) });
        }
        Some(at)
    }

    /// Ends a start from a checkpoint, according to which this shard held `held` points.
    pub(crate) fn end_load(&mut self, held: u64, sequence: u64) {
        self.ledger.held = held;
        self.ledger.recovered = held;
        self.sequence = sequence;
        self.end_replay(sequence);
    }

    /// Whether no head from `from` on is being created. If one is, `from` becomes the first such head.
    pub(crate) fn are_created(&self, from: &mut u32) -> bool {
        while *from < self.len() as u32 && self.heads[*from].state.life() != Life::Creating {
            *from += 1;
        }
        *from >= self.len() as u32
    }

    /// Whether a job is working on a metric in a way that a checkpoint cannot express.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.deletions.is_empty() || !self.late.awaited.is_empty()
    }
}

fn put_octet(octet: &Octet, out: &mut Vec<u8>) {
    let place = out.len();
    out.push(0);
    for (slot, value) in octet.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        out[place] |= 1 << slot;
        out.extend_from_slice(&value.to_bits().to_le_bytes());
    }
}

fn put_window(window: Window, out: &mut Vec<u8>) {
    put_varint(out, window.count);
    if window.count > 0 {
        out.extend_from_slice(&window.value.to_le_bytes());
    }
}
