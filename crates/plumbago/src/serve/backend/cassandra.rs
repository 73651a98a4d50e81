//! Cassandra behind a spool: connecting, checking, sending. What others do is followed in
//! `follow.rs`.

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
use plumbago_store_cassandra::{CassandraStore, NameProblem, Report, schema};
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

/// Names looked at together.
pub(super) const PAGE: usize = 5000;
/// How often the tables are looked at while something is wrong with them.
const CHECK_AGAIN: Duration = Duration::from_secs(5);
/// The same while only some feature is off.
const CHECK_FEATURES: Duration = Duration::from_secs(60);
/// Differences that `/readyz` names.
const LACKING_MAX: usize = 10;
/// A pause after the server could not be asked.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
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
    pub(super) clock: Arc<dyn Clock>,
    /// Tables that the storage rules ask for.
    tables: BTreeSet<Table>,
    touch_after: Duration,
    /// Who we are, as the file and the store say too.
    own: Arc<tokio::sync::Mutex<Own>>,
    /// What the last check of the server found fatal.
    troubles: Arc<Mutex<Vec<String>>>,
    /// What it found that only some feature lacks.
    lacking: Arc<Mutex<Vec<String>>>,
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
            troubles: Arc::default(),
            lacking: Arc::default(),
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

    /// What does not work although this is ready.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let mut looked = Instant::now();
        loop {
            tokio::time::sleep(CHECK_AGAIN).await;
            let troubled = !self.troubles.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            let before = self.store.writer().refused_tables().len();
            let lacking = self.warnings().len();
            let hurry = troubled || before > 0;
            if !hurry && (lacking == 0 || looked.elapsed() < CHECK_FEATURES) {
                continue;
            }
            looked = Instant::now();
            match self.check().await {
                Ok(report) if report.fatal().next().is_some() || self.lacks_sasi(&report) => {}
                Ok(_) if !hurry && self.warnings().len() == lacking => {}
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
        let off = report.features_off().take(LACKING_MAX);
        let off = off.map(|difference| format!("{difference}; run `plumbago syncdb`")).collect();
        *self.lacking.lock().unwrap_or_else(PoisonError::into_inner) = off;
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

    /// Waits until it is known what the server is.
    pub(super) async fn wait_until_checked(&self) {
        // The sender is our own, so this ends with nothing else.
        let _ = self.checked.subscribe().wait_for(|checked| *checked).await;
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
    pub(super) async fn note_written(&self, metrics: &[MetricMeta]) -> anyhow::Result<()> {
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
            if self.store.misses_a_node() {
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
}

pub(super) fn meta_of((name, entry): (&str, &MetaEntry)) -> MetricMeta {
    MetricMeta { name: name.to_owned(), config: Arc::clone(&entry.config), created_on: entry.created_on }
}

/// The name of this machine.
pub(super) fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |h| h.to_string_lossy().into_owned())
}

async fn run_until(stop: CancellationToken, work: impl Future<Output = ()>) {
    stop.run_until_cancelled(work).await;
}
