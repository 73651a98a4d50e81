//! A store that several daemons share: its connection and schema, who writes to it, changes that other
//! daemons make, and leases.

use std::fmt::Debug;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::Retention;
use uuid::Uuid;

use crate::{MetaPage, MetadataStore, ReadNotes, Share, StoreError, WriterIdentity};

/// The requirements of a daemon on the schema of a shared store.
#[derive(Debug, Clone, Default)]
pub struct SchemaNeeds {
    /// Retentions that metrics may have. Each of their stages needs a table.
    pub retentions: Vec<Retention>,
    /// Whether the store answers globs, so that it needs indexes of names.
    pub finds_names: bool,
}

/// The result of a schema check. All texts are for operators: each contains the problem and the remedy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaStatus {
    /// Problems that prevent rows from being stored.
    pub fatal: Vec<String>,
    /// Reasons why a feature is off.
    pub features_off: Vec<String>,
    /// Differences of the schema that have no consequences.
    pub notes: Vec<String>,
    /// The features that the schema allows.
    pub features: SharedFeatures,
    /// Whether the tables belong to a program that never applied a metric's xFilesFactor, so that it counts
    /// as 0.
    pub ignores_x_files_factor: bool,
    /// The state of the keyspaces.
    pub keyspaces: KeyspaceState,
}

/// What can change in the keyspaces while the schema has no problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyspaceState {
    /// Whether the servers write points to a log before they acknowledge them, so that a restart loses at
    /// most a few seconds of points. False if this is not known.
    pub keeps_commit_log: bool,
    /// When the servers created the table for names, in microseconds since the epoch by their clock. If it changes,
    /// the table was dropped and created again, and lacks the names of before. `None` if it is not known.
    pub names_created_us: Option<i64>,
}

/// Features that a shared store may lack, because only Plumbago has the tables for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedFeatures {
    /// Whether a change feed exists. Without one, changes by other daemons are found by reading all names.
    pub changes: bool,
    /// Whether leases can be taken.
    pub leases: bool,
    /// Whether writer ids can be registered.
    pub writers: bool,
}

/// A server that holds points, and a number that identifies its current start. A restarted server may have
/// lost rows that it had acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStart {
    /// The host id of the server.
    pub node: Uuid,
    /// A number that changes with each start of the server. While the server cannot be reached, the last
    /// known number. `None` if it was never read.
    pub start: Option<i64>,
    /// The time since the request that read the number was sent; zero if there is no number.
    pub age: Duration,
}

/// Changes of names by other daemons since the last poll.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Names in the order of their changes, each with the time of its deletion by the servers' clock (seconds
    /// since the epoch); `None` for a name that was created or changed.
    pub names: Vec<(String, Option<i64>)>,
    /// Whether changes may have been missed, so that all names have to be read again.
    pub missed: bool,
    /// All changes before this time (seconds since the epoch) were returned. A feed that is opened at this time
    /// misses none.
    pub read_until: i64,
}

/// One reader of the change feed.
#[boxed_futures]
pub trait ChangeFeed: Send + Debug {
    /// Returns the changes since the last poll. The first polls return those since the time at which the feed was
    /// opened.
    ///
    /// # Errors
    /// If the feed cannot be read. Nothing is lost: the next poll returns the same changes.
    async fn poll(&mut self) -> Result<Changes, StoreError>;
}

/// A lease that is held. It expires unless it is renewed in time.
#[boxed_futures]
pub trait Lease: Send + Sync + Debug {
    /// Extends the lease by its full time. Returns `false` if it was lost to another holder.
    ///
    /// # Errors
    /// If the outcome is unknown.
    async fn renew(&self) -> Result<bool, StoreError>;

    /// Ends the lease.
    ///
    /// # Errors
    /// If the outcome is unknown. In that case the lease expires after its time.
    async fn release(&self) -> Result<(), StoreError>;
}

/// A store that several daemons share.
#[boxed_futures]
pub trait SharedStore: MetadataStore + ReadNotes {
    /// Waits until the servers answer.
    ///
    /// # Errors
    /// If the store was closed.
    async fn wait_until_up(&self) -> Result<(), StoreError>;

    /// The reason why the servers cannot be reached, for operators; `None` if they can be reached.
    fn down_reason(&self) -> Option<String>;

    /// Which servers cannot be reached although others can, and the remedy, for operators; `None` if there
    /// are none.
    fn missing_servers(&self) -> Option<String>;

    /// The known servers that hold points, as of the last requests to them. Empty before the first
    /// connection.
    fn node_starts(&self) -> Vec<NodeStart>;

    /// Number of restarts, noticed by this process, of servers that hold names. It never decreases.
    fn names_restarts(&self) -> u64;

    /// The time of the servers' clock at some moment during this call, in milliseconds since the epoch.
    ///
    /// # Errors
    /// If no server answers.
    async fn server_clock_ms(&self) -> Result<i64, StoreError>;

    /// Sets how far this machine's clock is behind the servers', in milliseconds. The timestamps of later changes of
    /// names are moved by it.
    fn set_lag(&self, _ms: i64) {}

    /// The state of the keyspaces. `None` if the keyspace for points or that for names does not exist at present.
    ///
    /// # Errors
    /// If the schema of the servers cannot be read.
    async fn keyspace_state(&self) -> Result<Option<KeyspaceState>, StoreError>;

    /// Compares the schema with `needs`. Tables that do not fit are not used from then on.
    ///
    /// # Errors
    /// If the schema cannot be read.
    async fn check_schema(&self, needs: &SchemaNeeds) -> Result<SchemaStatus, StoreError>;

    /// The features that the last check found; checks the schema first if there was no check yet.
    ///
    /// # Errors
    /// If the schema cannot be read.
    async fn shared_features(&self) -> Result<SharedFeatures, StoreError>;

    /// Tables that are not used at present, each with the reason.
    fn refused_tables(&self) -> Vec<String>;

    /// The identity under which rows are written.
    fn writer_identity(&self) -> WriterIdentity;

    /// Writes under another identity from now on.
    fn set_writer_identity(&self, writer: WriterIdentity);

    /// Registers a writer for one instance of a data directory, or renews its registration. Returns `false`
    /// if another instance has one of its ids. An instance that does not renew its registration for a long
    /// time loses the ids: its rows are refused after a day, and later another instance can register them.
    ///
    /// # Errors
    /// If the outcome is unknown, or if there is no table of writers.
    async fn register_writer(
        &self,
        writer: WriterIdentity,
        instance: Uuid,
        host: &str,
    ) -> Result<bool, StoreError>;

    /// A writer of a replica that no instance has registered, or whose registration has long expired; `None`
    /// if there is none.
    ///
    /// # Errors
    /// If the registered writers cannot be read.
    async fn free_writer(&self, replica: u8) -> Result<Option<WriterIdentity>, StoreError>;

    /// One page of the metrics in a part of all names; otherwise as [`MetadataStore::scan`].
    ///
    /// # Errors
    /// If the page cannot be read.
    async fn scan_part(
        &self,
        part: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError>;

    /// Whether metrics exist, in the order of `names`. Unlike [`MetadataStore::get`] it never misses a metric
    /// whose creation was acknowledged, because callers treat a missing metric as deleted.
    ///
    /// # Errors
    /// If the answer is not known for one of the names.
    async fn exist(&self, names: &[&str]) -> Result<Vec<bool>, StoreError>;

    /// Records the current time as the last write of existing metrics, for the clean-up. Metrics whose
    /// recorded time is already at or after `since` (seconds since the epoch) are not changed. Returns
    /// whether each metric exists, as [`SharedStore::exist`].
    ///
    /// # Errors
    /// A transient error if the caller has to retry.
    async fn note_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError>;

    /// Announces metrics in the change feed as if this daemon had just created them, so that other daemons load
    /// them. A failure is only logged: other daemons then find them when they next read all names.
    async fn announce(&self, names: &[&str]);

    /// Opens the change feed. It returns the changes since a time (seconds since the epoch), and may return some of
    /// those shortly before it. Choose a time before all names were read.
    fn change_feed(&self, since: i64) -> Box<dyn ChangeFeed>;

    /// Takes a lease for `ttl`; `None` if another holder has it.
    ///
    /// # Errors
    /// If the outcome is unknown.
    async fn take_lease(
        &self,
        name: &str,
        host: &str,
        ttl: Duration,
    ) -> Result<Option<Box<dyn Lease>>, StoreError>;
}
