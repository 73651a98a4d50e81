//! Events in memory, in the order in which they were added.

use std::collections::VecDeque;
use std::sync::Arc;

use plumbago_store::EventFilter;

use super::{Event, ids};

#[derive(Debug)]
pub(super) struct List {
    /// Events in the order of the numbers in their ids, each with the length of its line in the file.
    events: VecDeque<(Arc<Event>, usize)>,
    /// The total length of these lines, in bytes.
    bytes: usize,
    bytes_max: usize,
    last_number: u64,
}

impl List {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { events: VecDeque::new(), bytes: 0, bytes_max, last_number: 0 }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The number of the next event.
    pub(super) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    /// Adds an origin to the ids that have none. Returns whether any id was changed.
    pub(super) fn give_origin(&mut self, origin: u64) -> bool {
        let mut is_new = false;
        for (event, bytes) in self.events.iter_mut().filter(|(event, _)| !ids::has_origin(event.id)) {
            let digits = |id: u64| id.to_string().len();
            let id = ids::id(origin, event.id);
            let longer = digits(id) - digits(event.id);
            (*bytes, self.bytes) = (*bytes + longer, self.bytes + longer);
            Arc::make_mut(event).id = id;
            is_new = true;
        }
        is_new
    }

    /// Adds the newest event. Then drops the oldest ones while all events together take more than
    /// `bytes_max`.
    pub(super) fn push(&mut self, event: Event, bytes: usize) {
        self.last_number = self.last_number.max(ids::number(event.id));
        self.bytes += bytes;
        self.events.push_back((Arc::new(event), bytes));
        while self.bytes > self.bytes_max {
            let Some((_, bytes)) = self.events.pop_front() else { return };
            self.bytes -= bytes;
        }
    }

    /// The time of the newest event that would be dropped if the events in `new` were added; `None` if all
    /// fit. `new` contains the time and the bytes of each event. Events of the same time are kept or dropped
    /// together.
    pub(super) fn newest_without_room(&self, new: impl Iterator<Item = (i64, usize)>) -> Option<i64> {
        let known = self.events.iter().map(|(event, bytes)| (event.when, *bytes));
        let mut all: Vec<(i64, usize)> = known.chain(new).collect();
        all.sort_unstable_by_key(|(when, _)| std::cmp::Reverse(*when));
        let mut bytes = 0;
        let has_no_room = |(_, more): &&(i64, usize)| {
            bytes += more;
            bytes > self.bytes_max
        };
        all.iter().find(has_no_room).map(|(when, _)| *when)
    }

    /// Drops the events at this time and before it.
    pub(super) fn drop_until(&mut self, time: i64) {
        self.events.retain(|(event, _)| event.when > time);
        self.bytes = self.events.iter().map(|(_, bytes)| bytes).sum();
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Event>> {
        let number = ids::number(id);
        let at = self.events.binary_search_by_key(&number, |(event, _)| ids::number(event.id)).ok()?;
        self.events.get(at).map(|(event, _)| event).filter(|event| event.id == id).map(Arc::clone)
    }

    pub(super) fn all(&self) -> Vec<Arc<Event>> {
        self.events.iter().map(|(event, _)| Arc::clone(event)).collect()
    }

    pub(super) fn find(&self, filter: &EventFilter) -> Vec<Arc<Event>> {
        let all = self.events.iter().map(|(event, _)| event);
        let mut found: Vec<_> = all.filter(|event| selects(filter, event)).map(Arc::clone).collect();
        found.sort_by_key(|event| event.when);
        found
    }
}

fn selects(filter: &EventFilter, event: &Event) -> bool {
    let has = |tag: &String| is_tagged(event, tag);
    (filter.from..=filter.until).contains(&event.when)
        && match &filter.tags {
            None => true,
            Some(tags) if filter.any => tags.iter().any(has),
            // An empty tag matches no event, as in Graphite.
            Some(tags) => !tags.is_empty() && tags.iter().all(has),
        }
}

/// Whether an event has a tag. Tags are split as Graphite's tagging library splits them: at commas if there
/// is a comma outside quotes, else at blanks. A text in double quotes is one tag.
fn is_tagged(event: &Event, tag: &str) -> bool {
    if !event.tags.iter().any(|text| text.contains([',', '"'])) {
        return event.tags.iter().any(|text| text == tag);
    }
    let text = event.tags.join(" ");
    let parts: Vec<&str> = text.split('"').collect();
    // Ignores a quote that is never closed.
    let is_quoted = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    let loose = || parts.iter().enumerate().filter(|(at, _)| !is_quoted(*at)).map(|(_, part)| *part);
    let border = if loose().any(|part| part.contains(',')) { ',' } else { ' ' };
    let quoted = parts.iter().enumerate().filter(|(at, _)| is_quoted(*at)).map(|(_, part)| *part);
    quoted
        .chain(loose().flat_map(|part| part.split(border)))
        .any(|word| word.trim() == tag && !tag.is_empty())
}
