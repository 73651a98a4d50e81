//! Events: what happened when, as people and their deployment scripts note it.
//!
//! They are in memory and, for the next start, in one file of lines (`docs/formats/events.md`); both are
//! bounded by bytes, and the oldest go first.

mod file;
mod list;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use file::EventFile;
use list::List;

/// What one event may take as a line of the file.
pub(crate) const EVENT_BYTES_MAX: usize = 64 << 10;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) id: u64,
    /// Seconds since the epoch.
    pub(crate) when: i64,
    pub(crate) what: String,
    pub(crate) data: String,
    pub(crate) tags: Vec<String>,
}

/// Which events are asked for.
#[derive(Debug, Default)]
pub(crate) struct Question {
    /// Seconds since the epoch, both included.
    pub(crate) from: i64,
    pub(crate) until: i64,
    /// Only those with these tags.
    pub(crate) tags: Option<Vec<String>>,
    /// One of the tags is enough.
    pub(crate) any: bool,
}

/// Why an event is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error("an event takes at most {EVENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the event could not be written: {0}")]
    Io(#[from] io::Error),
}

/// All events.
#[derive(Debug)]
pub struct EventLog {
    list: RwLock<List>,
    /// Held while an event is written, which orders them; never while readers wait for it.
    file: Mutex<Option<EventFile>>,
}

impl EventLog {
    /// The events of a file, which need not be there yet; at most `bytes_max` of them.
    pub fn open(path: &Path, bytes_max: usize) -> io::Result<Self> {
        let (file, events) = EventFile::open(path)?;
        let mut list = List::new(bytes_max);
        events.into_iter().for_each(|(event, bytes)| list.push(event, bytes));
        Ok(Self { list: RwLock::new(list), file: Mutex::new(Some(file)) })
    }

    /// No events, and none taken.
    pub fn off() -> Self {
        Self { list: RwLock::new(List::new(0)), file: Mutex::new(None) }
    }

    /// False when no events are taken.
    pub(crate) fn is_on(&self) -> bool {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Keeps an event, whose id is given here, and says so when it is on the disk. Blocks.
    pub(crate) fn add(&self, mut event: Event) -> Result<u64, EventError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &mut *file else { return Err(io::Error::other("no events are kept").into()) };
        event.id = self.read().next_id();
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
            // The event is kept already; a file that stays too long is shortened with the next one.
            if let Err(error) = file.rewrite(&list.all()) {
                tracing::warn!(%error, "the file of events could not be shortened");
            }
        }
        Ok(id)
    }

    /// The event of an id.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Event>> {
        self.read().get(id)
    }

    /// The events asked for, by time. Looks at all of them.
    pub(crate) fn find(&self, question: &Question) -> Vec<Arc<Event>> {
        self.read().find(question)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
