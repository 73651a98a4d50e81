//! The fjall database: slices, state rows and marks share one log, so that a commit is one atomic batch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fjall::{AbstractTree, Keyspace, KeyspaceCreateOptions, PersistMode};
use plumbago_fjall_host::{Contents, Settings, pressure, rows_in_order};

use super::laps::Resend;
use super::row::Key;
use super::segment::{ARRIVED, Segment};
use super::{Id, State};
use crate::SpoolError;

const LOG_BYTES_MAX: u64 = 64 << 20;

const CLOCK: &[u8] = b"clock";
const CURSOR: &[u8] = b"cursor";
const LIVE_FROM: &[u8] = b"live-from";
/// The name on disk is that of format version 1.
const DEFERRED_SUMS: &[u8] = b"parked";
const ARRIVED_SUMS: [&[u8]; 2] = [b"arrived-0", b"arrived-1"];
const RESEND: &[u8] = b"resend";
const CLOSED: u8 = b's';
/// Number of slices that one batch removes.
const REMOVED_AT_ONCE: usize = 10_000;

/// An open database.
pub(super) struct Database {
    fjall: fjall::Database,
    slices: Keyspace,
    states: Keyspace,
    marks: Keyspace,
    /// Size of a memtable before it is written to disk, in bytes.
    memtable_bytes: u64,
}

/// The content of the marks.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last assigned timestamp, in microseconds since the epoch.
    pub(super) last_us: i64,
    /// The segment of the last commit, including that commit.
    pub(super) newest: (u32, Segment),
    /// Closed segments.
    pub(super) closed: BTreeMap<u32, Segment>,
    /// The segment of deferred slices.
    pub(super) deferred: Segment,
    /// The segments of deferred slices that have arrived.
    pub(super) arrived: [Segment; 2],
    /// The state of sending rows again.
    pub(super) resend: Resend,
    pub(super) live_from: u32,
    /// The cursor: everything before this segment is acknowledged, and this segment up to this metric.
    pub(super) cursor: (u32, Option<Id>),
}

/// The content of one batch.
pub(super) struct Commit<'a> {
    /// Keys and complete values of slices.
    pub(super) slices: Vec<(Key, Vec<u8>)>,
    pub(super) states: &'a [State<'a>],
    pub(super) timestamp_us: i64,
    /// The open segment including this commit.
    pub(super) newest: (u32, Segment),
}

/// How to open the database in `dir`.
pub(super) fn settings(dir: &Path, memtable_bytes: u64) -> Settings {
    Settings {
        dir: dir.to_owned(),
        format: "plumbago-spool",
        cache_bytes: memtable_bytes,
        log_bytes_max: LOG_BYTES_MAX,
    }
}

impl Contents for Database {
    fn database(&self) -> &fjall::Database {
        &self.fjall
    }
}

impl Database {
    /// Opens the keyspaces.
    pub(super) fn with(fjall: fjall::Database, memtable_bytes: u64) -> fjall::Result<Self> {
        let slices = fjall.keyspace("slices", rows_in_order)?;
        let states = fjall.keyspace("states", rows_in_order)?;
        let marks = fjall.keyspace("marks", KeyspaceCreateOptions::default)?;
        Ok(Self { fjall, slices, states, marks, memtable_bytes })
    }

    /// Reads the marks. The error names the damaged file and says what to do.
    pub(super) fn marks(&self) -> Result<Marks, SpoolError> {
        self.read_marks().map_err(|cause| {
            let directory = self.marks.path();
            let files = plumbago_fjall_host::damaged_in(directory);
            let file = files.first().map_or(directory, PathBuf::as_path).display();
            SpoolError::Corrupt {
                reason: format!(
                    "{file}, which records what was sent, cannot be read: {cause}. Nothing was changed. \
                     Restore the data \
                     directory from a backup, or run `plumbago repair store --all`, which loses rows that were not sent yet"
                ),
            }
        })
    }

    fn read_marks(&self) -> Result<Marks, String> {
        let mut marks = Marks::default();
        for row in self.marks.iter() {
            let (key, value) = row.into_inner().map_err(|error| error.to_string())?;
            let parsed = match &key[..] {
                CLOCK => parse_clock(&value).map(|(last_us, newest)| {
                    marks.last_us = last_us;
                    marks.newest = newest;
                }),
                CURSOR => parse_cursor(&value).map(|cursor| marks.cursor = cursor),
                DEFERRED_SUMS => Segment::read(&value).map(|segment| marks.deferred = segment),
                RESEND => Resend::read(&value).map(|resend| marks.resend = resend),
                LIVE_FROM => parse_number(&value).map(|number| marks.live_from = number),
                key if ARRIVED_SUMS.contains(&key) => {
                    let at = usize::from(key == ARRIVED_SUMS[1]);
                    Segment::read(&value).map(|segment| marks.arrived[at] = segment)
                }
                [CLOSED, number @ ..] => {
                    let row = parse_number(number).zip(Segment::read(&value));
                    marks.closed.extend(row);
                    row.map(|_| ())
                }
                _ => None,
            };
            parsed.ok_or_else(|| format!("its row {} has an unknown form", key.escape_ascii()))?;
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
        self.rotate_full_memtables()
    }

    /// Writes slices; `None` removes one. `sums` has the new sums of those deferred and arrived segments that
    /// the slices belong to.
    pub(super) fn change(
        &self,
        slices: Vec<(Key, Option<Vec<u8>>)>,
        sums: &[(u32, Segment)],
    ) -> fjall::Result<()> {
        let mut batch = fjall::OwnedWriteBatch::with_capacity(self.fjall.clone(), slices.len() + 1)
            .durability(Some(PersistMode::Buffer));
        for (key, value) in slices {
            match value {
                Some(value) => batch.insert(&self.slices, key.bytes(), value),
                None => batch.remove(&self.slices, key.bytes()),
            }
        }
        for (number, segment) in sums {
            batch.insert(&self.marks, sums_key(*number), segment.bytes());
        }
        batch.commit()?;
        self.rotate_full_memtables()
    }

    pub(super) fn mark_closed(&self, number: u32, segment: Segment) -> fjall::Result<()> {
        self.marks.insert(closed_key(number), segment.bytes())
    }

    /// Replaces the record of which slices have to be sent again; `None` removes it.
    pub(super) fn mark_resend(&self, mark: Option<Vec<u8>>) -> fjall::Result<()> {
        match mark {
            Some(mark) => self.marks.insert(RESEND, mark),
            None => self.marks.remove(RESEND),
        }
    }

    pub(super) fn mark_cursor(&self, segment: u32, id: Option<Id>) -> fjall::Result<()> {
        let mut value = segment.to_be_bytes().to_vec();
        value.extend(id.iter().flatten());
        self.marks.insert(CURSOR, value)
    }

    /// Drops the segments before `number`. After a crash in between, some of their slices are sent again,
    /// which changes nothing.
    pub(super) fn drop_before(&self, number: u32, dropped: impl Iterator<Item = u32>) -> fjall::Result<()> {
        self.marks.insert(LIVE_FROM, number.to_be_bytes())?;
        for number in dropped {
            self.marks.remove(closed_key(number))?;
        }
        // Deferred slices (segment 0) stay.
        let doomed = Key::first(1, [0; 16])..Key::first(number, [0; 16]);
        self.slices.tree.drop_range(doomed.start.bytes()..doomed.end.bytes())?;
        // Rotating a memtable also makes fjall remove dropped files.
        self.marks.rotate_memtable()?;
        Ok(())
    }

    /// Drops one of the segments of arrived slices. The number will be reused, so no slice of the segment may
    /// remain.
    pub(super) fn drop_arrived(&self, number: u32) -> fjall::Result<()> {
        let (first, end) = (Key::first(number, [0; 16]), Key::end(number));
        self.slices.tree.drop_range(first.bytes()..=end.bytes())?;
        loop {
            let mut rest = Vec::new();
            self.visit_slices(first, end, &mut |key, _| {
                rest.push((key, None));
                rest.len() < REMOVED_AT_ONCE
            });
            if rest.is_empty() {
                break;
            }
            self.change(rest, &[])?;
        }
        self.marks.remove(sums_key(number))?;
        self.marks.rotate_memtable()?;
        Ok(())
    }

    /// Visits slices from `from` to `to`, both included, until `visit` returns `false`. Skips damaged places
    /// and returns how many there were.
    pub(super) fn visit_slices(
        &self,
        from: Key,
        to: Key,
        visit: &mut dyn FnMut(Key, fjall::Slice) -> bool,
    ) -> u64 {
        let mut damaged = 0;
        plumbago_fjall_host::scan(
            &self.slices,
            &from.bytes(),
            Some(&to.bytes()),
            &mut |last, error| {
                damaged += 1;
                let segment = Key::segment_of(last);
                tracing::error!(segment, %error, "skipping damaged slices in the spool; their points are lost unless the server has them");
            },
            &mut |key, value| Key::read(key).is_none_or(|key| visit(key, value)),
        );
        damaged
    }

    /// The directory of the state rows.
    pub(super) fn states(&self) -> &Path {
        self.states.path()
    }

    /// The directory of the slices.
    pub(super) fn slices(&self) -> &Path {
        self.slices.path()
    }

    /// Visits state rows in id order. Skips damaged places and returns how many there were.
    pub(super) fn visit_states(&self, visit: &mut dyn FnMut(Id, &[u8])) -> u64 {
        let mut damaged = 0;
        plumbago_fjall_host::scan(
            &self.states,
            &[],
            None,
            &mut |_, error| {
                damaged += 1;
                tracing::error!(%error, "skipping damaged state rows in the spool; the points of their metrics are lost unless the journal has them");
            },
            &mut |key, value| {
                if let Ok(id) = Id::try_from(key) {
                    visit(id, &value);
                }
                true
            },
        );
        damaged
    }

    /// Whether fjall is about to make writers wait.
    pub(super) fn is_stalled(&self) -> bool {
        [&self.slices, &self.states].into_iter().any(pressure::is_behind)
    }

    fn rotate_full_memtables(&self) -> fjall::Result<()> {
        for keyspace in [&self.slices, &self.states] {
            if pressure::is_full(keyspace, self.memtable_bytes) {
                keyspace.rotate_memtable()?;
                // Marks that are in no table yet would keep fjall from dropping its log.
                self.marks.rotate_memtable()?;
            }
        }
        Ok(())
    }
}

fn sums_key(number: u32) -> &'static [u8] {
    match ARRIVED.iter().position(|arrived| *arrived == number) {
        Some(at) => ARRIVED_SUMS[at],
        None => DEFERRED_SUMS,
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
