//! Adds events from another source, except those that are already in the log.

use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;

use super::{EVENT_BYTES_MAX, Event, EventLog};

/// An event that may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewEvent {
    /// Seconds since the epoch.
    pub when: i64,
    /// The title, which graphs show.
    pub what: String,
    /// Longer description; may be empty.
    pub data: String,
    /// The tags, by which requests select events.
    pub tags: Vec<String>,
}

/// How many events were added, and why others were not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddedEvents {
    /// Number of events that were added.
    pub added: u64,
    /// Number of events that were already in the log, and duplicates among the new ones.
    pub known: u64,
    /// Number of events for which there is no room.
    pub no_room: u64,
    /// Number of events that are too long.
    pub too_long: u64,
}

/// Two events are the same if these agree: time, title, text, and tags in any order.
type Key = (i64, String, String, Vec<String>);

impl EventLog {
    /// Adds the events that the log does not have yet, ordered by time. If there is no room for all, the oldest are
    /// left out or dropped, whether they are new or not. Blocks until the new events are synced to disk. With
    /// `dry_run` the events are only counted.
    ///
    /// # Errors
    ///
    /// An `io::Error` if events are switched off or the file cannot be written. Nothing is added then.
    pub fn add_missing(&self, events: Vec<NewEvent>, dry_run: bool) -> io::Result<AddedEvents> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &mut *file else {
            return Err(io::Error::other("this server keeps no events (api.events_bytes is 0)"));
        };
        let mut added = AddedEvents::default();
        let mut new = self.unknown(events, &mut added);
        let without_room =
            self.read().newest_without_room(new.iter().map(|(event, bytes)| (event.when, *bytes)));
        let all = new.len();
        new.retain(|(event, _)| without_room.is_none_or(|time| event.when > time));
        added.no_room = (all - new.len()) as u64;
        added.added = new.len() as u64;
        if dry_run || new.is_empty() {
            return Ok(added);
        }
        let mut lines = Vec::new();
        let first = self.next_id();
        for (id, (event, bytes)) in (first..).zip(&mut new) {
            event.id = id;
            *bytes = line(event, &mut lines)?;
        }
        file.append(&lines)?;
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(time) = without_room {
            list.drop_until(time);
        }
        new.into_iter().for_each(|(event, bytes)| list.push(event, bytes));
        if without_room.is_some() || file.bytes() > 2 * list.bytes_max() as u64 {
            // The events are stored already. If the rewrite fails, the next start reads the dropped events again.
            if let Err(error) = file.rewrite(&list.all()) {
                tracing::warn!(%error, "failed to shorten the events file; the next event tries again");
            }
        }
        Ok(added)
    }

    /// The events that are not in the log yet, ordered by time, each with the approximate length of its line
    /// in bytes.
    fn unknown(&self, events: Vec<NewEvent>, added: &mut AddedEvents) -> Vec<(Event, usize)> {
        let known = self.read().all();
        let mut seen: HashSet<Key> = known.iter().map(|event| key(event)).collect();
        let mut new = Vec::new();
        for NewEvent { when, what, data, tags } in events {
            // The event gets its id later. With the largest possible id, the line cannot become longer.
            let event = Event { id: u64::MAX, when, what, data, tags };
            let bytes = line(&event, &mut Vec::new()).unwrap_or(usize::MAX);
            if bytes > EVENT_BYTES_MAX {
                added.too_long += 1;
            } else if seen.insert(key(&event)) {
                new.push((event, bytes));
            } else {
                added.known += 1;
            }
        }
        new.sort_by_key(|(event, _)| event.when);
        new
    }
}

fn key(event: &Event) -> Key {
    let mut tags = event.tags.clone();
    tags.sort_unstable();
    (event.when, event.what.clone(), event.data.clone(), tags)
}

/// Appends the line of an event. Returns its length.
fn line(event: &Event, lines: &mut Vec<u8>) -> io::Result<usize> {
    let before = lines.len();
    serde_json::to_writer(&mut *lines, event)?;
    lines.push(b'\n');
    Ok(lines.len() - before)
}
