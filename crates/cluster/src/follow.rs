//! Follows creations and deletions of metrics by other daemons: reads the change feed of the shared store,
//! and rereads all names from time to time, because the feed can miss changes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use plumbago_store::{ChangeFeed, Changes, MetaEntry, MetadataStore, MetricMeta, Share};
use tokio::time::Instant;

use crate::member::RETRY_PAUSE;
use crate::{ClusterError, LocalMetrics, Member, PAGE, meta_of, with_jitter};

/// How often the change feed is read.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// How often all names are reread if the store has a change feed.
const RESCAN_WITH_FEED: Duration = Duration::from_secs(3600);
/// How often all names are reread if it has none.
const RESCAN_WITHOUT_FEED: Duration = Duration::from_secs(300);
/// Age in seconds below which a name missing from a scan is not treated as missing: it may have been created
/// behind the scan's position.
const YOUNG: i64 = 60;

impl Member {
    /// Follows creations and deletions by other daemons, forever. If the store finds names itself, no names
    /// are loaded here, so only deletions are followed.
    pub(crate) async fn follow(self, local: Arc<dyn LocalMetrics>) {
        self.wait_until_checked().await;
        let mut feed = self.store().change_feed();
        // The count of returned servers at the last reread of all names. It does not start at 0, because a
        // return before this task began may only be a first connection that failed.
        let mut handled = self.store().names_restarts();
        let mut pending = Vec::new();
        loop {
            let scanned = Instant::now();
            let returns = self.store().names_restarts();
            let missing = if returns == handled { Missing::Deleted } else { Missing::Lost };
            if !self.finds_names()
                && let Err(error) = self.rescan(&*local, missing).await
            {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to read the names from the server again; retrying"
                );
                tokio::time::sleep(with_jitter(RETRY_PAUSE)).await;
                continue;
            }
            handled = returns;
            self.poll_until_rescan(&*local, &mut *feed, &mut pending, (scanned, handled)).await;
        }
    }

    /// Applies changes from the feed until all names have to be reread: the interval is over, a server has
    /// returned, or the feed missed changes. `pending` has the changes that were not applied yet, with `true`
    /// for a deletion. `scanned` is the time of the last reread and `handled` the count of returned servers
    /// then.
    async fn poll_until_rescan(
        &self,
        local: &dyn LocalMetrics,
        feed: &mut dyn ChangeFeed,
        pending: &mut Vec<(String, bool)>,
        (scanned, handled): (Instant, u64),
    ) {
        loop {
            tokio::time::sleep(POLL_EVERY).await;
            let has_feed = self.store().shared_features().await.is_ok_and(|features| features.changes);
            let every = if has_feed { RESCAN_WITH_FEED } else { RESCAN_WITHOUT_FEED };
            if scanned.elapsed() > every || self.store().names_restarts() != handled {
                return;
            }
            if !has_feed {
                continue;
            }
            match feed.poll().await {
                Ok(Changes { names, missed }) => {
                    pending.extend(names);
                    if missed {
                        return;
                    }
                }
                Err(error) => tracing::debug!(%error, "the change feed cannot be read, trying again"),
            }
            match self.apply_changes(local, pending).await {
                Ok(()) => pending.clear(),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to apply the changes of other daemons; retrying"
                    );
                }
            }
        }
    }

    /// Applies changes (`true` for a deletion). The feed only says which names changed; what is applied is
    /// the state that the shared store has now, so this may be repeated.
    async fn apply_changes(
        &self,
        local: &dyn LocalMetrics,
        changes: &[(String, bool)],
    ) -> Result<(), ClusterError> {
        let names = |wanted: bool| -> Vec<&str> {
            changes.iter().filter(|(_, deleted)| *deleted == wanted).map(|(name, _)| name.as_str()).collect()
        };
        let created = if self.finds_names() { Vec::new() } else { names(false) };
        for names in created.chunks(PAGE) {
            let metas = self.names().get(names).await?.into_iter().flatten().collect();
            local.adopt(&self.names().copy_created(metas).await?).await?;
        }
        for names in names(true).chunks(PAGE) {
            self.apply_deletions(local, names).await?;
        }
        Ok(())
    }

    /// Unloads deleted metrics and deletes them from the local copy. Metrics that still get points are
    /// created again in the shared store.
    async fn apply_deletions(&self, local: &dyn LocalMetrics, names: &[&str]) -> Result<(), ClusterError> {
        // A metric that was created again since its deletion stays.
        let exist = self.store().exist(names).await?;
        let deleted: Vec<&str> =
            names.iter().zip(exist).filter(|(_, exists)| !exists).map(|(name, _)| *name).collect();
        let unloaded = local.forget(&deleted, self.clock().now()).await?;
        let (mut gone, mut written) = (Vec::new(), Vec::new());
        for (name, is_unloaded) in deleted.into_iter().zip(unloaded) {
            if is_unloaded { gone.push(name) } else { written.push(name) }
        }
        self.names().copy().delete(&gone).await?;
        let kept: Vec<MetricMeta> = self.names().copy().get(&written).await?.into_iter().flatten().collect();
        self.note_written(&kept).await
    }

    /// Reads all names of the shared store. Loads new ones, copies changed configurations, and handles names
    /// that are in the local copy but missing in the store.
    async fn rescan(&self, local: &dyn LocalMetrics, missing: Missing) -> Result<(), ClusterError> {
        let began = self.clock().now();
        let mut seen = SeenNames::default();
        let mut position = None;
        let mut changed = 0;
        loop {
            let page = self.store().scan_part(Share::ALL, position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            names.iter().for_each(|name| seen.push(name));
            let loaded = local.contains(&names).await?;
            let copies = self.names().copy().get(&names).await?;
            let (mut new, mut different) = (Vec::new(), Vec::new());
            for ((entry, is_loaded), copy) in page.iter().zip(loaded).zip(copies) {
                if !is_loaded {
                    new.push(meta_of(entry));
                } else if copy.is_some_and(|copy| copy.config != entry.1.config) {
                    different.push(meta_of(entry));
                }
            }
            if !new.is_empty() {
                local.adopt(&self.names().copy_created(new).await?).await?;
            }
            changed += different.len();
            self.names().copy().create(&different).await?;
            position = page.next;
            if position.is_none() {
                break;
            }
        }
        if changed > 0 {
            tracing::warn!(
                metrics = changed,
                "another program changed the retention or aggregation method of metrics; restart the daemon to apply the change"
            );
        }
        if !self.names().is_complete() {
            self.names().mark_complete();
        }
        self.handle_missing(local, seen.sorted(), missing, began).await
    }

    /// Handles names of the local copy that a scan, started at `began`, did not find. If a server has
    /// returned it may have lost them, so they are created again. Otherwise another program has deleted them,
    /// so they are deleted here, unless most names are missing: that is more likely a fault than a deletion.
    async fn handle_missing(
        &self,
        local: &dyn LocalMetrics,
        seen: SeenNames,
        missing: Missing,
        began: i64,
    ) -> Result<(), ClusterError> {
        let (mut gone, mut names, mut position) = (Vec::new(), 0, None);
        loop {
            let page = self.names().copy().scan(position, PAGE).await?;
            names += page.entries.len();
            let is_old = |entry: &MetaEntry| i64::from(entry.created_on) < began - YOUNG;
            let unseen = page.iter().filter(|(name, entry)| is_old(entry) && !seen.contains(name));
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
                "more than half of the names are missing on the server; the daemon keeps all of them and creates metrics again when they get points"
            );
            return Ok(());
        }
        tracing::info!(names = gone.len(), "names were deleted by another program");
        let changes: Vec<(String, bool)> = gone.into_iter().map(|meta| (meta.name, true)).collect();
        self.apply_changes(local, &changes).await
    }
}

/// Why names may be missing in the shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Another program deleted them.
    Deleted,
    /// A server that has returned lost them.
    Lost,
}

/// The names that a scan found, as hashes of eight bytes to save memory. If a missing name has the same hash
/// as a found one, it only goes unnoticed.
#[derive(Debug, Default)]
struct SeenNames {
    hasher: RandomState,
    hashes: Vec<u64>,
}

impl SeenNames {
    fn push(&mut self, name: &str) {
        self.hashes.push(self.hasher.hash_one(name));
    }

    fn sorted(mut self) -> Self {
        self.hashes.sort_unstable();
        self
    }

    fn contains(&self, name: &str) -> bool {
        self.hashes.binary_search(&self.hasher.hash_one(name)).is_ok()
    }
}
