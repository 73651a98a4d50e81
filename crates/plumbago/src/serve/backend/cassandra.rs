//! Cassandra behind a spool: connecting, checking, sending, and following what others do.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use plumbago_engine::{Engine, NameCheck, NameRefusal};
use plumbago_journal::Spool;
use plumbago_model::Clock;
use plumbago_spooled::{Sender, SpooledStore};
use plumbago_store::{BlockLayout, MetaEntry, MetadataStore, MetricMeta, StoreError};
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::{CassandraStore, Changes, NameProblem, Report, TokenRange, schema};
use plumbago_store_embedded::EmbeddedStore;
use plumbago_telemetry::{Registry, Throttle};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::identity::Writer;
use super::names::Names;
use super::remote::CassandraPoints;
use crate::config::{Config, IndexMode};
use crate::error::{Exit, Failure};
use crate::serve::rules;

/// How often the change feed of other daemons is read.
const FEED_EVERY: Duration = Duration::from_secs(2);
/// How often all names are read again, with a change feed and without.
const RESCAN_WITH_FEED: Duration = Duration::from_secs(3600);
const RESCAN_WITHOUT: Duration = Duration::from_secs(300);
/// Names looked at together.
const PAGE: usize = 5000;
/// How often the tables are looked at while something is wrong with them.
const CHECK_AGAIN: Duration = Duration::from_secs(5);
/// A pause after the server could not be asked.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a stop waits for what is on its way; the spool keeps the rest.
const DRAIN: Duration = Duration::from_secs(10);
/// How soon after a start, or a failure, it is noted which metrics are being written.
const TOUCH_SOON: Duration = Duration::from_secs(60);
/// How often the nodes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long all nodes are there before what is retained expires again: the return of one is noticed by
/// then.
const SETTLED: Duration = Duration::from_secs(60);
/// Tries to draw a writer id that nobody has.
const DRAWS: usize = 16;

/// The stores of a daemon on Cassandra. Cloning shares them.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Cassandra {
    pub(super) store: CassandraStore,
    pub(super) spooled: SpooledStore,
    pub(super) names: Names,
    /// Names are found by the server and not loaded.
    pub(super) by_sasi: bool,
    /// Reads are noted in the metadata.
    pub(super) notes_reads: bool,
    clock: Arc<dyn Clock>,
    /// Tables that the storage rules ask for.
    tables: BTreeSet<Table>,
    touch_after: Duration,
    /// Who we are, as the file and the store say too.
    own: Arc<tokio::sync::Mutex<Own>>,
    /// Where the store says how many nodes there are.
    registry: Registry,
    /// What the last check of the server found fatal.
    troubles: Arc<Mutex<Vec<String>>>,
    checked: Arc<watch::Sender<bool>>,
    sending: CancellationToken,
}

/// The writer of this process.
#[derive(Debug)]
struct Own {
    writer: Writer,
    /// The ids are ours, and rows carry them.
    is_registered: bool,
}

impl Cassandra {
    /// Opens what is local and begins to connect.
    pub(super) fn open(
        config: &Config,
        rules: &rules::Live,
        clock: &Arc<dyn Clock>,
        registry: &Registry,
        stop: &CancellationToken,
    ) -> Result<Self, Failure> {
        let local = |error: anyhow::Error| Failure::new(Exit::Store, error);
        let settings = &config.store.cassandra;
        let writer = Writer::load(&config.data_dir, settings.replica).context("writer id").map_err(local)?;
        let spool_dir = config.data_dir.join("spool");
        let spool = Spool::open(&spool_dir, config.spool.clone(), Arc::clone(clock), registry)
            .context("cannot open the spool")
            .map_err(local)?;
        let copy_dir = config.data_dir.join("names");
        // Only names are in it, so its self-metrics would mislead.
        let copy = EmbeddedStore::open(
            &copy_dir,
            config.store.embedded.clone(),
            Arc::clone(clock),
            &Registry::new(),
        )
        .map_err(super::failure)?;
        let store = CassandraStore::connect(settings, writer.identity, Arc::clone(clock), registry)
            .context("store.cassandra")
            .map_err(local)?;
        let (checked, is_checked) = watch::channel(false);
        let marker = config.data_dir.join("names-complete");
        let by_sasi = config.index.mode == IndexMode::Sasi;
        let names = Names::new(store.clone(), copy, (marker, !by_sasi), is_checked, stop.clone());
        let layout = BlockLayout { raw_slots: 1 };
        let spooled = SpooledStore::new(spool, Arc::new(CassandraPoints(store.clone())), layout, registry);
        let this = Self {
            tables: schema::tables_of(rules.load().configs().iter().map(|config| &config.retention)),
            store,
            spooled,
            names,
            by_sasi,
            notes_reads: settings.read_on_sampling > 0,
            clock: Arc::clone(clock),
            touch_after: settings.touch_after.0,
            own: Arc::new(tokio::sync::Mutex::new(Own { writer, is_registered: false })),
            registry: registry.clone(),
            troubles: Arc::default(),
            checked: Arc::new(checked),
            sending: CancellationToken::new(),
        };
        tokio::spawn(this.clone().prepare(config.sender.clone(), stop.clone()));
        Ok(this)
    }

    /// Which names the tables can hold; the others are named in the log now and then.
    pub(super) fn name_check(&self) -> NameCheck {
        let (store, by_sasi) = (self.store.clone(), self.by_sasi);
        let throttle = Throttle::new(10_000);
        Arc::new(move |name| {
            let Err(problem) = store.check_name(name, by_sasi) else { return Ok(()) };
            if let Some(held_back) = throttle.pass_now() {
                let start: String = name.chars().take(200).collect();
                tracing::warn!(name = start, %problem, held_back, "points of a metric are refused");
            }
            Err(match problem {
                NameProblem::TooManyComponents(_) => NameRefusal::TooDeep,
                NameProblem::TooLong | NameProblem::NotIndexed => NameRefusal::TooLong,
                NameProblem::EndMarker => NameRefusal::Reserved,
            })
        })
    }

    /// Why this is not ready.
    pub(super) fn reasons(&self) -> Vec<String> {
        let mut reasons = self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !self.store.is_up() {
            let why = self.store.trouble().map(|why| format!(" ({why})")).unwrap_or_default();
            reasons.push(format!("Cassandra cannot be reached{why}: points are kept in the spool"));
        }
        let refused = self.store.writer().refused_tables();
        reasons.extend(refused.into_iter().map(|(table, why)| format!("table {}: {why}", table.name())));
        if let Some(error) = self.spooled.status().last_error.filter(|_| self.store.is_up()) {
            reasons.push(format!("rows are kept in the spool, since they are not acknowledged: {error}"));
        }
        reasons.extend(self.spooled.spool().trouble());
        reasons
    }

    pub(super) fn spawn_chores(&self, engine: &Engine, stop: &CancellationToken) {
        let follow = self.clone().follow(engine.clone());
        tokio::spawn(run_until(stop.clone(), follow));
        tokio::spawn(run_until(stop.clone(), self.clone().touch(engine.clone())));
        tokio::spawn(run_until(stop.clone(), self.clone().send_again()));
    }

    /// What is on its way gets a moment; the spool keeps what does not arrive.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        if self.store.is_up() && !self.spooled.drain(DRAIN).await {
            tracing::warn!(spool = ?self.spooled.status(), "not everything was sent; the spool keeps it");
        }
        self.sending.cancel();
        self.names.copy().close()?;
        self.spooled.spool().clone().close()?;
        Ok(())
    }

    /// Once the server answers: what is it, may we write as we are? Only then rows are sent.
    async fn prepare(self, sender: plumbago_spooled::SenderConfig, stop: CancellationToken) {
        let known = async {
            loop {
                match self.check_and_register().await {
                    Ok(()) => return,
                    Err(error) => tracing::warn!(error = %format!("{error:#}"), "Cassandra is not ready yet"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        if stop.run_until_cancelled(known).await.is_none() {
            return;
        }
        self.checked.send_replace(true);
        tokio::spawn(run_until(stop, self.clone().check_again()));
        Sender::new(self.spooled.clone(), sender).run(self.sending.clone()).await;
    }

    async fn check_and_register(&self) -> anyhow::Result<()> {
        self.store.wait().await?;
        let report = self.check().await?;
        report.log();
        self.names.set_made_by_biggraphite(report.made_by_biggraphite);
        if report.made_by_biggraphite {
            tracing::info!("BigGraphite's keyspaces: xFilesFactor is not applied, as it never was");
        }
        if report.features.writers {
            self.register().await?;
        }
        Ok(())
    }

    /// Looks again while something is wrong with the tables: `syncdb` is run beside a running daemon.
    async fn check_again(self) {
        loop {
            tokio::time::sleep(CHECK_AGAIN).await;
            let troubled = !self.troubles.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if !troubled && self.store.writer().refused_tables().is_empty() {
                continue;
            }
            let before = self.store.writer().refused_tables().len();
            match self.check().await {
                Ok(report) if report.fatal().next().is_some() || self.lacks_sasi(&report) => {}
                Ok(_) => match self.check_and_register().await {
                    Ok(()) => tracing::info!(refused_before = before, "the tables are as they should be now"),
                    Err(error) => {
                        tracing::warn!(error = %format!("{error:#}"), "the tables were not looked at");
                    }
                },
                Err(error) => tracing::debug!(%error, "the tables cannot be looked at"),
            }
        }
    }

    fn lacks_sasi(&self, report: &Report) -> bool {
        self.by_sasi && !report.features.sasi
    }

    async fn check(&self) -> Result<Report, StoreError> {
        let report = self.store.check(&self.tables).await?;
        let mut fatal: Vec<String> =
            report.fatal().map(|difference| format!("{difference}; run `plumbago syncdb`")).collect();
        if self.lacks_sasi(&report) {
            fatal.push(self.store.find_advice(report.server));
        }
        *self.troubles.lock().unwrap_or_else(PoisonError::into_inner) = fatal;
        Ok(report)
    }

    /// Registers who we are; another writer is drawn while somebody else has the ids. Ids that were ours
    /// are kept: rows of open windows carry them, and under others their points would be counted twice.
    async fn register(&self) -> anyhow::Result<()> {
        let (host, mut own) = (host(), self.own.lock().await);
        for _ in 0..DRAWS {
            let (identity, instance) = (own.writer.identity, own.writer.instance);
            if self.store.register_writer(identity, instance, &host).await? {
                own.is_registered = true;
                return Ok(());
            }
            if own.is_registered {
                tracing::error!(writer = identity.writer(), "another instance has taken our writer id");
                return Ok(());
            }
            tracing::warn!(writer = identity.writer(), "another instance has this writer id");
            own.writer = own.writer.draw_again()?;
            self.store.set_identity(own.writer.identity);
        }
        anyhow::bail!("no free writer id found")
    }

    /// Learns of metrics that others create and delete; where names are found by the server, only of
    /// those that were deleted.
    async fn follow(self, engine: Engine) {
        self.wait_until_checked().await;
        let mut feed = self.store.change_feed();
        // What is not taken over yet.
        let mut changes = Vec::new();
        loop {
            let rescanned = Instant::now();
            if !self.by_sasi
                && let Err(error) = self.rescan(&engine).await
            {
                tracing::warn!(error = %format!("{error:#}"), "names not read again, trying later");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            loop {
                tokio::time::sleep(FEED_EVERY).await;
                let has_feed = self.store.features().await.is_ok_and(|(_, features)| features.changes);
                let every = if has_feed { RESCAN_WITH_FEED } else { RESCAN_WITHOUT };
                if rescanned.elapsed() > every {
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
            let still: Vec<bool> = self.names.get(names).await?.iter().map(Option::is_some).collect();
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

    /// Waits until it is known what the server is.
    async fn wait_until_checked(&self) {
        // The sender is our own, so this ends with nothing else.
        let _ = self.checked.subscribe().wait_for(|checked| *checked).await;
    }

    /// Reads all names; those that are new here are taken in.
    async fn rescan(&self, engine: &Engine) -> anyhow::Result<()> {
        let mut position = None;
        loop {
            let page = self.store.scan_range(TokenRange::ALL, position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            let known = engine.know(&names).await?;
            let new: Vec<MetricMeta> =
                page.iter().zip(known).filter(|(_, known)| !known).map(|(entry, _)| meta_of(entry)).collect();
            if !new.is_empty() {
                engine.adopt(&self.names.take_over(new).await?).await?;
            }
            position = page.next;
            if position.is_none() {
                if !self.names.is_complete() {
                    self.names.mark();
                }
                return Ok(());
            }
        }
    }

    /// Notes, for the clean-up, which metrics are being written; soon after a start for the first time,
    /// since nobody knows how long nothing was noted before it.
    async fn touch(self, engine: Engine) {
        self.wait_until_checked().await;
        let every = (self.touch_after / 2).max(TOUCH_SOON);
        let mut pause = TOUCH_SOON;
        loop {
            tokio::time::sleep(pause).await;
            pause = every;
            if let Err(error) = self.touch_written(&engine, every).await {
                tracing::warn!(error = %format!("{error:#}"), "updated_on not renewed, trying later");
                pause = TOUCH_SOON;
            }
        }
    }

    async fn touch_written(&self, engine: &Engine, within: Duration) -> anyhow::Result<()> {
        let since = self.clock.now() - within.as_secs() as i64;
        let mut position = None;
        loop {
            let page = self.names.copy().scan(position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            let written = engine.are_written(&names, since).await?;
            let written: Vec<MetricMeta> =
                page.iter().zip(written).filter(|(_, written)| *written).map(|(e, _)| meta_of(e)).collect();
            self.note_written(&written).await?;
            position = page.next;
            if position.is_none() {
                return Ok(());
            }
        }
    }

    /// Notes that metrics are being written. Those that the server has lost, or that somebody else has
    /// deleted, are created again as the copy has them: nobody could find their points otherwise.
    async fn note_written(&self, metrics: &[MetricMeta]) -> anyhow::Result<()> {
        let names: Vec<&str> = metrics.iter().map(|meta| meta.name.as_str()).collect();
        let found = self.store.get(&names).await?;
        let lost: Vec<MetricMeta> =
            metrics.iter().zip(found).filter(|(_, found)| found.is_none()).map(|(m, _)| m.clone()).collect();
        if !lost.is_empty() {
            tracing::info!(metrics = lost.len(), "names were gone, but their points come: created again");
            self.names.create(&lost).await?;
        }
        // Only now: there is nothing to be noted in a row that is missing.
        Ok(self.store.touch(&names).await?)
    }

    /// A node that returns may have lost what it had confirmed: all that is retained is sent again. While
    /// one is away nothing of that expires.
    async fn send_again(self) {
        let returns = self.store.node_returns();
        // Counted from the connecting on, so that a return before this task began is answered too.
        let mut answered = 0;
        let mut missed_at = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.misses_a_node() {
                missed_at = Instant::now();
            }
            let seen = *returns.borrow();
            if seen != answered && self.replay() {
                answered = seen;
            }
            self.spooled.spool().hold(seen != answered || missed_at.elapsed() < SETTLED);
        }
    }

    /// Sends all again that is retained; false when that has to be tried once more.
    fn replay(&self) -> bool {
        match self.spooled.replay(0) {
            Ok(0) => {}
            Ok(bytes) => tracing::info!(bytes, "a node has returned: what was sent lately is sent again"),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "nothing sent again");
                return !error.is_transient();
            }
        }
        true
    }

    /// True while a known node, or the whole cluster, is out of reach.
    fn misses_a_node(&self) -> bool {
        let count = |name| self.registry.value(name).unwrap_or(0.0);
        !self.store.is_up() || count("plumbago_cassandra_nodes_up") < count("plumbago_cassandra_nodes")
    }
}

fn meta_of((name, entry): (&str, &MetaEntry)) -> MetricMeta {
    MetricMeta { name: name.to_owned(), config: Arc::clone(&entry.config), created_on: entry.created_on }
}

/// The name of this machine.
pub(super) fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |h| h.to_string_lossy().into_owned())
}

async fn run_until(stop: CancellationToken, work: impl Future<Output = ()>) {
    stop.run_until_cancelled(work).await;
}
