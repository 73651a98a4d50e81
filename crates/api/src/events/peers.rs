//! Events of all daemons on the same store. Each daemon keeps the events that were posted to it, and asks the others
//! for theirs.

use std::fmt::Debug;
use std::sync::{Arc, PoisonError};

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{EventFilter, EventQuestion, PeerEvent, WriterIdentity};
use tokio::task::{JoinError, spawn_blocking};

use super::{Event, EventLog, ids};

/// The other daemons on the same store, and which writer this daemon is.
#[boxed_futures]
pub trait EventPeers: Send + Sync + Debug {
    /// The writer that this daemon is now.
    fn writer(&self) -> WriterIdentity;

    /// Returns the events of all peers. A peer that does not answer in time is left out. This daemon may be among its
    /// own peers.
    async fn events(&self, question: &EventQuestion) -> Vec<PeerEvent>;
}

impl EventLog {
    /// Makes the log one of several on the same store: ids get an origin, and events of peers are found.
    /// Events that were stored without an origin get one now, in the file too.
    #[must_use]
    pub fn among_peers(mut self, peers: Arc<dyn EventPeers>) -> Self {
        let origin = ids::origin(peers.writer());
        self.peers = Some(peers);
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(file)) = (list.give_origin(origin), file) {
            // In memory the events have the new ids already. The next start gives them the same ids if the writer
            // stays the same.
            if let Err(error) = file.rewrite(&list.all()) {
                tracing::warn!(%error, "failed to write new ids into the events file; the next start tries again");
            }
        }
        self
    }

    /// Returns the selected events of this daemon and its peers, ordered by time, then by id. An event that several
    /// daemons have, because a data directory was copied, is returned once.
    ///
    /// # Errors
    ///
    /// A `JoinError` if the runtime is being shut down.
    pub(crate) async fn find_all(
        self: &Arc<Self>,
        filter: EventFilter,
    ) -> Result<Vec<Arc<Event>>, JoinError> {
        let log = Arc::clone(self);
        let Some(peers) = &self.peers else {
            return spawn_blocking(move || log.find(&filter)).await;
        };
        let question = EventQuestion::Selected(filter.clone());
        let own = spawn_blocking(move || log.find(&filter));
        let (own, theirs) = tokio::join!(own, peers.events(&question));
        let own = own?;
        spawn_blocking(move || merge(own, theirs)).await
    }

    /// Returns the event with this id, of this daemon or a peer.
    pub(crate) async fn get_from_all(&self, id: u64) -> Option<Arc<Event>> {
        let own = self.get(id);
        match &self.peers {
            Some(peers) if own.is_none() => {
                let theirs = peers.events(&EventQuestion::Id(id)).await;
                theirs.into_iter().find(|event| event.id == id).map(|event| Arc::new(Event::from(event)))
            }
            _ => own,
        }
    }

    /// Answers a peer with the events of this daemon. Takes time in proportion to the number of all events.
    pub fn answer(&self, question: &EventQuestion) -> Vec<PeerEvent> {
        let found: Vec<Arc<Event>> = match question {
            EventQuestion::Id(id) => self.get(*id).into_iter().collect(),
            EventQuestion::Selected(filter) => self.find(filter),
        };
        found.iter().map(|event| PeerEvent::from(&**event)).collect()
    }

    /// The part of a new event's id that names this daemon; 0 on a store that is not shared.
    pub(super) fn origin(&self) -> u64 {
        self.peers.as_ref().map_or(0, |peers| ids::origin(peers.writer()))
    }
}

/// Merges events and removes duplicates. Two events are the same only if all their fields are equal,
/// including the id. If a sender posts an event to two daemons, these are two events.
fn merge(own: Vec<Arc<Event>>, theirs: Vec<PeerEvent>) -> Vec<Arc<Event>> {
    let mut all = own;
    all.extend(theirs.into_iter().map(|event| Arc::new(Event::from(event))));
    all.sort_by_key(|event| (event.when, event.id));
    all.dedup();
    all
}

impl From<PeerEvent> for Event {
    fn from(event: PeerEvent) -> Self {
        let PeerEvent { id, when, what, data, tags } = event;
        Self { id, when, what, data, tags }
    }
}

impl From<&Event> for PeerEvent {
    fn from(event: &Event) -> Self {
        let Event { id, when, what, data, tags } = event.clone();
        Self { id, when, what, data, tags }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;

    /// The logs of all daemons. They answer directly in place of peers.
    #[derive(Debug)]
    struct Logs {
        writer: WriterIdentity,
        all: Arc<Mutex<Vec<Arc<EventLog>>>>,
    }

    #[boxed_futures]
    impl EventPeers for Logs {
        fn writer(&self) -> WriterIdentity {
            self.writer
        }

        async fn events(&self, question: &EventQuestion) -> Vec<PeerEvent> {
            let logs = self.all.lock().unwrap().clone();
            logs.iter().flat_map(|log| log.answer(question)).collect()
        }
    }

    /// Opens a log. All logs that are opened with the same `all` ask each other, and themselves.
    fn open(path: &Path, writer_id: u16, all: &Arc<Mutex<Vec<Arc<EventLog>>>>) -> Arc<EventLog> {
        let peers = Logs { writer: WriterIdentity::new(0, writer_id), all: Arc::clone(all) };
        let log = Arc::new(EventLog::open(path, 1 << 20).unwrap().among_peers(Arc::new(peers)));
        all.lock().unwrap().push(Arc::clone(&log));
        log
    }

    fn event(when: i64, what: &str) -> Event {
        Event { id: 0, when, what: what.to_owned(), data: String::new(), tags: vec!["x".to_owned()] }
    }

    async fn found(log: &Arc<EventLog>) -> Vec<(String, u64)> {
        let filter = EventFilter { until: i64::MAX, ..EventFilter::default() };
        let found = log.find_all(filter).await.unwrap();
        found.iter().map(|event| (event.what.clone(), event.id)).collect()
    }

    #[tokio::test]
    async fn every_daemon_has_the_events_of_all() {
        let (directory, all) = (tempfile::tempdir().unwrap(), Arc::default());
        let one = open(&directory.path().join("one"), 8, &all);
        let two = open(&directory.path().join("two"), 16, &all);
        let ids = [(&one, 20, "a"), (&two, 10, "b"), (&one, 30, "c"), (&two, 30, "c")]
            .map(|(log, when, what)| log.add(event(when, what)).unwrap());
        // The last two were posted to both daemons, so they are two events.
        let expected = [("b", ids[1]), ("a", ids[0]), ("c", ids[2]), ("c", ids[3])];
        let expected: Vec<_> = expected.iter().map(|(what, id)| ((*what).to_owned(), *id)).collect();
        for log in [&one, &two] {
            assert_eq!(found(log).await, expected);
            for (what, id) in &expected {
                assert_eq!(log.get_from_all(*id).await.unwrap().what, *what);
            }
            assert!(log.get_from_all(1).await.is_none());
        }
        let filter = EventFilter { from: 30, until: 30, tags: Some(vec!["x".to_owned()]), any: true };
        assert_eq!(one.find_all(filter.clone()).await.unwrap().len(), 2);
        let none = EventFilter { tags: Some(vec!["y".to_owned()]), ..filter };
        assert!(one.find_all(none).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_copied_directory_doubles_no_event() {
        let (directory, all) = (tempfile::tempdir().unwrap(), Arc::default());
        let (original, copy) = (directory.path().join("original"), directory.path().join("copy"));
        let one = open(&original, 8, &all);
        one.add(event(1, "before")).unwrap();
        std::fs::copy(&original, &copy).unwrap();
        let two = open(&copy, 16, &all);
        let ids = [&one, &two].map(|log| log.add(event(2, "after")).unwrap());
        assert_ne!(ids[0], ids[1]);
        for log in [&one, &two] {
            let found = found(log).await;
            assert_eq!(
                found.iter().map(|(what, _)| what.as_str()).collect::<Vec<_>>(),
                ["before", "after", "after"]
            );
        }
    }

    #[tokio::test]
    async fn events_of_a_daemon_alone_get_an_origin() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        let alone = EventLog::open(&path, 1 << 20).unwrap();
        assert_eq!([alone.add(event(1, "a")).unwrap(), alone.add(event(2, "b")).unwrap()], [1, 2]);
        drop(alone);
        let log = open(&path, 8, &Arc::default());
        let origin = ids::origin(WriterIdentity::new(0, 8));
        assert_eq!(log.add(event(3, "c")).unwrap(), ids::id(origin, 3));
        let expected = [("a", 1), ("b", 2), ("c", 3)];
        let expected = expected.map(|(what, number)| (what.to_owned(), ids::id(origin, number)));
        assert_eq!(found(&log).await, expected);
        // The new ids are in the file too.
        let again = EventLog::open(&path, 1 << 20).unwrap();
        assert!(expected.iter().all(|(what, id)| again.get(*id).unwrap().what == *what));
        assert!(again.get(1).is_none());
    }
}
