//! Cassandra behind a spool: connecting, checking, sending, and following what others do.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use plumbago_engine::{Engine, NameCheck, NameRefusal};
use plumbago_journal::Spool;
use plumbago_model::Clock;
use plumbago_spooled::{Sender, SpooledStore};
use plumbago_store::{BlockLayout, MetadataStore, MetricMeta, StoreError};
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
    retain: Duration,
    touch_after: Duration,
    /// What the last check of the server found fatal.
    troubles: Arc<Mutex<Vec<String>>>,
    checked: Arc<watch::Sender<bool>>,
    sending: CancellationToken,
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
            retain: config.spool.retain,
            touch_after: settings.touch_after.0,
            troubles: Arc::default(),
            checked: Arc::new(checked),
            sending: CancellationToken::new(),
        };
        tokio::spawn(this.clone().prepare(writer, config.sender.clone(), stop.clone()));
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
    async fn prepare(self, writer: Writer, sender: plumbago_spooled::SenderConfig, stop: CancellationToken) {
        let known = async {
            loop {
                match self.check_and_register(&writer).await {
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
        tokio::spawn(run_until(stop, self.clone().check_again(writer)));
        Sender::new(self.spooled.clone(), sender).run(self.sending.clone()).await;
    }

    async fn check_and_register(&self, writer: &Writer) -> anyhow::Result<()> {
        self.store.wait().await?;
        let report = self.check().await?;
        report.log();
        self.names.set_made_by_biggraphite(report.made_by_biggraphite);
        if report.made_by_biggraphite {
            tracing::info!("BigGraphite's keyspaces: xFilesFactor is not applied, as it never was");
        }
        if report.features.writers {
            self.register(writer.clone()).await?;
        }
        Ok(())
    }

    /// Looks again while something is wrong with the tables: `syncdb` is run beside a running daemon.
    async fn check_again(self, writer: Writer) {
        loop {
            tokio::time::sleep(CHECK_AGAIN).await;
            let troubled = !self.troubles.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if !troubled && self.store.writer().refused_tables().is_empty() {
                continue;
            }
            let before = self.store.writer().refused_tables().len();
            match self.check().await {
                Ok(report) if report.fatal().next().is_some() || self.lacks_sasi(&report) => {}
                Ok(_) => match self.check_and_register(&writer).await {
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

    async fn register(&self, mut writer: Writer) -> anyhow::Result<()> {
        let host = host();
        for _ in 0..DRAWS {
            if self.store.register_writer(writer.identity, writer.instance, &host).await? {
                return Ok(());
            }
            tracing::warn!(writer = writer.identity.writer(), "another instance has this writer id");
            writer = writer.draw_again()?;
            self.store.set_identity(writer.identity);
        }
        anyhow::bail!("no free writer id found")
    }

    /// Learns of metrics that others create and delete; where names are found by the server, only of
    /// those that were deleted.
    async fn follow(self, engine: Engine) {
        let mut checked = self.checked.subscribe();
        if checked.wait_for(|checked| *checked).await.is_err() {
            return;
        }
        let mut feed = self.store.change_feed();
        loop {
            let rescanned = std::time::Instant::now();
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
                    Ok(changes) if changes.missed => break,
                    Ok(changes) => {
                        if let Err(error) = self.take_changes(&engine, changes).await {
                            tracing::warn!(error = %format!("{error:#}"), "changes of others not taken over");
                            break;
                        }
                    }
                    Err(error) => tracing::debug!(%error, "the change feed cannot be read"),
                }
            }
        }
    }

    async fn take_changes(&self, engine: &Engine, changes: Changes) -> anyhow::Result<()> {
        let (deleted, created): (Vec<_>, Vec<_>) =
            changes.names.into_iter().partition(|(_, deleted)| *deleted);
        let names =
            |list: &[(String, bool)]| -> Vec<String> { list.iter().map(|(name, _)| name.clone()).collect() };
        let created = if self.by_sasi { Vec::new() } else { names(&created) };
        for names in created.chunks(PAGE) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let metas = self.names.get(&names).await?.into_iter().flatten().collect();
            engine.adopt(&self.names.take_over(metas).await?).await?;
        }
        for names in names(&deleted).chunks(PAGE) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            // One that was created again since then stays.
            let still: Vec<bool> = self.names.get(&names).await?.iter().map(Option::is_some).collect();
            let gone: Vec<&str> =
                names.iter().zip(still).filter(|(_, still)| !still).map(|(name, _)| *name).collect();
            let forgotten = engine.forget(&gone, self.clock.now()).await?;
            let gone: Vec<&str> =
                gone.iter().zip(forgotten).filter(|(_, gone)| *gone).map(|(name, _)| *name).collect();
            self.names.drop_from_copy(&gone).await?;
        }
        Ok(())
    }

    /// Reads all names; those that are new here are taken in.
    async fn rescan(&self, engine: &Engine) -> anyhow::Result<()> {
        let mut position = None;
        loop {
            let page = self.store.scan_range(TokenRange::ALL, position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            let known = engine.know(&names).await?;
            let new: Vec<MetricMeta> = page
                .iter()
                .zip(known)
                .filter(|(_, known)| !known)
                .map(|((name, entry), _)| MetricMeta {
                    name: name.to_owned(),
                    config: Arc::clone(&entry.config),
                    created_on: entry.created_on,
                })
                .collect();
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

    /// Notes, for the clean-up, which metrics are being written.
    async fn touch(self, engine: Engine) {
        let every = (self.touch_after / 2).max(Duration::from_secs(60));
        loop {
            tokio::time::sleep(every).await;
            if let Err(error) = self.touch_written(&engine, every).await {
                tracing::warn!(error = %format!("{error:#}"), "updated_on not renewed, trying later");
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
            let written: Vec<&str> =
                names.iter().zip(written).filter(|(_, written)| *written).map(|(name, _)| *name).collect();
            self.store.touch(&written).await?;
            position = page.next;
            if position.is_none() {
                return Ok(());
            }
        }
    }

    /// A node that returns may have lost what it had confirmed: it is sent again.
    async fn send_again(self) {
        let mut returns = self.store.node_returns();
        returns.mark_unchanged();
        while returns.changed().await.is_ok() {
            let since_us = (self.clock.now_ms() - self.retain.as_millis() as i64) * 1000;
            match self.spooled.replay(since_us) {
                Ok(0) => {}
                Ok(bytes) => tracing::info!(bytes, "a node has returned: what was sent lately is sent again"),
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "nothing sent again"),
            }
        }
    }
}

/// The name of this machine.
pub(super) fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |h| h.to_string_lossy().into_owned())
}

async fn run_until(stop: CancellationToken, work: impl Future<Output = ()>) {
    stop.run_until_cancelled(work).await;
}
