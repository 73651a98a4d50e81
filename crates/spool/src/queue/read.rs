//! Slices by metric, for reads and deletions.

use std::time::Duration;

use super::Id;
use super::row::{Key, read_value, value};
use super::shared::Shared;
use crate::SpoolError;

/// Reads include slices for this long after their acknowledgement, because a read may be answered by a
/// replica that gets the rows a little later than the replicas that acknowledged them.
pub(super) const READABLE_AFTER: Duration = Duration::from_secs(60);

/// The largest number of changes in one batch.
const CHANGES_MAX: usize = 10_000;

/// What [`crate::Spool::edit`] does with a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Leaves it as it is.
    Keep,
    /// Removes it.
    Remove,
    /// Replaces it: the number of rows, and their bytes.
    Replace(u32, Vec<u8>),
}

impl Shared {
    pub(super) fn read_slices(
        &self,
        ids: &[Id],
        acknowledged_within: Option<Duration>,
        visit: &mut dyn FnMut(usize, i64, &[u8]),
    ) -> Result<(), SpoolError> {
        let since_ms =
            acknowledged_within.map_or(i64::MIN, |within| self.steady_ms() - within.as_millis() as i64);
        for segment in self.readable_segments(since_ms) {
            // 0 for segments of deferred and arrived slices, which keep their own timestamps.
            let sent_us = self.last_us_of(segment);
            for (place, id) in ids.iter().enumerate() {
                self.visit(Key::first(segment, *id), Key::last(segment, *id), &mut |key, value| {
                    match read_value(&value) {
                        Some((_, bytes)) => visit(place, key.timestamp_us.max(sent_us), bytes),
                        None => self.report_damage(&key, "its value is not a slice"),
                    }
                    true
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn edit(
        &self,
        ids: &[Id],
        change: &mut dyn FnMut(usize, i64, &[u8]) -> Edit,
    ) -> Result<(), SpoolError> {
        let _commits = self.hold_commits();
        let mut changes = Vec::new();
        for segment in self.readable_segments(i64::MIN) {
            for (place, id) in ids.iter().enumerate() {
                self.visit(Key::first(segment, *id), Key::last(segment, *id), &mut |key, old| {
                    let Some((_, bytes)) = read_value(&old) else { return true };
                    match change(place, key.timestamp_us, bytes) {
                        Edit::Keep => {}
                        Edit::Remove => changes.push((key, None)),
                        Edit::Replace(rows, bytes) => {
                            changes.push((key, Some(value(rows, &bytes))));
                        }
                    }
                    true
                })?;
                if changes.len() >= CHANGES_MAX {
                    self.replace(std::mem::take(&mut changes))?;
                }
            }
        }
        self.replace(changes)
    }
}
