//! This daemon as a member of the cluster: joins it, and runs its background tasks.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_model::Clock;
use plumbago_store::{SchemaNeeds, SchemaStatus, SharedStore, WriterIdentity};
use plumbago_telemetry::{Conditions, Severity, with_causes};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::clock_problems::ClockProblems;
use crate::pace::Pace;
use crate::retry::{RETRY_PAUSE, with_jitter};
use crate::schema::{self, SchemaCheck};
use crate::watched::Watched;
use crate::writer_file::OwnWriter;
use crate::{
    ClusterError, LocalMetrics, Names, NodesFile, NotAcknowledged, Outbox, RowTimestamps, ScanFile,
    WriterFile,
};

/// The conditions that [`Member::report`] can raise.
pub const CONDITIONS: [&str; 11] = [
    "schema",
    "store_down",
    "refused_tables",
    "join",
    "unacknowledged",
    "spool",
    "nodes_missing",
    "deferred_rows",
    "features_off",
    "clock_ahead",
    "clock_behind",
];

/// The parts of the daemon that a [`Member`] works with.
#[derive(Debug)]
pub struct MemberParts {
    /// The store that all daemons share.
    pub store: Arc<dyn SharedStore>,
    /// The names of the shared store, with their local copy.
    pub names: Names,
    /// The rows that this daemon sends.
    pub outbox: Arc<dyn Outbox>,
    /// The timestamps of those rows.
    pub timestamps: Arc<dyn RowTimestamps>,
    /// The writer id of the data directory.
    pub writer: WriterFile,
    /// The start times of the servers that this data directory knows.
    pub nodes: NodesFile,
    /// Which part of the names this data directory has read.
    pub scan: ScanFile,
    /// What this daemon needs from the store's schema.
    pub needs: SchemaNeeds,
    /// The clock of this machine. It is compared with those of the servers.
    pub clock: Arc<dyn Clock>,
    /// How old the stored time of a metric's last write may become before it is renewed (`updated_on`).
    pub touch_after: Duration,
    /// Set to `true` once the schema has been checked and the writer registered. `names` waits for this.
    pub checked: watch::Sender<bool>,
}

/// This daemon as a member of the cluster. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Member(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn SharedStore>,
    names: Names,
    outbox: Arc<dyn Outbox>,
    timestamps: Arc<dyn RowTimestamps>,
    writer: Mutex<OwnWriter>,
    nodes: StdMutex<NodesFile>,
    schema: SchemaCheck,
    /// Why the last attempt to join failed; `None` before the first failure and after this daemon has joined.
    join_error: StdMutex<Option<String>>,
    /// What is wrong with the clock, as of the last comparisons with the server's.
    clock_problems: StdMutex<ClockProblems>,
    /// If `true`, the shared store resolves globs, so no names are loaded.
    finds_names: bool,
    clock: Arc<dyn Clock>,
    touch_after: Duration,
    checked: watch::Sender<bool>,
    scan: StdMutex<ScanFile>,
    /// When this value was made, in seconds since the epoch.
    made_at: i64,
    watched: Watched,
    pace: Pace,
    /// For how many of the returns counted by [`Member::returns`] the lost names have been created again.
    handled_returns: AtomicU64,
    /// Number of restarts of servers that were noticed, including those while this daemon was down, plus the
    /// number of times that the tables were created again.
    restarts: AtomicU64,
}

impl Member {
    /// Makes a member. It does nothing before [`Member::join`].
    pub fn new(parts: MemberParts) -> Self {
        Self(Arc::new(Inner {
            store: parts.store,
            names: parts.names,
            outbox: parts.outbox,
            timestamps: parts.timestamps,
            writer: Mutex::new(OwnWriter { file: parts.writer, is_registered: false }),
            nodes: StdMutex::new(parts.nodes),
            finds_names: parts.needs.finds_names,
            made_at: parts.clock.now(),
            scan: StdMutex::new(parts.scan),
            watched: Watched::default(),
            pace: Pace::new(),
            handled_returns: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            schema: SchemaCheck::new(parts.needs),
            join_error: StdMutex::default(),
            clock_problems: StdMutex::default(),
            clock: parts.clock,
            touch_after: parts.touch_after,
            checked: parts.checked,
        }))
    }

    /// Waits for the servers, checks the schema, registers the writer and compares the start times of the
    /// servers. Retries until all of this has succeeded; after that, rows may be sent. Returns `false` if
    /// `stop` was cancelled first.
    ///
    /// If the schema has a problem, it is checked again in the background until the problem is gone.
    pub async fn join(&self, stop: &CancellationToken) -> bool {
        let joined = async {
            let mut logged = None;
            while let Err(error) = self.check_and_register().await {
                let why = with_causes(&error);
                // Retries are frequent, so each reason is logged only once.
                if logged.as_ref() != Some(&why) {
                    tracing::warn!("the shared store is not ready; points wait in the spool: {why}");
                }
                logged = Some(why.clone());
                self.set_join_error(Some(why));
                tokio::time::sleep(with_jitter(RETRY_PAUSE)).await;
            }
            self.look_before_sending().await;
        };
        if stop.run_until_cancelled(joined).await.is_none() {
            return false;
        }
        self.set_join_error(None);
        self.0.checked.send_replace(true);
        spawn_until(stop, self.clone().check_again());
        spawn_until(stop, self.clone().keep_registered());
        spawn_until(stop, self.clone().compare_clocks());
        true
    }

    /// Starts the background tasks: follow other daemons, record which metrics are written, and send rows
    /// again that a restarted server may have lost.
    pub fn spawn_tasks(&self, local: &Arc<dyn LocalMetrics>, stop: &CancellationToken) {
        spawn_until(stop, self.clone().follow(Arc::clone(local)));
        spawn_until(stop, self.clone().note_written_metrics(Arc::clone(local)));
        spawn_until(stop, self.clone().watch_deleted(Arc::clone(local)));
        spawn_until(stop, self.clone().resend_after_restarts());
    }

    /// Raises in `conditions` why this daemon is not ready, which features are off, and what is wrong with
    /// its clock.
    pub fn report(&self, conditions: &Conditions) {
        let status = self.0.schema.status();
        let down = self.0.store.down_reason();
        // While no server can be reached, the next two errors have the same cause, so they are left out.
        let is_up = down.is_none();
        let join_error = self.join_error().clone().filter(|_| is_up).map(|error| {
            format!(
                "rows stay in the spool because this daemon could not join the cluster; retrying: {error}"
            )
        });
        let send_error = self.0.outbox.last_error().filter(|_| is_up).map(not_acknowledged);
        for (name, text) in [
            ("schema", listed(status.fatal)),
            ("store_down", down),
            ("refused_tables", listed(self.0.store.refused_tables())),
            ("join", join_error),
            ("unacknowledged", send_error),
            ("spool", self.0.outbox.trouble()),
        ] {
            conditions.set(Severity::NotReady, name, text);
        }
        let deferred = self.0.outbox.deferred().filter(|_| is_up).map(|(rows, error)| {
            let why = error.map_or_else(String::new, |error| format!(": {error}"));
            format!(
                "{rows} rows wait in the spool because the servers refuse them while they accept others; \
                 they are retried every `sender.retry_deferred_every`{why}"
            )
        });
        let missing = self.0.store.missing_servers().filter(|_| is_up);
        conditions.set(Severity::Warning, "nodes_missing", missing);
        conditions.set(Severity::Warning, "deferred_rows", deferred);
        conditions.set(Severity::Warning, "features_off", listed(status.features_off));
        let ClockProblems { ahead, behind } = self.clock_problems().clone();
        conditions.set(Severity::Warning, "clock_ahead", ahead);
        conditions.set(Severity::Warning, "clock_behind", behind);
    }

    /// The identity under which this daemon writes.
    pub fn writer_identity(&self) -> WriterIdentity {
        self.0.store.writer_identity()
    }

    /// Waits until [`Member::join`] has succeeded.
    pub(crate) async fn wait_until_checked(&self) {
        // The wait fails only if the sender is dropped, but `self` owns the sender.
        let _ = self.0.checked.subscribe().wait_for(|checked| *checked).await;
    }

    fn join_error(&self) -> MutexGuard<'_, Option<String>> {
        self.0.join_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_join_error(&self, error: Option<String>) {
        *self.join_error() = error;
    }

    async fn check_and_register(&self) -> Result<(), ClusterError> {
        self.0.store.wait_until_up().await?;
        let status = self.0.schema.check(self.store()).await?;
        self.accept(&status).await
    }

    /// Logs and applies the result of a schema check, and registers the writer if the store supports that.
    async fn accept(&self, status: &SchemaStatus) -> Result<(), ClusterError> {
        schema::log(status);
        self.0.names.set_ignores_x_files_factor(status.ignores_x_files_factor);
        self.0.outbox.set_durable(status.keyspaces.keeps_commit_log);
        if status.features.writers {
            self.register().await?;
        }
        Ok(())
    }

    async fn check_again(self) {
        loop {
            let status = self.0.schema.wait_for_change(self.store()).await;
            if self.0.schema.take_may_lack_names() {
                // Tables that were created again lack the names, just like a server that has lost them.
                self.note_restart();
            }
            match self.accept(&status).await {
                Ok(()) => tracing::info!("the schema changed and was checked again; all tables can be used"),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn Error,
                        "the schema changed, but the writer id could not be registered"
                    );
                }
            }
        }
    }

    pub(crate) fn store(&self) -> &dyn SharedStore {
        &*self.0.store
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(crate) fn outbox(&self) -> &dyn Outbox {
        &*self.0.outbox
    }

    pub(crate) fn timestamps(&self) -> &dyn RowTimestamps {
        &*self.0.timestamps
    }

    pub(crate) fn own_writer(&self) -> &Mutex<OwnWriter> {
        &self.0.writer
    }

    pub(crate) fn schema_status(&self) -> SchemaStatus {
        self.0.schema.status()
    }

    pub(crate) fn clock_problems(&self) -> MutexGuard<'_, ClockProblems> {
        self.0.clock_problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, NodesFile> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub(crate) fn scan_file(&self) -> MutexGuard<'_, ScanFile> {
        self.0.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this member was made, in seconds since the epoch.
    pub(crate) fn made_at(&self) -> i64 {
        self.0.made_at
    }

    pub(crate) fn watched(&self) -> &Watched {
        &self.0.watched
    }

    pub(crate) fn pace(&self) -> &Pace {
        &self.0.pace
    }

    /// Whether a server that may have lost names has returned, and these names have not been created again
    /// yet.
    pub(crate) fn has_unhandled_return(&self) -> bool {
        self.returns() != self.handled_returns()
    }

    /// Number of events in which names may have been lost: restarts that the store has noticed, restarts
    /// while this daemon was not running, and tables that were created again. The number only grows; one
    /// restart may count twice.
    pub(crate) fn returns(&self) -> u64 {
        self.store().names_restarts() + self.0.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn note_restart(&self) {
        self.0.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handled_returns(&self) -> u64 {
        self.0.handled_returns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_handled_returns(&self, returns: u64) {
        self.0.handled_returns.store(returns, Ordering::Relaxed);
    }

    pub(crate) fn finds_names(&self) -> bool {
        self.0.finds_names
    }

    pub(crate) fn touch_after(&self) -> Duration {
        self.0.touch_after
    }
}

fn spawn_until(stop: &CancellationToken, work: impl Future<Output = ()> + Send + 'static) {
    let stop = stop.clone();
    tokio::spawn(async move { stop.run_until_cancelled(work).await });
}

/// Why rows stay in the spool, for operators. A table that is refused is no reason to look at the servers' load.
fn not_acknowledged(NotAcknowledged { why, is_refused }: NotAcknowledged) -> String {
    if is_refused {
        format!(
            "rows stay in the spool because the servers refuse them, and no others are sent at present: {why}"
        )
    } else {
        format!(
            "rows stay in the spool because they are not acknowledged; look at the servers' load, disks and \
             logs: {why}"
        )
    }
}

/// Joins several messages into one text; `None` if there are none.
fn listed(messages: Vec<String>) -> Option<String> {
    (!messages.is_empty()).then(|| messages.join("; "))
}
