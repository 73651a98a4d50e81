//! `CassandraStore` as a store that several daemons share.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{
    ChangeFeed, KeyspaceState, Lease, MetaPage, NodeStart, ReadNotes, SchemaNeeds, SchemaStatus, Share,
    SharedFeatures, SharedStore, StoreError, WriterIdentity,
};
use uuid::Uuid;

use crate::changes::FeedReader;
use crate::check::Report;
use crate::features::Features;
use crate::lease::HeldLease;
use crate::scan::TokenRange;
use crate::schema::{self, Severity};
use crate::store::CassandraStore;

/// Maximum number of differences that a status lists as reasons why features are off.
const FEATURES_MAX: usize = 10;
/// Difference between the server's clock and ours from which the status mentions it, in milliseconds.
const CLOCK_TOLERANCE_MS: i64 = 1000;

/// What an operator can do about a node that cannot be reached. A node whose disk is full stops, or its
/// process keeps running without listening.
const ADVICE: &str = "If a node has stopped or hangs, look at its log; if the disk of its data or commit \
                      log is full, make room; then restart the node, even if its process still runs";

#[boxed_futures]
impl ReadNotes for CassandraStore {
    async fn note_read(&self, names: &[&str]) -> Result<(), StoreError> {
        let every = u64::from(self.config.read_on_sampling);
        if every == 0 || !self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
            return Ok(());
        }
        self.names.note_read(names).await
    }
}

#[boxed_futures]
impl SharedStore for CassandraStore {
    async fn wait_until_up(&self) -> Result<(), StoreError> {
        self.wait().await
    }

    fn down_reason(&self) -> Option<String> {
        let why = self.trouble()?;
        Some(format!("Cassandra cannot be reached ({why}): points are kept in the spool. {ADVICE}"))
    }

    fn missing_servers(&self) -> Option<String> {
        let missing = self.missing()?;
        Some(format!(
            "{missing}. Rows for which too few other nodes are left wait in the spool; all others are \
             stored. {ADVICE}. Rows that the node missed are sent again"
        ))
    }

    fn node_starts(&self) -> Vec<NodeStart> {
        self.clusters.points.node_starts()
    }

    fn names_restarts(&self) -> u64 {
        self.clusters.names.restarts()
    }

    async fn server_clock_ms(&self) -> Result<i64, StoreError> {
        self.clock_difference().await.map(|(_, server_ms)| server_ms)
    }

    fn set_lag(&self, ms: i64) {
        self.clusters.timestamps.set_lag(ms);
    }

    async fn keyspace_state(&self) -> Result<Option<KeyspaceState>, StoreError> {
        self.keyspaces_now().await
    }

    async fn check_schema(&self, needs: &SchemaNeeds) -> Result<SchemaStatus, StoreError> {
        let report = self.check(&schema::tables_of(&needs.retentions)).await?;
        let mut status = status(&report);
        if needs.finds_names && !report.features.sasi {
            status.fatal.push(self.find_advice(report.server));
        }
        Ok(status)
    }

    async fn shared_features(&self) -> Result<SharedFeatures, StoreError> {
        self.features().await.map(|(_, features)| shared(features))
    }

    fn refused_tables(&self) -> Vec<String> {
        let refused = self.writer().refused_tables();
        refused.into_iter().map(|(table, why)| format!("table {}: {why}", table.name())).collect()
    }

    fn writer_identity(&self) -> WriterIdentity {
        self.identity.get()
    }

    fn set_writer_identity(&self, writer: WriterIdentity) {
        self.identity.set(writer);
    }

    async fn register_writer(
        &self,
        writer: WriterIdentity,
        instance: Uuid,
        host: &str,
    ) -> Result<bool, StoreError> {
        let asked_ms = self.clock.now_ms();
        let is_ours = self.names.register_writer(writer, instance, host).await?;
        if writer == self.identity.get() {
            if is_ours { self.identity.keep(asked_ms) } else { self.identity.lose() }
        }
        Ok(is_ours)
    }

    async fn free_writer(&self, replica: u8) -> Result<Option<WriterIdentity>, StoreError> {
        self.names.free_writer(replica).await
    }

    async fn scan_part(
        &self,
        part: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError> {
        self.names.scan(TokenRange::of(part), position, limit).await
    }

    async fn exist(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        self.names.are_there(names).await
    }

    async fn note_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError> {
        self.names.note_written(names, since).await
    }

    async fn announce(&self, names: &[&str]) {
        self.names.announce(false, names).await;
    }

    fn change_feed(&self, since: i64) -> Box<dyn ChangeFeed> {
        Box::new(FeedReader::new(self.names.clone(), self.names.agreed_clock.clone(), since))
    }

    async fn take_lease(
        &self,
        name: &str,
        host: &str,
        ttl: Duration,
    ) -> Result<Option<Box<dyn Lease>>, StoreError> {
        let lease = HeldLease::take(self.names.clone(), name, host, ttl).await?;
        Ok(lease.map(|lease| Box::new(lease) as _))
    }
}

/// Turns the report of a check into messages for operators.
fn status(report: &Report) -> SchemaStatus {
    let of = |severity, advice: &str| -> Vec<String> {
        let differences = report.differences.iter().filter(|difference| difference.severity == severity);
        differences.map(|difference| format!("{difference}{advice}")).collect()
    };
    let mut features_off = of(Severity::Feature, "; run `plumbago syncdb`");
    features_off.truncate(FEATURES_MAX);
    let mut notes = of(Severity::Harmless, "");
    if report.clock_difference_ms.abs() > CLOCK_TOLERANCE_MS {
        let ms = report.clock_difference_ms;
        notes.push(format!(
            "the server's clock differs from this machine's by {ms} ms: of two writes, the older one may win"
        ));
    }
    SchemaStatus {
        fatal: of(Severity::Fatal, "; run `plumbago syncdb`"),
        features_off,
        notes,
        features: shared(report.features),
        keyspaces: KeyspaceState {
            keeps_commit_log: report.durable_writes,
            names_created_us: report.names_created_us,
        },
        ignores_x_files_factor: report.made_by_biggraphite,
    }
}

fn shared(features: Features) -> SharedFeatures {
    SharedFeatures { changes: features.changes, leases: features.leases, writers: features.writers }
}
