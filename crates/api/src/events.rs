//! Events: notes about a moment in time, such as a deployment, that graphs can show.
//!
//! All events are in memory, and in one file from which the next start reads them (`docs/formats/events.md`). Both
//! have a limit in bytes. The oldest events are dropped first. Each daemon on the same store keeps its own events;
//! `peers` finds the events of all of them.

mod file;
mod ids;
mod list;
mod missing;
mod peers;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plumbago_store::EventFilter;
use serde::{Deserialize, Serialize};

use file::{EventFile, Opened};
use list::List;
pub use missing::{AddedEvents, NewEvent};
pub use peers::EventPeers;

/// Largest line of an event in the file, in bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 64 << 10;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Number of the event, assigned by `EventLog::add` (see `ids`).
    pub(crate) id: u64,
    /// Seconds since the epoch.
    pub(crate) when: i64,
    /// Title.
    pub(crate) what: String,
    /// Longer description; may be empty.
    pub(crate) data: String,
    pub(crate) tags: Vec<String>,
}

/// Why an event was not stored. The message is sent to the client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error("the event is longer than {EVENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the event could not be written: {0}")]
    Io(#[from] io::Error),
}

/// The stored events, at most a configured number of bytes.
#[derive(Debug)]
pub struct EventLog {
    list: RwLock<List>,
    /// Locked while an event is written, so that the order in the file is the order of the ids. Readers do
    /// not take this lock. `None` if events are switched off.
    file: Mutex<Option<EventFile>>,
    /// The other daemons on the same store; `None` if there can be none.
    peers: Option<Arc<dyn EventPeers>>,
    /// The damage of the file that was found when it was opened.
    damage: Option<String>,
}

impl EventLog {
    /// Opens a file of events, or creates it, and loads the newest events that take at most `bytes_max`
    /// bytes.
    ///
    /// # Errors
    ///
    /// An `io::Error` if the file cannot be opened or read, an incomplete last line cannot be cut off, or the
    /// directory cannot be synced.
    pub fn open(path: &Path, bytes_max: usize) -> io::Result<Self> {
        let Opened { file, events, damage } = EventFile::open(path)?;
        let mut list = List::new(bytes_max);
        events.into_iter().for_each(|(event, bytes)| list.push(event, bytes));
        Ok(Self { list: RwLock::new(list), file: Mutex::new(Some(file)), peers: None, damage })
    }

    /// Returns a log that has no events and accepts none.
    pub fn off() -> Self {
        Self { list: RwLock::new(List::new(0)), file: Mutex::new(None), peers: None, damage: None }
    }

    /// The damage of the file that was found when it was opened, and the loss; `None` if nothing was wrong.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Whether events are accepted.
    pub(crate) fn is_on(&self) -> bool {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Stores an event and assigns its id. Returns once the event is synced to disk, so it blocks.
    ///
    /// # Errors
    ///
    /// `EventError::TooLarge` if its line in the file would be too long, `EventError::Io` if events are
    /// switched off or the file cannot be written. The event is not stored then.
    pub(crate) fn add(&self, mut event: Event) -> Result<u64, EventError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &mut *file else {
            return Err(io::Error::other("this server keeps no events (api.events_bytes is 0)").into());
        };
        event.id = self.next_id();
        let mut line = serde_json::to_vec(&event).map_err(io::Error::from)?;
        line.push(b'\n');
        if line.len() > EVENT_BYTES_MAX {
            return Err(EventError::TooLarge);
        }
        file.append(&line)?;
        let id = event.id;
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(event, line.len());
        let list = self.read();
        if file.bytes() > 2 * list.bytes_max() as u64 {
            // The event is stored already. If shortening the file failed, the next event triggers it again.
            if let Err(error) = file.rewrite(&list.all()) {
                tracing::warn!(%error, "failed to shorten the events file; the next event tries again");
            }
        }
        Ok(id)
    }

    /// Returns the event of this daemon with this id.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Event>> {
        self.read().get(id)
    }

    /// Returns the selected events of this daemon, ordered by time. The time it takes grows with the number
    /// of all events.
    pub(crate) fn find(&self, filter: &EventFilter) -> Vec<Arc<Event>> {
        self.read().find(filter)
    }

    /// The id of the next event.
    fn next_id(&self) -> u64 {
        ids::id(self.origin(), self.read().next_number())
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
