//! Converts format 1 of the journal, which was a fjall database, to format 2.
//!
//! The keyspace `frames` has one row per frame. Its key is the segment's number and the frame's first
//! sequence number. The keyspace `marks` holds the number of the first live segment.

use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use fjall::{Guard, Keyspace, KeyspaceCreateOptions};
use plumbago_fjall_host::{HostError, Settings, rows_in_order};

use crate::JournalError;
use crate::frame::{self, PLACE_BYTES};
use crate::log::Log;

pub(crate) const VERSION: u32 = 1;

/// Small, because every block is read only once.
const CACHE_BYTES: u64 = 1 << 20;
/// Total size of sealed logs above which fjall flushes. It accepts no smaller limit.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// After this many unreadable places the rest of a segment is skipped.
const READ_ERRORS_MAX: u32 = 1000;

/// Whether the directory holds files of a fjall database.
pub(crate) fn is_present(dir: &Path) -> bool {
    ["version", "keyspaces", "0.jnl"].iter().any(|name| dir.join(name).exists())
}

/// Copies all frames of live segments into the empty `log` and syncs its files. Damaged frames are logged and left
/// out. Returns their number.
///
/// # Errors
///
/// As for opening the database, and `Unavailable` or `Failed` if the log files cannot be written or synced.
pub(crate) fn convert(dir: &Path, log: Log) -> Result<u64, JournalError> {
    let disk = Arc::clone(&log.disk);
    let mut conversion =
        Conversion { database: Database::open(dir)?, log, stored: Vec::new(), frames: 0, damaged: 0 };
    conversion.copy_segments()?;
    let Conversion { mut log, frames, damaged, .. } = conversion;
    let failed = |error| JournalError::failed(format!("sync the journal in {}", dir.display()), error);
    for file in log.unsynced().map_err(failed)? {
        disk.sync(&file.file).map_err(failed)?;
    }
    disk.sync_dir(dir).map_err(failed)?;
    log.close();
    tracing::info!(dir = %dir.display(), frames, damaged, "the journal was converted from format 1 to 2");
    Ok(damaged)
}

/// Removes the database files of format 1.
///
/// # Errors
///
/// `Failed` if a file cannot be removed.
pub(crate) fn remove(dir: &Path) -> Result<(), JournalError> {
    let failed =
        |error| JournalError::failed(format!("remove files of format 1 from {}", dir.display()), error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let removed = match &*name {
            "keyspaces" => fs::remove_dir_all(entry.path()),
            "version" => fs::remove_file(entry.path()),
            log if log.ends_with(".jnl") => fs::remove_file(entry.path()),
            _ => Ok(()),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(())
}

struct Conversion {
    database: Database,
    log: Log,
    /// The frame being copied, with space for its place in front.
    stored: Vec<u8>,
    frames: u64,
    damaged: u64,
}

impl Conversion {
    fn copy_segments(&mut self) -> Result<(), JournalError> {
        let mut from = Key::new(self.database.live_from, 0);
        while let Some(key) = self.database.first_key(from) {
            self.copy_segment(key.segment)?;
            let Some(next) = key.segment.checked_add(1) else { break };
            from = Key::new(next, 0);
        }
        Ok(())
    }

    fn copy_segment(&mut self, segment: u32) -> Result<(), JournalError> {
        let mut at = Key::new(segment, 0);
        let mut rows = self.database.rows(Key::all_of(segment));
        let mut errors = 0;
        while let Some(row) = rows.next() {
            match row.into_inner() {
                Ok((key, value)) => {
                    at = Key::read(&key).unwrap_or(at);
                    self.copy_frame(at, &value)?;
                }
                Err(error) => {
                    self.note_damage(at, &error);
                    errors += 1;
                    let end = Key::new(segment, u64::MAX);
                    let behind = (errors < READ_ERRORS_MAX).then(|| self.database.first_readable(at, end));
                    let Some(behind) = behind.flatten() else { return Ok(()) };
                    rows = self.database.rows(behind..=end);
                }
            }
        }
        Ok(())
    }

    fn copy_frame(&mut self, key: Key, frame: &[u8]) -> Result<(), JournalError> {
        if let Err(error) = check_row(key, frame) {
            self.note_damage(key, &error);
            return Ok(());
        }
        self.stored.clear();
        self.stored.resize(PLACE_BYTES, 0);
        self.stored.extend_from_slice(frame);
        self.stored.resize(frame::stored_len(frame.len()) as usize, 0);
        self.frames += 1;
        self.log.append(key.segment, key.first_sequence, &mut self.stored)
    }

    fn note_damage(&mut self, key: Key, error: &dyn std::fmt::Display) {
        self.damaged += 1;
        tracing::error!(
            segment = key.segment, frame = key.first_sequence, %error,
            "a damaged journal frame was skipped; its points are lost unless they were stored"
        );
    }
}

/// Checks that a frame is intact and stored under its own sequence number.
fn check_row(key: Key, frame: &[u8]) -> Result<(), frame::FrameError> {
    frame::check(frame)?;
    if frame::first_sequence(frame) == key.first_sequence { Ok(()) } else { Err(frame::FrameError::Content) }
}

/// The database, opened to be read.
struct Database {
    _fjall: fjall::Database,
    frames: Keyspace,
    live_from: u32,
}

impl Database {
    fn open(dir: &Path) -> Result<Self, JournalError> {
        let settings = Settings {
            dir: dir.to_owned(),
            format: crate::format::JOURNAL,
            cache_bytes: CACHE_BYTES,
            log_bytes_max: LOG_BYTES_MAX,
        };
        let fjall = plumbago_fjall_host::open(&settings)?.database;
        Self::with(fjall).map_err(|error| HostError::opening(dir, error).into())
    }

    fn with(fjall: fjall::Database) -> fjall::Result<Self> {
        let frames = fjall.keyspace("frames", rows_in_order)?;
        let marks = fjall.keyspace("marks", KeyspaceCreateOptions::default)?;
        let mark = marks.get("live-from")?;
        let live_from = mark.and_then(|mark| mark[..].try_into().ok()).map_or(0, u32::from_be_bytes);
        Ok(Self { _fjall: fjall, frames, live_from })
    }

    fn rows(&self, keys: RangeInclusive<Key>) -> fjall::Iter {
        self.frames.range(keys.start().bytes()..=keys.end().bytes())
    }

    /// The first readable key at or after `from`.
    fn first_key(&self, from: Key) -> Option<Key> {
        match self.frames.range(from.bytes()..).next().map(Guard::key) {
            None => None,
            Some(Ok(key)) => Key::read(&key),
            Some(Err(error)) => {
                tracing::error!(segment = from.segment, %error, "the journal is damaged; searching for the next readable frame");
                let behind = self.first_readable(from, Key::new(u32::MAX, u64::MAX))?;
                self.frames.range(behind.bytes()..).next()?.key().ok().and_then(|key| Key::read(&key))
            }
        }
    }

    /// The key from which rows can be read again after a damaged block at `from`; `None` if there is no such
    /// key before `to`. fjall's iterators stop at a damaged block, so the end of the block has to be searched
    /// for.
    fn first_readable(&self, from: Key, to: Key) -> Option<Key> {
        let blocked = |at: u128| {
            let rest = self.frames.range(Key::from_number(at).bytes()..=to.bytes()).next();
            matches!(rest.map(Guard::key), Some(Err(_)))
        };
        first_open(from.number(), to.number(), blocked).map(Key::from_number)
    }
}

/// The first position after `from` that is not blocked. The blocked positions must form one range that starts
/// at `from`. `None` if that range extends to `to`.
pub(crate) fn first_open(from: u128, to: u128, blocked: impl Fn(u128) -> bool) -> Option<u128> {
    let mut low = from;
    let mut step = 1;
    while blocked((low + step).min(to)) {
        low += step;
        if low >= to {
            return None;
        }
        step *= 2;
    }
    let mut high = (low + step).min(to);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if blocked(middle) { low = middle } else { high = middle }
    }
    Some(high)
}

/// The key of a frame's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    segment: u32,
    first_sequence: u64,
}

impl Key {
    const BYTES: usize = 12;

    fn new(segment: u32, first_sequence: u64) -> Self {
        Self { segment, first_sequence }
    }

    /// All keys of a segment.
    fn all_of(segment: u32) -> RangeInclusive<Self> {
        Self::new(segment, 0)..=Self::new(segment, u64::MAX)
    }

    fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_be_bytes());
        bytes[4..].copy_from_slice(&self.first_sequence.to_be_bytes());
        bytes
    }

    /// `None` if the bytes are not the key of a frame.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (segment, first_sequence) = bytes.split_at_checked(4)?;
        Some(Self {
            segment: u32::from_be_bytes(segment.try_into().ok()?),
            first_sequence: u64::from_be_bytes(first_sequence.try_into().ok()?),
        })
    }

    /// The key as one number, in the order of the keys.
    fn number(self) -> u128 {
        u128::from(self.segment) << 64 | u128::from(self.first_sequence)
    }

    fn from_number(number: u128) -> Self {
        Self { segment: (number >> 64) as u32, first_sequence: number as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, FrameError};

    #[test]
    fn a_frame_under_the_wrong_key_is_refused() {
        let mut frame = Frame::new();
        frame.begin(7);
        frame.push_removal(1);
        let bytes = frame.with_encoded(|_, stored| stored[PLACE_BYTES..PLACE_BYTES + 36].to_vec());
        assert_eq!(check_row(Key::new(5_666_667, 7), &bytes), Ok(()));
        assert_eq!(check_row(Key::new(5_666_667, 8), &bytes), Err(FrameError::Content));
    }

    #[test]
    fn keys_keep_their_order() {
        let keys = [(0, 0), (0, u64::MAX), (1, 0), (1, 1), (u32::MAX, u64::MAX)].map(|(s, n)| Key::new(s, n));
        for pair in keys.windows(2) {
            assert!(
                pair[0] < pair[1] && pair[0].bytes() < pair[1].bytes() && pair[0].number() < pair[1].number()
            );
        }
        for key in keys {
            assert_eq!(Key::read(&key.bytes()), Some(key));
            assert_eq!(Key::from_number(key.number()), key);
        }
        assert_eq!(Key::read(&[0; 8]), None);
    }
}
