//! The fjall database underneath: opening, keyspaces, and what its errors mean.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use fjall::config::{CompressionPolicy, FilterPolicy};
use fjall::{CompressionType, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::JournalError;
use crate::frame::RECORDS_MAX;
use crate::repair::{Repair, repair};
use crate::segment::{Segment, name_of, number_of};

/// Replay reads every block once, so a cache would only cost memory.
const CACHE_BYTES: u64 = 1 << 20;
/// Sealed log files of fjall's beyond which it makes the oldest keyspaces flush.
const SEALED_LOG_BYTES: u64 = 128 << 20;
/// All log files beyond which we make every keyspace flush.
const LOG_BYTES_MAX: u64 = 192 << 20;

/// Skipped when the newest frame cannot be read, so that no number is given twice.
const UNKNOWN_NUMBERS: u64 = 1 << 40;

const KEEPER_PREFIX: &str = "keeper-";

/// An open database and its segments.
pub(crate) struct Database {
    path: PathBuf,
    fjall: fjall::Database,
    segments: BTreeMap<u32, Segment>,
    /// See [`Database::delete`].
    keeper: Mutex<Option<Keyspace>>,
}

impl Database {
    /// Opens or creates the database in `path`; says so when a torn tail was cut for that.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<Repair>), JournalError> {
        crate::format::check(path)?;
        crate::repair::clear_unfinished(path)?;
        let mut repaired = None;
        let fjall = match open_fjall(path) {
            Err(fjall::Error::JournalRecovery(_)) => {
                repaired = Some(repair(path)?);
                open_fjall(path)
            }
            result => result,
        };
        let fjall = fjall.map_err(|error| open_error(path, error))?;
        crate::format::write(path)?;
        Ok((Self::with(path, fjall)?, repaired))
    }

    fn with(path: &Path, fjall: fjall::Database) -> Result<Self, JournalError> {
        let mut segments = BTreeMap::new();
        let mut keeper: Option<Keyspace> = None;
        for name in fjall.list_keyspace_names() {
            let keyspace = fjall.keyspace(&name, options).map_err(|error| open_error(path, error))?;
            if let Some(number) = number_of(&name) {
                segments.insert(number, Segment::open(keyspace));
            } else if keeper.as_ref().is_none_or(|other| other.id() < keyspace.id()) {
                keeper = Some(keyspace);
            }
        }
        Ok(Self { path: path.to_owned(), fjall, segments, keeper: Mutex::new(keeper) })
    }

    pub(crate) fn segments(&self) -> &BTreeMap<u32, Segment> {
        &self.segments
    }

    /// Bytes of frames in all segments.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes.load(Ordering::Relaxed)).sum()
    }

    /// The last number that any frame may have used.
    pub(crate) fn last_sequence(&self) -> u64 {
        let mut last = 0;
        let mut unknown = 0;
        for segment in self.segments.values() {
            match segment.keyspace.last_key_value().map(sequence_of) {
                Some(Ok(first)) => last = last.max(first.saturating_add(RECORDS_MAX as u64 - 1)),
                Some(Err(error)) => {
                    tracing::error!(path = %self.path.display(), %error, "the end of a journal segment cannot be read");
                    last = last.max(segment.first_sequence().unwrap_or(0));
                    unknown = UNKNOWN_NUMBERS;
                }
                None => {}
            }
        }
        last.saturating_add(unknown)
    }

    /// Makes the keyspace of a segment. It takes some milliseconds, since fjall syncs it.
    pub(crate) fn create_segment(&self, number: u32) -> fjall::Result<Segment> {
        Ok(Segment::open(self.fjall.keyspace(&name_of(number), options)?))
    }

    pub(crate) fn add_segment(&mut self, number: u32, segment: Segment) {
        self.segments.entry(number).or_insert(segment);
    }

    /// Takes the segments before `number` from the list, so that nobody finds them any more.
    pub(crate) fn take_before(&mut self, number: u32) -> BTreeMap<u32, Segment> {
        let kept = self.segments.split_off(&number);
        std::mem::replace(&mut self.segments, kept)
    }

    /// Deletes segments; their files go with the last handle.
    ///
    /// The keyspace with the highest id must stay: at the next open fjall counts on from the highest
    /// id that it finds, and a keyspace that gets the id of a deleted one is taken for deleted at
    /// the open after that, with all its rows. An empty keyspace serves.
    pub(crate) fn delete(&self, segments: &BTreeMap<u32, Segment>) -> fjall::Result<()> {
        let Some(highest) = segments.values().map(|segment| segment.keyspace.id()).max() else {
            return Ok(());
        };
        let mut keeper = crate::lock(&self.keeper);
        let kept = self.segments.values().map(|segment| segment.keyspace.id());
        if kept.chain(keeper.iter().map(|keeper| keeper.id())).all(|id| id < highest) {
            let fresh = self.fjall.keyspace(&format!("{KEEPER_PREFIX}{highest:020}"), options)?;
            if let Some(old) = keeper.replace(fresh) {
                self.fjall.delete_keyspace(old)?;
            }
        }
        segments.values().try_for_each(|segment| self.fjall.delete_keyspace(segment.keyspace.clone()))
    }

    pub(crate) fn persist(&self, mode: PersistMode) -> fjall::Result<()> {
        self.fjall.persist(mode)
    }

    /// Lets fjall drop its own log files when they have grown.
    ///
    /// It looks at them only when a memtable is full, and where little is written that never
    /// happens before the segment is dropped: the log would grow for ever.
    pub(crate) fn shorten_log(&self) -> fjall::Result<()> {
        if self.fjall.journal_disk_space()? < LOG_BYTES_MAX {
            return Ok(());
        }
        self.segments.values().try_for_each(Segment::flush)
    }

    /// Writes out what closed segments have left in memory. Those that never filled a memtable may
    /// stay there: most are dropped before they cost a write.
    pub(crate) fn settle_before(&self, number: u32) -> fjall::Result<()> {
        self.segments
            .range(..number)
            .filter(|(_, segment)| segment.keyspace.disk_space() > 0)
            .try_for_each(|(_, segment)| segment.flush())
    }
}

fn open_fjall(path: &Path) -> fjall::Result<fjall::Database> {
    fjall::Database::builder(path)
        .worker_threads(1)
        .cache_size(CACHE_BYTES)
        .journal_compression(CompressionType::None)
        .max_journaling_size(SEALED_LOG_BYTES)
        .open()
}

/// Frames are read once or never: no compression, no filters. Full memtables are our business, see
/// [`Segment::insert`].
fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(u64::MAX)
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
}

/// The number in a row's key. A key of another length is not ours; replay refuses its frame.
pub(crate) fn sequence_of(row: Guard) -> fjall::Result<u64> {
    let key = row.key()?;
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    Ok(u64::from_be_bytes(bytes))
}

fn open_error(path: &Path, error: fjall::Error) -> JournalError {
    let path = path.to_owned();
    match error {
        fjall::Error::Locked => JournalError::Locked { path },
        fjall::Error::InvalidVersion(found) => JournalError::Format {
            path: path.join("version"),
            found: found.map_or_else(|| "no version".to_owned(), |version| format!("{version:?}")),
        },
        fjall::Error::Io(ref cause) if is_full(cause) => {
            JournalError::Unavailable { reason: format!("{}: {cause}", path.display()) }
        }
        fjall::Error::Io(cause) => JournalError::failed(format!("open {}", path.display()), cause),
        damage => JournalError::Corrupt { path, reason: damage.to_string() },
    }
}

/// True for the errors that go away when someone makes room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The case in which fjall loses a keyspace: all were dropped, its log knows of none of them any
    /// more, and the next one gets the id of an old one.
    #[test]
    fn segments_made_after_everything_was_dropped_survive() {
        let dir = tempfile::tempdir().unwrap();
        let frame = vec![7; 60_000];
        {
            let (mut database, _) = Database::open(dir.path()).unwrap();
            for number in 0..3 {
                database.add_segment(number, database.create_segment(number).unwrap());
                let segment = &database.segments()[&number];
                for key in 0..1200u64 {
                    segment.insert(&key.to_be_bytes(), &frame).unwrap();
                }
                segment.keyspace.rotate_memtable_and_wait().unwrap();
                let doomed = database.take_before(number + 1);
                database.delete(&doomed).unwrap();
            }
        }
        {
            let (database, _) = Database::open(dir.path()).unwrap();
            assert!(database.segments().is_empty());
            let segment = database.create_segment(9).unwrap();
            segment.insert(&1u64.to_be_bytes(), &frame).unwrap();
        }
        let (database, _) = Database::open(dir.path()).unwrap();
        assert_eq!(database.segments()[&9].first_sequence(), Some(1));
    }

    /// Many small frames at full speed: fjall's worker must not lock itself up.
    #[test]
    fn memtables_go_to_disk_under_a_flood() {
        let dir = tempfile::tempdir().unwrap();
        let (mut database, _) = Database::open(dir.path()).unwrap();
        database.add_segment(1, database.create_segment(1).unwrap());
        let segment = &database.segments()[&1];
        let next = std::sync::atomic::AtomicU64::new(0);
        let (frames, frame) = (600_000, [7; 200]);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let key = next.fetch_add(1, Ordering::Relaxed);
                        if key >= frames {
                            return;
                        }
                        while segment.is_stalled() {
                            std::thread::yield_now();
                        }
                        segment.insert(&key.to_be_bytes(), &frame).unwrap();
                    }
                });
            }
        });
        segment.keyspace.rotate_memtable_and_wait().unwrap();
        assert!(segment.keyspace.disk_space() > frames * 200);
        assert_eq!(segment.keyspace.iter().count() as u64, frames);
    }
}
