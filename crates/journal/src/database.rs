//! The fjall database underneath: opening, keyspaces, and which of its errors mean what.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::config::{CompressionPolicy, FilterPolicy};
use fjall::{CompressionType, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::JournalError;
use crate::frame::RECORDS_MAX;
use crate::segment::{Segment, name_of, number_of};

/// Replay reads every block once, so a cache would only cost memory.
const CACHE_BYTES: u64 = 1 << 20;
const MEMTABLE_BYTES: u64 = 8 << 20;
/// fjall's own log files, beyond which it makes the oldest keyspaces flush.
const LOG_BYTES: u64 = 128 << 20;

/// The keyspace that is never dropped.
const MARKS: &str = "marks";
const DROPPED: &str = "dropped-before";

/// An open database and its segments.
pub(crate) struct Database {
    path: PathBuf,
    fjall: fjall::Database,
    marks: Keyspace,
    segments: BTreeMap<u32, Arc<Segment>>,
}

impl Database {
    /// Opens or creates the database in `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let fjall = open_fjall(path).map_err(|error| open_error(path, error))?;
        let fail = |error| open_error(path, error);
        let marks = fjall.keyspace(MARKS, options).map_err(fail)?;
        let mut segments = BTreeMap::new();
        for name in fjall.list_keyspace_names() {
            let Some(number) = number_of(&name) else { continue };
            let keyspace = fjall.keyspace(&name, options).map_err(fail)?;
            let first = keyspace.first_key_value().map(sequence_of).transpose().map_err(fail)?;
            segments.insert(number, Arc::new(Segment::new(keyspace, first)));
        }
        Ok(Self { path: path.to_owned(), fjall, marks, segments })
    }

    pub(crate) fn segments(&self) -> &BTreeMap<u32, Arc<Segment>> {
        &self.segments
    }

    /// The last number that any frame may have used.
    pub(crate) fn last_sequence(&self) -> Result<u64, JournalError> {
        let mut last = 0;
        for segment in self.segments.values() {
            let newest = segment.keyspace.last_key_value().map(sequence_of).transpose();
            let newest = newest.map_err(|error| open_error(&self.path, error))?;
            last = last.max(newest.map_or(0, |first| first.saturating_add(RECORDS_MAX as u64 - 1)));
        }
        Ok(last)
    }

    /// Makes the keyspace of a segment. It takes some milliseconds, since fjall syncs it.
    pub(crate) fn create_segment(&self, number: u32) -> fjall::Result<Arc<Segment>> {
        let keyspace = self.fjall.keyspace(&name_of(number), options)?;
        Ok(Arc::new(Segment::new(keyspace, None)))
    }

    pub(crate) fn add_segment(&mut self, number: u32, segment: Arc<Segment>) {
        self.segments.entry(number).or_insert(segment);
    }

    /// Takes segments before `number` from the list, oldest first; nobody finds them any more.
    pub(crate) fn take_segments_before(&mut self, number: u32) -> Vec<(u32, Arc<Segment>)> {
        let kept = self.segments.split_off(&number);
        std::mem::replace(&mut self.segments, kept).into_iter().collect()
    }

    /// Deletes a keyspace; its files go with the last handle.
    pub(crate) fn delete_segment(&self, segment: &Segment) -> fjall::Result<()> {
        self.fjall.delete_keyspace(segment.keyspace.clone())
    }

    /// Notes that segments were dropped.
    ///
    /// The note itself is of no use, but its version number is: fjall recovers its own counter from
    /// live keyspaces only, and a keyspace created below the number of an older deletion would be
    /// taken for deleted at the next open.
    pub(crate) fn mark_dropped(&self, before: u32) -> fjall::Result<()> {
        self.marks.insert(DROPPED, before.to_be_bytes())
    }

    pub(crate) fn persist(&self, mode: PersistMode) -> fjall::Result<()> {
        self.fjall.persist(mode)
    }
}

fn open_fjall(path: &Path) -> fjall::Result<fjall::Database> {
    fjall::Database::builder(path)
        .worker_threads(1)
        .cache_size(CACHE_BYTES)
        .journal_compression(CompressionType::None)
        .max_journaling_size(LOG_BYTES)
        .open()
}

/// Frames are read once or never: no compression, no filters.
fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
}

fn sequence_of(row: fjall::Guard) -> fjall::Result<u64> {
    let key = row.key()?;
    let mut bytes = [0; 8];
    // A key of another length is not ours; its frame is refused in replay.
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
            JournalError::Unavailable { reason: cause.to_string() }
        }
        fjall::Error::Io(cause) => JournalError::failed(format!("open {}", path.display()), cause),
        damage => JournalError::Corrupt { path, reason: damage.to_string() },
    }
}

/// True for the errors that go away when someone makes room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
