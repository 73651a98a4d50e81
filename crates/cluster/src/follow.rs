//! Follows creations and deletions of metrics by other daemons and programs. Reads the change feed of the
//! shared store. Also rereads all names part by part, because other programs do not write the feed, and the
//! feed can miss changes.

use std::sync::Arc;
use std::time::Duration;

use plumbago_store::{ChangeFeed, Changes, MetaEntry, MetricMeta};
use plumbago_telemetry::Throttle;
use tokio::time::Instant;

use crate::pace::{AT_ONCE, Work};
use crate::retry::{RETRY_LINE_MS, RETRY_PAUSE, with_jitter};
use crate::scan::{Missing, Round, interval};
use crate::scan_file::Progress;
use crate::{ClusterError, LocalMetrics, Member, PAGE, is_past_announcement, meta_of};

/// How often the change feed is read.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// Largest number of changes that wait to be applied. If there are more, all names are reread instead.
const PENDING_MAX: usize = 1_000_000;
/// How often the progress is saved.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// If a name is younger than this many seconds, its absence from a round does not count: it may have been
/// created in a part that the round had already read.
const YOUNG: i64 = 60;
/// For how many seconds names are reread often after a change that was not announced.
const OTHERS_FOR: i64 = 7 * 86_400;

impl Member {
    /// Follows creations and deletions by other daemons, forever. If the store itself resolves globs, no
    /// names are loaded here, so only deletions are followed.
    pub(crate) async fn follow(self, local: Arc<dyn LocalMetrics>) {
        self.wait_until_checked().await;
        // The restarts that the store has reported so far may be wrong: a first connection that fails looks
        // like a restart. Real restarts are recorded in the data directory.
        self.set_handled_returns(self.store().names_restarts());
        let mut follower = Follower::new(self, local);
        loop {
            follower.step().await;
        }
    }
}

/// Limits the log lines about retried calls.
static FAILED: Throttle = Throttle::new(RETRY_LINE_MS);

struct Follower {
    member: Member,
    local: Arc<dyn LocalMetrics>,
    feed: Box<dyn ChangeFeed>,
    /// Changes that were not applied yet, as in [`Changes`].
    pending: Vec<(String, Option<i64>)>,
    polled: Option<Instant>,
    round: Round,
    /// The value of [`Member::returns`] when this round, or an earlier one, began to look for lost names.
    returns: u64,
    /// When a name last changed without an announcement, in seconds since the epoch.
    unannounced: Option<i64>,
    read_until: Option<i64>,
    saved: Instant,
}

impl Follower {
    /// Continues where the last process of this data directory ended. Reads all names at once if changes may
    /// have been missed since then: if the copy of the names was never complete, if the position in the feed
    /// is not known, or if other programs create names without announcing them. A server that was restarted
    /// meanwhile may have lost names; in that case all names are read in the first step.
    fn new(member: Member, local: Arc<dyn LocalMetrics>) -> Self {
        let Progress { part, read_until, unannounced, .. } = member.scan_file().progress.clone();
        let (now, is_loaded) = (member.clock().now(), member.names().is_loaded());
        let since = read_until.filter(|_| !is_loaded).unwrap_or_else(|| member.made_at());
        let feed = member.store().change_feed(since);
        let returns = member.handled_returns();
        let mut this = Self {
            member,
            local,
            feed,
            pending: Vec::new(),
            polled: None,
            round: Round::new(part, now),
            returns,
            unannounced,
            read_until,
            saved: Instant::now(),
        };
        if !is_loaded && (!this.member.names().is_complete() || read_until.is_none() || this.has_others()) {
            this.round = this.round.urgent(Missing::Deleted, now);
        } else {
            // It is not known yet whether there is a change feed. The interval for stores without one is
            // shorter, and reading a part too early does no harm.
            this.round.wait(interval(false, false));
        }
        this
    }

    async fn step(&mut self) {
        if self.member.finds_names() || !self.round.is_urgent {
            tokio::time::sleep(POLL_EVERY).await;
        }
        let has_feed = self.member.store().shared_features().await.is_ok_and(|features| features.changes);
        if has_feed && self.polled.is_none_or(|at| at.elapsed() >= POLL_EVERY) {
            self.polled = Some(Instant::now());
            self.poll().await;
        }
        if !self.member.finds_names() {
            self.read_due_part(has_feed).await;
        }
        self.save_progress(has_feed).await;
    }

    /// Reads the change feed and applies what it returns.
    async fn poll(&mut self) {
        let mut read_until = None;
        match self.feed.poll().await {
            Ok(Changes { names, missed, read_until: until }) => {
                self.pending.extend(names);
                read_until = Some(until);
                if missed || self.pending.len() > PENDING_MAX {
                    self.pending.truncate(PENDING_MAX);
                    self.round = self.round.urgent(self.round.missing, self.member.clock().now());
                }
            }
            Err(error) => tracing::debug!(%error, "the change feed cannot be read, trying again"),
        }
        match self.apply_changes().await {
            Ok(()) => self.read_until = read_until.or(self.read_until),
            Err(error) => {
                if let Some(suppressed) = FAILED.pass_now() {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        suppressed,
                        "failed to apply the changes of other daemons; retrying"
                    );
                }
            }
        }
    }

    /// Applies the pending changes. The feed only says which names changed. Their current state is read from the
    /// shared store, so this may be repeated.
    async fn apply_changes(&mut self) -> Result<(), ClusterError> {
        let (deleted, mut created): (Vec<_>, Vec<_>) =
            self.pending.iter().map(|(name, at)| (name.as_str(), *at)).partition(|(_, at)| at.is_some());
        if self.member.finds_names() {
            created.clear();
        }
        for created in created.chunks(AT_ONCE) {
            let names: Vec<&str> = created.iter().map(|(name, _)| *name).collect();
            self.member.pace().wait(names.len(), Work::LookUp).await;
            // The metrics are copied as they are stored, with their xFilesFactor even if it counts as 0.
            // Otherwise the next round would consider each of them changed, and announce it again.
            let metas = self.member.store().get(&names).await?.into_iter().flatten().collect();
            adopt(&self.member, &*self.local, metas).await?;
        }
        self.member.apply_deletions(&*self.local, &deleted).await?;
        self.pending.clear();
        Ok(())
    }

    /// Reads the next part of all names if it is due, and handles missing names at the end of a round.
    async fn read_due_part(&mut self, has_feed: bool) {
        let returns = self.member.returns();
        if returns != self.returns {
            self.returns = returns;
            self.round = self.round.urgent(Missing::Lost, self.member.clock().now());
        }
        if !self.round.is_due() && !self.round.is_whole() {
            return;
        }
        if let Err(error) = self.try_read_part(has_feed).await {
            if let Some(suppressed) = FAILED.pass_now() {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    suppressed,
                    "failed to read the names from the server again; retrying"
                );
            }
            tokio::time::sleep(with_jitter(RETRY_PAUSE)).await;
        }
    }

    async fn try_read_part(&mut self, has_feed: bool) -> Result<(), ClusterError> {
        if !self.round.is_whole() {
            self.read_part(has_feed).await?;
            self.round.advance(interval(has_feed, self.has_others()));
        }
        if self.round.is_whole() {
            self.end_round().await?;
            self.round = self.round.next(self.member.clock().now(), interval(has_feed, self.has_others()));
        }
        Ok(())
    }

    /// Reads one part of the names of the shared store. Loads new ones and copies changed configurations.
    async fn read_part(&mut self, has_feed: bool) -> Result<(), ClusterError> {
        let (mut position, mut changed, mut unannounced) = (None, 0, 0);
        let now = self.member.clock().now();
        loop {
            let page = self.member.store().scan_part(self.round.share(), position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            names.iter().for_each(|name| self.round.seen.push(name));
            let loaded = self.local.contains(&names).await?;
            let copies = self.member.names().copy().get(&names).await?;
            let (mut new, mut different) = (Vec::new(), Vec::new());
            for ((entry, is_loaded), copy) in page.iter().zip(loaded).zip(copies) {
                if !is_loaded {
                    new.push(meta_of(entry));
                } else if let Some(copy) = copy.filter(|copy| copy.config != entry.1.config) {
                    // The engine can apply such a change while it runs.
                    let is_easy = entry.1.config.reads_what_was_stored_with(&copy.config);
                    if is_easy { &mut new } else { &mut different }.push(meta_of(entry));
                }
            }
            unannounced +=
                new.iter().filter(|meta| is_past_announcement(meta, now)).count() + different.len();
            let to_announce = if has_feed { self.to_announce(&new, now) } else { Vec::new() };
            if !new.is_empty() {
                adopt(&self.member, &*self.local, new).await?;
            }
            if !to_announce.is_empty() {
                let names: Vec<&str> = to_announce.iter().map(String::as_str).collect();
                self.member.store().announce(&names).await;
            }
            changed += different.len();
            self.member.names().copy().create(&different).await?;
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
        if has_feed && unannounced > 0 {
            self.note_others();
        }
        Ok(())
    }

    /// The names of new metrics that nobody has announced. They are announced now, so that the other daemons
    /// need not search for them. A process that reads all names at once cannot tell: they may have been
    /// announced while it was not running.
    fn to_announce(&self, new: &[MetricMeta], now: i64) -> Vec<String> {
        if self.round.is_urgent {
            return Vec::new();
        }
        let has_others = self.has_others();
        let is_wanted = |meta: &&MetricMeta| has_others || is_past_announcement(meta, now);
        new.iter().filter(is_wanted).map(|meta| meta.name.clone()).collect()
    }

    /// Handles names of the local copy that the round did not find. If a server has returned, that server may
    /// have lost these names, so they are created again. Otherwise another program has deleted the names, so
    /// they are deleted here. If most names are missing, nothing is deleted, because that is more likely a
    /// fault than a deletion.
    async fn end_round(&mut self) -> Result<(), ClusterError> {
        if !self.member.names().is_complete() {
            self.member.names().copy().sync_names().await?;
            self.member.names().mark_complete();
        }
        let (gone, names) = self.unseen().await?;
        if self.round.missing == Missing::Lost {
            self.member.create_missing(&gone).await?;
            self.member.set_handled_returns(self.returns);
        } else if gone.len() > names / 2 {
            tracing::warn!(
                missing = gone.len(),
                names,
                "more than half of the names are missing on the server; the daemon keeps all of them and creates metrics again when they get points"
            );
        } else if !gone.is_empty() {
            let names: Vec<_> = gone.iter().map(|meta| (meta.name.as_str(), None)).collect();
            let deleted = self.member.apply_deletions(&*self.local, &names).await?;
            if deleted > 0 {
                tracing::info!(names = deleted, "names were deleted by another program");
                self.note_others();
            }
        }
        Ok(())
    }

    /// The metrics of the local copy that the round did not find although they existed when it began, and the
    /// number of all metrics. After a loss, also the metrics that were created meanwhile.
    async fn unseen(&mut self) -> Result<(Vec<MetricMeta>, usize), ClusterError> {
        self.round.seen.sort();
        let (mut gone, mut names, mut position) = (Vec::new(), 0, None);
        loop {
            let page = self.member.names().copy().scan(position, PAGE).await?;
            names += page.entries.len();
            // Creating an existing name again does no harm, so the age does not matter after a loss.
            let is_lost = self.round.missing == Missing::Lost;
            let is_old =
                |entry: &MetaEntry| is_lost || i64::from(entry.created_on) < self.round.began - YOUNG;
            let unseen = page.iter().filter(|(name, entry)| is_old(entry) && !self.round.seen.contains(name));
            gone.extend(unseen.map(meta_of));
            position = page.next;
            if position.is_none() {
                return Ok((gone, names));
            }
        }
    }

    /// Whether there are programs, such as BigGraphite, that change names without writing the change feed.
    fn has_others(&self) -> bool {
        let age = self.unannounced.map(|at| self.member.clock().now() - at);
        self.member.schema_status().ignores_x_files_factor || age.is_some_and(|age| age < OTHERS_FOR)
    }

    /// Notes that a change was found that was not announced. Changes found by a process that reads all names
    /// at once do not count, because they may have been announced while it was not running.
    fn note_others(&mut self) {
        if self.round.is_urgent {
            return;
        }
        if !self.has_others() {
            tracing::info!("another program creates or deletes metrics too: all names are read every hour");
        }
        self.unannounced = Some(self.member.clock().now());
    }

    /// Saves how far the names and changes were read.
    async fn save_progress(&mut self, has_feed: bool) {
        if self.saved.elapsed() < SAVE_EVERY || self.round.is_urgent {
            return;
        }
        self.saved = Instant::now();
        // The file states how far names were read, so those names must be on the disk first.
        if let Err(error) = self.member.names().copy().sync_names().await {
            tracing::warn!(%error, "cannot sync the copy of the names; trying again");
            return;
        }
        let mut file = self.member.scan_file();
        file.progress.part = self.round.position();
        file.progress.read_until = self.read_until.filter(|_| has_feed);
        file.progress.unannounced = self.unannounced;
        if let Err(error) = file.save() {
            tracing::warn!(%error, "cannot save how far the names were read; the next start reads all of them");
        }
    }
}

/// Loads metrics that other daemons have created.
async fn adopt(
    member: &Member,
    local: &dyn LocalMetrics,
    metas: Vec<MetricMeta>,
) -> Result<(), ClusterError> {
    Ok(local.adopt(&member.names().copy_created(metas).await?).await?)
}
