//! Following what others do with the names: the change feed, and a scan of all names now and then.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use plumbago_engine::Engine;
use plumbago_store::{MetaEntry, MetadataStore, MetricMeta};
use plumbago_store_cassandra::{Changes, TokenRange};

use super::cassandra::{Cassandra, PAGE, PAUSE, meta_of};

/// How often the change feed of other daemons is read.
const FEED_EVERY: Duration = Duration::from_secs(2);
/// How often all names are read again, with a change feed and without.
const RESCAN_WITH_FEED: Duration = Duration::from_secs(3600);
const RESCAN_WITHOUT: Duration = Duration::from_secs(300);
/// A name that is younger, in seconds, may have been made behind a scan.
const YOUNG: i64 = 60;

impl Cassandra {
    /// Learns of metrics that others create and delete; where names are found by the server, only of
    /// those that were deleted.
    pub(super) async fn follow(self, engine: Engine) {
        self.wait_until_checked().await;
        let mut feed = self.store.change_feed();
        let returns = self.store.node_returns_of_names();
        // Returns that the names were looked through for. One before this task began may be no more than a
        // first try to connect that failed.
        let mut answered = *returns.borrow();
        // What is not taken over yet.
        let mut changes = Vec::new();
        loop {
            let rescanned = Instant::now();
            let seen = *returns.borrow();
            let missing = if seen == answered { Missing::Deleted } else { Missing::Lost };
            if !self.by_sasi
                && let Err(error) = self.rescan(&engine, missing).await
            {
                tracing::warn!(error = %format!("{error:#}"), "names not read again, trying later");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            answered = seen;
            loop {
                tokio::time::sleep(FEED_EVERY).await;
                let has_feed = self.store.features().await.is_ok_and(|(_, features)| features.changes);
                let every = if has_feed { RESCAN_WITH_FEED } else { RESCAN_WITHOUT };
                if rescanned.elapsed() > every || *returns.borrow() != answered {
                    break;
                }
                if !has_feed {
                    continue;
                }
                match feed.poll().await {
                    Ok(Changes { names, missed }) => {
                        changes.extend(names);
                        if missed {
                            break;
                        }
                    }
                    Err(error) => tracing::debug!(%error, "the change feed cannot be read"),
                }
                match self.take_changes(&engine, &changes).await {
                    Ok(()) => changes.clear(),
                    Err(error) => {
                        tracing::warn!(error = %format!("{error:#}"), "changes of others not taken over yet");
                    }
                }
            }
        }
    }

    /// Takes over what others created (`false`) and deleted, as the server has it now; may be repeated.
    async fn take_changes(&self, engine: &Engine, changes: &[(String, bool)]) -> anyhow::Result<()> {
        let names = |wanted: bool| -> Vec<&str> {
            changes.iter().filter(|(_, deleted)| *deleted == wanted).map(|(name, _)| name.as_str()).collect()
        };
        let created = if self.by_sasi { Vec::new() } else { names(false) };
        for names in created.chunks(PAGE) {
            let metas = self.names.get(names).await?.into_iter().flatten().collect();
            engine.adopt(&self.names.take_over(metas).await?).await?;
        }
        for names in names(true).chunks(PAGE) {
            // One that was created again since then stays.
            let still = self.store.are_there(names).await?;
            let gone: Vec<&str> =
                names.iter().zip(still).filter(|(_, still)| !still).map(|(name, _)| *name).collect();
            let forgotten = engine.forget(&gone, self.clock.now()).await?;
            let (gone, written): (Vec<_>, Vec<_>) =
                gone.into_iter().zip(forgotten).partition(|(_, forgotten)| *forgotten);
            let gone: Vec<&str> = gone.into_iter().map(|(name, _)| name).collect();
            self.names.drop_from_copy(&gone).await?;
            let written: Vec<&str> = written.into_iter().map(|(name, _)| name).collect();
            let kept: Vec<MetricMeta> =
                self.names.copy().get(&written).await?.into_iter().flatten().collect();
            self.note_written(&kept).await?;
        }
        Ok(())
    }

    /// Reads all names; those that are new here are taken in, and those that are missing there are dealt
    /// with.
    async fn rescan(&self, engine: &Engine, missing: Missing) -> anyhow::Result<()> {
        let began = self.clock.now();
        let mut seen = Seen::default();
        let mut position = None;
        let mut changed = 0;
        loop {
            let page = self.store.scan_range(TokenRange::ALL, position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            names.iter().for_each(|name| seen.push(name));
            let known = engine.know(&names).await?;
            let copies = self.names.copy().get(&names).await?;
            let (mut new, mut others) = (Vec::new(), Vec::new());
            for ((entry, known), copy) in page.iter().zip(known).zip(copies) {
                if !known {
                    new.push(meta_of(entry));
                } else if copy.is_some_and(|copy| copy.config != entry.1.config) {
                    others.push(meta_of(entry));
                }
            }
            if !new.is_empty() {
                engine.adopt(&self.names.take_over(new).await?).await?;
            }
            changed += others.len();
            self.names.copy().create(&others).await?;
            position = page.next;
            if position.is_none() {
                break;
            }
        }
        if changed > 0 {
            tracing::warn!(
                metrics = changed,
                "others keep metrics differently now: as here from the next start on"
            );
        }
        if !self.names.is_complete() {
            self.names.mark();
        }
        self.settle_missing(engine, seen.sorted(), missing, began).await
    }

    /// Names of the copy that a scan has not seen. A server that was started anew may have lost them, and gets
    /// them again; else somebody has deleted them.
    async fn settle_missing(
        &self,
        engine: &Engine,
        seen: Seen,
        missing: Missing,
        began: i64,
    ) -> anyhow::Result<()> {
        let (mut gone, mut names, mut position) = (Vec::new(), 0, None);
        loop {
            let page = self.names.copy().scan(position, PAGE).await?;
            names += page.entries.len();
            // Younger ones may have come behind the scan.
            let is_old = |entry: &MetaEntry| i64::from(entry.created_on) < began - YOUNG;
            let unseen = page.iter().filter(|(name, entry)| is_old(entry) && !seen.has(name));
            gone.extend(unseen.map(meta_of));
            position = page.next;
            if position.is_none() {
                break;
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        if missing == Missing::Lost {
            for metas in gone.chunks(PAGE) {
                self.note_written(metas).await?;
            }
            return Ok(());
        }
        if gone.len() > names / 2 {
            tracing::warn!(
                missing = gone.len(),
                names,
                "most names are gone from the server: none is forgotten here; new points bring theirs back"
            );
            return Ok(());
        }
        tracing::info!(names = gone.len(), "others have deleted names");
        let changes: Vec<(String, bool)> = gone.into_iter().map(|meta| (meta.name, true)).collect();
        self.take_changes(engine, &changes).await
    }
}

/// What became of names that the server does not have any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Deleted,
    Lost,
}

/// The names of a scan, by their hashes: eight bytes each. Two names with one hash only keep the other one
/// from being missed.
#[derive(Debug, Default)]
struct Seen {
    hasher: RandomState,
    hashes: Vec<u64>,
}

impl Seen {
    fn push(&mut self, name: &str) {
        self.hashes.push(self.hasher.hash_one(name));
    }

    fn sorted(mut self) -> Self {
        self.hashes.sort_unstable();
        self
    }

    fn has(&self, name: &str) -> bool {
        self.hashes.binary_search(&self.hasher.hash_one(name)).is_ok()
    }
}
