//! Events in memory, in the order in which they were added.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Event, Question};

#[derive(Debug)]
pub(super) struct List {
    /// Events in the order of their ids, each with the length of its line in the file.
    events: VecDeque<(Arc<Event>, usize)>,
    /// Bytes of all these lines.
    bytes: usize,
    bytes_max: usize,
    last_id: u64,
}

impl List {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { events: VecDeque::new(), bytes: 0, bytes_max, last_id: 0 }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(super) fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// Adds the newest event, then drops the oldest ones while all take more than `bytes_max`.
    pub(super) fn push(&mut self, event: Event, bytes: usize) {
        self.last_id = self.last_id.max(event.id);
        self.bytes += bytes;
        self.events.push_back((Arc::new(event), bytes));
        while self.bytes > self.bytes_max {
            let Some((_, bytes)) = self.events.pop_front() else { return };
            self.bytes -= bytes;
        }
    }

    /// The time of the newest event for which there is no room, if these are added, each given as time and bytes; `None`
    /// if there is room for all. Events of the same time go together.
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

    /// Drops the events up to this time.
    pub(super) fn drop_until(&mut self, time: i64) {
        self.events.retain(|(event, _)| event.when > time);
        self.bytes = self.events.iter().map(|(_, bytes)| bytes).sum();
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Event>> {
        let at = self.events.binary_search_by_key(&id, |(event, _)| event.id).ok()?;
        self.events.get(at).map(|(event, _)| Arc::clone(event))
    }

    pub(super) fn all(&self) -> Vec<Arc<Event>> {
        self.events.iter().map(|(event, _)| Arc::clone(event)).collect()
    }

    pub(super) fn find(&self, question: &Question) -> Vec<Arc<Event>> {
        let all = self.events.iter().map(|(event, _)| event);
        let mut found: Vec<_> = all.filter(|event| question.wants(event)).map(Arc::clone).collect();
        found.sort_by_key(|event| event.when);
        found
    }
}

impl Question {
    fn wants(&self, event: &Event) -> bool {
        let has = |tag: &String| is_tagged(event, tag);
        (self.from..=self.until).contains(&event.when)
            && match &self.tags {
                None => true,
                Some(tags) if self.any => tags.iter().any(has),
                // An empty tag matches no event, as in Graphite.
                Some(tags) => !tags.is_empty() && tags.iter().all(has),
            }
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
    // An unclosed quote is ignored.
    let is_quoted = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    let loose = || parts.iter().enumerate().filter(|(at, _)| !is_quoted(*at)).map(|(_, part)| *part);
    let border = if loose().any(|part| part.contains(',')) { ',' } else { ' ' };
    let quoted = parts.iter().enumerate().filter(|(at, _)| is_quoted(*at)).map(|(_, part)| *part);
    quoted
        .chain(loose().flat_map(|part| part.split(border)))
        .any(|word| word.trim() == tag && !tag.is_empty())
}
