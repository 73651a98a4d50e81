//! The fjall database underneath: slices, state rows and marks, in one log, so that a commit is one
//! atomic batch. Memtables are turned by us, as everywhere (`docs/decisions/journal-on-fjall.md`).

use std::collections::BTreeMap;
use std::path::Path;

use fjall::{AbstractTree, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::row::Key;
use super::segment::Segment;
use super::{Id, SpoolError, State};
use crate::database::first_open;
use crate::open::rows_in_order;
use crate::{JournalError, Repair};

/// For readers and the sender while a remote store is away; else everything is in memtables.
const CACHE_BYTES: u64 = 16 << 20;
const MEMTABLE_BYTES: u64 = 16 << 20;

/// Below the numbers at which fjall makes writers wait inside of a commit, for ever if its worker
/// has died.
const SEALED_MEMTABLES_MAX: usize = 3;
const RUNS_MAX: usize = 18;

/// Places around damage that one scan tries before it gives up.
const DAMAGE_MAX: u32 = 1000;

const CLOCK: &[u8] = b"clock";
const CURSOR: &[u8] = b"cursor";
const LIVE_FROM: &[u8] = b"live-from";
const PARKED: &[u8] = b"parked";
const CLOSED: u8 = b's';

/// An open database.
pub(super) struct Database {
    fjall: fjall::Database,
    slices: Keyspace,
    states: Keyspace,
    marks: Keyspace,
}

/// What the marks say.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last timestamp given.
    pub(super) last_us: i64,
    /// The segment of the last commit, as that left it.
    pub(super) newest: (u32, Segment),
    /// Segments that were cut.
    pub(super) closed: BTreeMap<u32, Segment>,
    /// What was put aside.
    pub(super) parked: Segment,
    pub(super) live_from: u32,
    /// What was acknowledged: all before this segment, and this one up to this metric.
    pub(super) cursor: (u32, Option<Id>),
}

/// One batch.
pub(super) struct Commit<'a> {
    /// Slices with their places; the values are complete.
    pub(super) slices: Vec<(Key, Vec<u8>)>,
    pub(super) states: &'a [State<'a>],
    pub(super) timestamp_us: i64,
    /// The open segment with this commit in it.
    pub(super) newest: (u32, Segment),
}

impl Database {
    /// Opens or creates the database in `path`; says so when a torn tail was cut for that.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<Repair>), JournalError> {
        crate::open::open(path, crate::format::SPOOL, CACHE_BYTES, Self::with)
    }

    fn with(fjall: fjall::Database) -> fjall::Result<Self> {
        let slices = fjall.keyspace("slices", rows_in_order)?;
        let states = fjall.keyspace("states", rows_in_order)?;
        let marks = fjall.keyspace("marks", KeyspaceCreateOptions::default)?;
        Ok(Self { fjall, slices, states, marks })
    }

    pub(super) fn marks(&self) -> Result<Marks, SpoolError> {
        let mut marks = Marks::default();
        for row in self.marks.iter() {
            let (key, value) = row.into_inner().map_err(damaged_marks)?;
            let parsed = match &key[..] {
                CLOCK => parse_clock(&value).map(|(last_us, newest)| {
                    marks.last_us = last_us;
                    marks.newest = newest;
                }),
                CURSOR => parse_cursor(&value).map(|cursor| marks.cursor = cursor),
                PARKED => Segment::read(&value).map(|segment| marks.parked = segment),
                LIVE_FROM => parse_number(&value).map(|number| marks.live_from = number),
                [CLOSED, number @ ..] => {
                    let row = parse_number(number).zip(Segment::read(&value));
                    marks.closed.extend(row);
                    row.map(|_| ())
                }
                _ => None,
            };
            parsed.ok_or_else(|| damaged_marks(key.escape_ascii()))?;
        }
        Ok(marks)
    }

    pub(super) fn commit(&self, commit: Commit<'_>) -> fjall::Result<()> {
        let rows = commit.slices.len() + commit.states.len() + 1;
        let mut batch = fjall::OwnedWriteBatch::with_capacity(self.fjall.clone(), rows)
            .durability(Some(PersistMode::Buffer));
        for (key, value) in commit.slices {
            batch.insert(&self.slices, key.bytes(), value);
        }
        for state in commit.states {
            if state.bytes.is_empty() {
                batch.remove(&self.states, state.id);
            } else {
                batch.insert(&self.states, state.id, state.bytes);
            }
        }
        batch.insert(&self.marks, CLOCK, clock(commit.timestamp_us, commit.newest));
        batch.commit()?;
        self.turn_full_memtables()
    }

    /// Writes slices as they are to be; `None` removes one. `parked` is what is put aside then.
    pub(super) fn change(
        &self,
        slices: Vec<(Key, Option<Vec<u8>>)>,
        parked: Option<Segment>,
    ) -> fjall::Result<()> {
        let mut batch = fjall::OwnedWriteBatch::with_capacity(self.fjall.clone(), slices.len() + 1)
            .durability(Some(PersistMode::Buffer));
        for (key, value) in slices {
            match value {
                Some(value) => batch.insert(&self.slices, key.bytes(), value),
                None => batch.remove(&self.slices, key.bytes()),
            }
        }
        if let Some(parked) = parked {
            batch.insert(&self.marks, PARKED, parked.bytes());
        }
        batch.commit()?;
        self.turn_full_memtables()
    }

    pub(super) fn mark_closed(&self, number: u32, segment: Segment) -> fjall::Result<()> {
        self.marks.insert(closed_key(number), segment.bytes())
    }

    pub(super) fn mark_cursor(&self, segment: u32, id: Option<Id>) -> fjall::Result<()> {
        let mut value = segment.to_be_bytes().to_vec();
        value.extend(id.iter().flatten());
        self.marks.insert(CURSOR, value)
    }

    /// Forgets the segments before `number`. A crash in between leaves some of their slices to be
    /// sent again, which changes nothing.
    pub(super) fn drop_before(&self, number: u32, dropped: impl Iterator<Item = u32>) -> fjall::Result<()> {
        self.marks.insert(LIVE_FROM, number.to_be_bytes())?;
        for number in dropped {
            self.marks.remove(closed_key(number))?;
        }
        // What was put aside stays.
        let doomed = Key::first(1, [0; 16])..Key::first(number, [0; 16]);
        self.slices.tree.drop_range(doomed.start.bytes()..doomed.end.bytes())?;
        // Turning a memtable also removes dropped files.
        self.marks.rotate_memtable()?;
        Ok(())
    }

    /// Visits slices from `from` to `to`, both included, until `visit` says no. Goes round damaged
    /// places and returns how many there were.
    pub(super) fn visit_slices(
        &self,
        from: Key,
        to: Key,
        visit: &mut dyn FnMut(Key, fjall::Slice) -> bool,
    ) -> u64 {
        let mut damaged = 0;
        let mut last = from;
        let mut rows = self.slices.range(from.bytes()..=to.bytes());
        loop {
            match rows.next().map(Guard::into_inner) {
                None => return damaged,
                Some(Ok((key, value))) => {
                    let Some(key) = Key::read(&key) else { continue };
                    last = key;
                    if !visit(key, value) {
                        return damaged;
                    }
                }
                Some(Err(error)) => {
                    damaged += 1;
                    tracing::error!(segment = last.segment, %error, "damaged slices in the spool are skipped");
                    let blocked = |place| self.is_blocked(Key::at_place(place), to);
                    let behind = first_open(last.place(), to.place(), blocked).map(Key::at_place);
                    let Some(behind) = behind.filter(|_| damaged < u64::from(DAMAGE_MAX)) else {
                        return damaged;
                    };
                    last = behind;
                    rows = self.slices.range(behind.bytes()..=to.bytes());
                }
            }
        }
    }

    fn is_blocked(&self, from: Key, to: Key) -> bool {
        matches!(self.slices.range(from.bytes()..=to.bytes()).next().map(Guard::key), Some(Err(_)))
    }

    /// Visits state rows in id order; goes round damaged places and returns how many there were.
    pub(super) fn visit_states(&self, visit: &mut dyn FnMut(Id, &[u8])) -> u64 {
        let mut damaged = 0;
        let mut last = 0_u128;
        let mut rows = self.states.range(last.to_be_bytes()..);
        loop {
            match rows.next().map(Guard::into_inner) {
                None => return damaged,
                Some(Ok((key, value))) => {
                    let Ok(id) = Id::try_from(&key[..]) else { continue };
                    last = u128::from_be_bytes(id);
                    visit(id, &value);
                }
                Some(Err(error)) => {
                    damaged += 1;
                    tracing::error!(%error, "damaged state rows in the spool are skipped");
                    let blocked = |at: u128| {
                        let rest = self.states.range(at.to_be_bytes()..).next();
                        matches!(rest.map(Guard::key), Some(Err(_)))
                    };
                    let behind = first_open(last, u128::MAX, blocked);
                    let Some(behind) = behind.filter(|_| damaged < u64::from(DAMAGE_MAX)) else {
                        return damaged;
                    };
                    last = behind;
                    rows = self.states.range(last.to_be_bytes()..);
                }
            }
        }
    }

    /// True shortly before fjall would make a writer wait.
    pub(super) fn is_stalled(&self) -> bool {
        [&self.slices, &self.states].iter().any(|keyspace| {
            keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
                || keyspace.tree.l0_run_count() >= RUNS_MAX
        })
    }

    fn turn_full_memtables(&self) -> fjall::Result<()> {
        for keyspace in [&self.slices, &self.states] {
            if keyspace.tree.active_memtable().size() > MEMTABLE_BYTES {
                keyspace.rotate_memtable()?;
                // What the marks have not written would hold fjall's log.
                self.marks.rotate_memtable()?;
            }
        }
        Ok(())
    }

    pub(super) fn persist(&self, mode: PersistMode) -> fjall::Result<()> {
        self.fjall.persist(mode)
    }
}

fn closed_key(number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [CLOSED, a, b, c, d]
}

fn clock(last_us: i64, (number, segment): (u32, Segment)) -> Vec<u8> {
    let mut value = last_us.to_le_bytes().to_vec();
    value.extend_from_slice(&number.to_be_bytes());
    value.extend_from_slice(&segment.bytes());
    value
}

fn parse_clock(value: &[u8]) -> Option<(i64, (u32, Segment))> {
    let (last_us, rest) = value.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    Some((i64::from_le_bytes(*last_us), (u32::from_be_bytes(*number), Segment::read(rest)?)))
}

fn parse_cursor(value: &[u8]) -> Option<(u32, Option<Id>)> {
    let (segment, id) = value.split_first_chunk()?;
    let id = if id.is_empty() { None } else { Some(id.try_into().ok()?) };
    Some((u32::from_be_bytes(*segment), id))
}

fn parse_number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

fn damaged_marks(cause: impl std::fmt::Display) -> SpoolError {
    SpoolError::Corrupt { reason: format!("its marks cannot be read: {cause}") }
}
