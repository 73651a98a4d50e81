//! The store in Cassandra: a spool in front of it, and this daemon as a member of a cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use plumbago_cluster::{
    LeaseKeeper, LocalMetrics, Member, MemberParts, Names, NodesFile, ScanFile, WriterFile,
};
use plumbago_engine::{Engine, NameCheck, NameRefusal};
use plumbago_maintenance::backup::BackupError;
use plumbago_model::Clock;
use plumbago_spool::{Sender, SenderConfig, Spool, SpooledStore};
use plumbago_store::{BlockLayout, SchemaNeeds, SharedStore};
use plumbago_store_cassandra::{CassandraStore, NameProblem};
use plumbago_store_embedded::{EmbeddedStore, HeldFile};
use plumbago_telemetry::{Registry, Throttle};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::adapters::{EngineMetrics, SpoolOutbox};
use crate::config::{self, Config, IndexMode};
use crate::error::{Exit, Failure};
use crate::serve::rules;

/// How long a stop waits until rows are acknowledged. All others stay in the spool.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The stores of a daemon on Cassandra. Clones share the same stores.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Cassandra {
    pub(super) store: CassandraStore,
    pub(super) spooled: SpooledStore,
    pub(super) names: Names,
    pub(super) member: Member,
    pub(super) leases: Arc<LeaseKeeper>,
    /// Whether globs are resolved by Cassandra's SASI indexes (`index.mode = "sasi"`).
    pub(super) by_sasi: bool,
    /// Whether reads update the time of a metric's last read (`read_on`).
    pub(super) notes_reads: bool,
    copy: EmbeddedStore,
    sending: CancellationToken,
}

impl Cassandra {
    /// Opens the spool and the local copy of the names, and starts to connect to the servers.
    pub(super) fn open(
        config: &Config,
        rules: &rules::Live,
        clock: &Arc<dyn Clock>,
        registry: &Registry,
        stop: &CancellationToken,
    ) -> Result<Self, Failure> {
        let settings = &config.store.cassandra;
        let mut writer = load_writer(config)?;
        let spool = open_spool(config, clock, registry)?;
        writer.set_former_until(spool.stats().last_us).context("writer id").map_err(local)?;
        let copy = open_copy(&config.data_dir.join("names"), config, clock, registry)?;
        let store = CassandraStore::connect(settings, writer.identity(), Arc::clone(clock), registry)
            .context("store.cassandra")
            .map_err(local)?;
        store.continue_after(spool.stats().last_us);
        if let Some(former) = writer.former() {
            store.set_former_writer(former.identity, former.until_us);
        }
        let shared: Arc<dyn SharedStore> = Arc::new(store.clone());
        let by_sasi = config.index.mode == IndexMode::Sasi;
        let (checked, is_checked) = watch::channel(false);
        let marker = (config.data_dir.join("names-complete"), !by_sasi);
        let names = Names::new(Arc::clone(&shared), Arc::new(copy.clone()), marker, is_checked, stop.clone());
        let layout = BlockLayout { raw_slots: 1 };
        let spooled = SpooledStore::new(spool, Arc::new(store.clone()), layout, registry);
        let retentions = rules.load().configs().iter().map(|config| config.retention.clone()).collect();
        let member = Member::new(MemberParts {
            store: Arc::clone(&shared),
            names: names.clone(),
            outbox: Arc::new(SpoolOutbox(spooled.clone())),
            timestamps: Arc::new(SpoolOutbox(spooled.clone())),
            writer,
            nodes: NodesFile::load(&config.data_dir),
            scan: ScanFile::load(&config.data_dir),
            needs: SchemaNeeds { retentions, finds_names: by_sasi },
            clock: Arc::clone(clock),
            touch_after: settings.touch_after.0,
            checked,
        });
        let leases = Arc::new(LeaseKeeper::new(shared, Arc::clone(clock)));
        let (notes_reads, sending) = (settings.read_on_sampling > 0, CancellationToken::new());
        let this = Self { store, spooled, names, member, leases, by_sasi, notes_reads, copy, sending };
        tokio::spawn(this.clone().send(config.sender.clone(), stop.clone()));
        Ok(this)
    }

    /// Returns a check that refuses names that the tables cannot hold. It logs at most one refused name in
    /// ten seconds.
    pub(super) fn name_check(&self) -> NameCheck {
        let (store, by_sasi) = (self.store.clone(), self.by_sasi);
        let throttle = Throttle::new(10_000);
        Arc::new(move |name| {
            let Err(problem) = store.check_name(name, by_sasi) else { return Ok(()) };
            if let Some(suppressed) = throttle.pass_now() {
                let start: String = name.chars().take(200).collect();
                tracing::warn!(name = start, %problem, suppressed, "the store cannot hold this name; points of the metric are refused");
            }
            Err(match problem {
                NameProblem::TooManyComponents(_) => NameRefusal::TooDeep,
                NameProblem::TooLong | NameProblem::NotIndexed => NameRefusal::TooLong,
                NameProblem::EndMarker => NameRefusal::Reserved,
            })
        })
    }

    pub(super) fn spawn_tasks(&self, engine: &Engine, stop: &CancellationToken) {
        let local: Arc<dyn LocalMetrics> = Arc::new(EngineMetrics(engine.clone()));
        self.member.spawn_tasks(&local, stop);
    }

    /// Waits up to `DRAIN_TIMEOUT` for pending rows to be acknowledged, then closes the spool and the copy.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        if self.store.is_up() {
            self.spooled.drain(DRAIN_TIMEOUT).await;
            self.report_pending();
        }
        self.sending.cancel();
        self.copy.close()?;
        self.spooled.spool().clone().close()?;
        Ok(())
    }

    /// Logs how many rows stay in the spool at a stop, including deferred ones.
    fn report_pending(&self) {
        let status = self.spooled.status();
        let rows = status.spool.pending_rows;
        if rows == 0 {
            return;
        }
        let deferral = status.last_deferral.filter(|_| status.spool.deferred_rows > 0);
        let why = status.last_error.or(deferral).unwrap_or_else(|| "the servers were too slow".to_owned());
        tracing::warn!(
            rows,
            why,
            "not all rows were sent; the spool keeps the rest, and the next start sends it"
        );
    }

    /// Holds the files of the spool, or of the copy of the names, for backups.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the database is being reopened.
    pub(in crate::serve) fn hold(&self, name: &str, links: &Path) -> Result<Vec<HeldFile>, BackupError> {
        match name {
            "names" => self.copy.hold(links).map_err(|error| BackupError::Hold(error.to_string())),
            _ => self.spooled.spool().hold(links).map_err(|error| BackupError::Hold(error.to_string())),
        }
    }

    /// Joins the cluster, then sends spooled rows until the store is closed.
    async fn send(self, config: SenderConfig, stop: CancellationToken) {
        if self.member.join(&stop).await {
            Sender::new(self.spooled, config).run(self.sending).await;
        }
    }
}

/// Reads or draws the writer id.
fn load_writer(config: &Config) -> Result<WriterFile, Failure> {
    let dir = &config.data_dir;
    if config::is_used(dir) && !WriterFile::exists(dir) {
        tracing::warn!(
            "the file writer-id is missing in {}, which has data; choosing a new writer id, as after a restore with \
             --new-writer. If the file was removed by hand, points in the windows that are open now may be \
             counted twice",
            dir.display()
        );
    }
    let cannot = || format!("cannot read or write the file writer-id in {}", dir.display());
    WriterFile::load(dir, config.store.cassandra.replica).with_context(cannot).map_err(local)
}

fn open_spool(config: &Config, clock: &Arc<dyn Clock>, registry: &Registry) -> Result<Spool, Failure> {
    let dir = config.data_dir.join("spool");
    Spool::open(&dir, config.spool.clone(), Arc::clone(clock), registry).map_err(|error| {
        let exit = if error.is_damage() { Exit::Data } else { Exit::Store };
        Failure::new(exit, anyhow::Error::new(error).context("cannot open the spool"))
    })
}

/// Opens the local copy of the names: an embedded store without points. It gets a registry of its own,
/// because its self-metrics have the same names as those of a store with points.
fn open_copy(
    dir: &Path,
    config: &Config,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
) -> Result<EmbeddedStore, Failure> {
    EmbeddedStore::open(dir, config.store.embedded.clone(), Arc::clone(clock), &registry.apart())
        .map_err(super::failure)
}

fn local(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Store, error)
}
