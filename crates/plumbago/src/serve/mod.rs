//! The daemon: opens its parts, connects them, and closes them in order. Start at [`run`].

mod activity;
mod admin;
mod aggregation;
mod at_rest;
mod backend;
mod carbonlink;
mod clock;
mod costs;
mod events;
mod files;
mod greeting;
mod health;
mod histories;
mod info;
mod maintenance;
mod names;
mod other_stores;
mod peers;
mod process;
mod quotas;
mod ready;
mod relay;
mod reload;
mod retention_hint;
mod rule_tester;
mod rules;
mod self_metrics;
mod sink;
mod status;
mod stopping;
mod tagging;
mod watchdog;
mod writes;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use plumbago_api::{AdminHandles, AdminSecret, Handles, KeptAnswers, Server, StatusHandles};
use plumbago_cluster::NotedReads;
use plumbago_cluster::peers::Client;
use plumbago_engine::{Engine, EngineParts, Reader, Recovered, StartError};
use plumbago_index::Index;
use plumbago_ingest::{Ingest, Listener, PointSink};
use plumbago_journal::{Journal, JournalError};
use plumbago_maintenance::runs::Runs;
use plumbago_maintenance::verbs::rules::ApplyRulesJob;
use plumbago_maintenance::{JobLease, Scheduler, Stores, Turns};
use plumbago_model::Clock;
use plumbago_relay::Relay;
use plumbago_store::{ErrorKind, SeriesSource};
use plumbago_telemetry::{Conditions, Damage, Registry, log};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use self::at_rest::{AtRestWork, work_at_rest};
pub(crate) use self::files::Files;
use self::stopping::{Reporter, Step};
use crate::config::{Budget, Config, Loaded};
use crate::error::{Exit, Failure};
use crate::output::say;
use crate::{machine, secret};

/// Pause between two runs that drop expired points and merge closed buckets.
const MAINTENANCE: Duration = Duration::from_secs(300);
/// How long a stop waits for the listeners.
const LISTENERS_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a stop waits for a store that fails. Points not stored by then stay in the journal.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the daemon until a signal or the admin port stops it. `file` is the configuration file to reload on
/// SIGHUP.
///
/// # Errors
///
/// If a store, the journal or a port cannot be opened, the state of earlier runs cannot be loaded, or a store
/// cannot be closed.
pub(crate) fn run(mut loaded: Loaded, file: Option<&Path>) -> Result<(), Failure> {
    let budget = loaded.divide_memory();
    let level = log::init(&loaded.config.log.level);
    log::log_panics();
    raise_file_limit();
    // All listeners share one TLS crypto provider. The call fails only if one is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let reload = reload::Reload::new(&loaded, file, level);
    let result = runtime.block_on(serve(loaded, &budget, reload));
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

/// The stores and the engine.
pub(crate) struct Core {
    keeper: backend::Keeper,
    stores: Stores,
    journal: Journal,
    index: Arc<Index>,
    engine: Engine,
    clock: Arc<dyn Clock>,
    registry: Registry,
    conditions: Conditions,
    rules: rules::Live,
    /// The cached answers of the API.
    answers: KeptAnswers,
}

impl Core {
    /// Returns the list of damage found.
    pub(crate) fn damage(&self) -> Damage {
        Damage::of(&self.registry)
    }

    /// Returns the leases that decide which process on the shared store runs a job. Inside this process, jobs of
    /// the same lease wait for each other.
    fn job_lease(&self) -> Arc<dyn JobLease> {
        Arc::new(Turns::new(self.keeper.job_lease()))
    }

    /// Returns the source of points for the API. If the store records which metrics are read, so does the
    /// source.
    fn source(&self, peers: &Arc<Client>, stop: &CancellationToken) -> Arc<dyn SeriesSource> {
        let source = Arc::new(self.reader(peers));
        match self.keeper.notes_reads() {
            Some(store) => Arc::new(NotedReads::new(source, store, stop.clone())),
            None => source,
        }
    }

    /// Returns a reader for the API. With `index.mode = "sasi"` it also reads metrics that are not loaded.
    /// With peers it includes points that the peers have accepted and not stored yet.
    fn reader(&self, peers: &Arc<Client>) -> Reader {
        let mut reader = self.engine.reader();
        if !peers.is_empty() {
            reader = reader.with_peers(Arc::clone(peers) as _);
        }
        match self.keeper.finder() {
            Some(_) => reader.with_metadata(Arc::clone(&self.stores.metadata)),
            None => reader,
        }
    }
}

async fn serve(loaded: Loaded, budget: &Budget, mut reload: reload::Reload) -> Result<(), Failure> {
    let before = greeting::Before::look(&loaded);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    machine::return_unused_memory();
    let config = &loaded.config;
    let rules = rules::Live::new(loaded.rules, config);
    let clock = clock::Setting::from(config.debug.clock);
    let stop = CancellationToken::new();
    let mut hangup = stop_on_signals(&stop)?;
    let core = open(config, budget, &rules, clock.shared(), &stop)?;
    before.opened();
    let relay = relay::open(config, &core)?;
    let (rules_of_names, stage) = aggregation::open(config, &core)?;
    let ingest = bind_ingest(config, &core, &relay, rules_of_names.clone(), stage.as_ref())?;
    let (listeners, addresses) = (ingest.handle(), ingest.addresses().clone());
    let lease = core.job_lease();
    let peers = Arc::new(peers::open(config, &core.registry)?);
    let damage = Damage::of(&core.registry);
    let events = events::open(config, peers::OfEvents::of(&core.keeper, &peers), &damage)?;
    let work = core.work(config, Arc::clone(&lease), events::Events::open(Arc::clone(&events)));
    let mut jobs = plumbago_maintenance::jobs(&config.maintenance, &core.stores, &config.maintenance_dir());
    jobs.push((Arc::new(ApplyRulesJob(work.clone())), config.maintenance.apply_rules_every));
    let scheduler = Scheduler::new(jobs, core.job_context(config), lease);
    let runs = Runs::new(work.clone(), stop.clone());
    let parts = (core.engine.clone(), core.keeper.clone());
    let sources = admin::Sources { listeners: listeners.clone(), relay: relay.clone(), stage: stage.clone() };
    let control = admin::AdminControl::new(
        parts,
        stop.clone(),
        clock,
        sources.clone(),
        (scheduler.clone(), runs.clone()),
    );
    let outside = health::Outside {
        keeper: core.keeper.clone(),
        peers: Arc::clone(&peers),
        relay: relay.clone(),
        stage: stage.clone(),
    };
    let health = health::Health::new(core.conditions.clone(), outside, stop.clone());
    let tagging = Arc::new(tagging::Tags::new(&core, rules.config_for()));
    let secret = AdminSecret {
        value: secret::load_or_create(&config.data_dir).map_err(|error| Failure::new(Exit::Store, error))?,
        file: secret::path(&config.data_dir),
    };
    let handles = Handles {
        index: Arc::clone(&core.index),
        finder: core.keeper.finder(),
        activity: activity::NewestPoints::of(config, &core),
        source: core.source(&peers, &stop),
        tagging: Arc::clone(&tagging) as _,
        writer: Arc::new(writes::Requests { writes: ingest.writes(), runs: runs.clone() }),
        readiness: Arc::new(health.clone()),
        metadata: Arc::new(info::Settings::new(&core)),
        events: Arc::clone(&events),
        clock: Arc::clone(&core.clock),
        registry: core.registry.clone(),
        answers: core.answers.clone(),
        status: Some(StatusHandles {
            source: Arc::new(status::Inside::new(config, &core, control.clone(), listeners.clone())),
            rules: Arc::new(rule_tester::Tester::new(config, &core, work.clone(), rules_of_names)),
            costs: Arc::new(costs::Costs::new(&core, work.clone())),
            token: config.admin.token.clone(),
            secret: secret.clone(),
        }),
    };
    let admin_handles = AdminHandles {
        readiness: Arc::new(health.clone()),
        actions: Arc::new(control.clone()),
        heads: Arc::new(peers::Answers { control: control.clone(), events }),
        registry: core.registry.clone(),
        secret,
    };
    let carbonlink = carbonlink::bind(config, &core)?;
    let api = Server::bind(&config.api, &handles).await.context("api.listen").map_err(internal)?;
    if let Some(api) = &api {
        ingest.serve_http_by(writes::ApiPort(api.door()));
    }
    let admin =
        Server::bind_admin(&config.admin, &admin_handles).await.context("admin.listen").map_err(internal)?;
    for (section, port) in [("api", &api), ("admin", &admin)] {
        port.iter().for_each(|port| reload.add_port(section, port.certificates()));
    }
    carbonlink.iter().for_each(|port| reload.add_port("carbonlink", port.certificates()));
    reload.report_to(&core.conditions, &core.registry);
    print_addresses(&addresses, api.as_ref(), admin.as_ref());
    carbonlink.iter().for_each(|port| say(&format!("listening carbonlink {}", port.address())));

    tokio::spawn(health.clone().run());
    process::register(&core.registry);
    let http_stop = CancellationToken::new();
    let admin = admin.map(|server| tokio::spawn(server.run(http_stop.clone())));
    let ingest_stop = CancellationToken::new();
    let reading = tokio::spawn(ingest.run(ingest_stop.clone()));
    relay::start(config, &relay)?;
    let Some(found) = start(&core.engine, &stop).await? else {
        ingest_stop.cancel();
        end_reading(reading).await;
        relay.close().await;
        return close(core).await;
    };
    let aggregating = stage.as_ref().map(|stage| stage.start(&core, &relay));
    before.found(&found);
    let _ = stop.run_until_cancelled(tagging.series().sync_marks()).await;
    control.set_ready();
    health.set_started();
    // The API port was bound before the replay, but was not served until now. Connections made in the
    // meantime wait in its queue.
    let (api_address, limits) = (api.as_ref().map(Server::address), api.as_ref().and_then(Server::limits));
    let users = api.as_ref().and_then(Server::users);
    let api = api.map(|server| tokio::spawn(server.run(http_stop.clone())));
    let carbonlink = carbonlink.map(|port| tokio::spawn(port.run(stop.clone())));
    spawn_chores(config, &core, &sources, &stop);
    core.watch_quotas(config, work, &stop);
    tokio::spawn(Arc::clone(tagging.series()).run(stop.clone()));
    let maintenance = tokio::spawn(scheduler.run(stop.clone()));
    let hints = greeting::hints(config, addresses.of(Listener::LINE), api_address);
    ready::announce(&health, hints, &stop);
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    tokio::spawn(watchdog::run(core.engine.clone(), stop.clone()));
    let hints = (core.engine.clone(), rules.clone(), core.conditions.clone());
    tokio::spawn(retention_hint::run(hints.0, hints.1, hints.2, stop.clone()));

    wait(
        &stop,
        &mut hangup,
        &mut reload,
        &reload::Live {
            rules: &rules,
            listeners: &listeners,
            relay: &relay,
            stage: stage.as_ref(),
            engine: &core.engine,
            limits: limits.as_ref(),
            users: users.as_ref(),
        },
    )
    .await;

    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let stopping = Reporter::start(core.registry.clone(), core.conditions.clone());
    ingest_stop.cancel();
    // An interrupted job continues from its last checkpoint at its next run.
    maintenance.abort();
    end_reading(reading).await;
    stopping.begin(Step::Aggregation);
    if let Some(aggregating) = aggregating {
        aggregating.end().await;
    }
    stopping.begin(Step::Relay);
    relay.close().await;
    stopping.begin(Step::Metrics);
    let stopped = async { Ok::<_, Infallible>(core.engine.stop(STORE_TIMEOUT).await) };
    let ledger = admin::Whole::of(&sources, stopped).await;
    stopping.begin(Step::Requests);
    http_stop.cancel();
    for server in [api, admin, carbonlink].into_iter().flatten() {
        let _ = server.await;
    }
    let Ok(ledger) = ledger;
    say(&ledger.to_string());
    stopping.begin(Step::Closing);
    close(core).await?;
    greeting::stopped(&config.data_dir);
    Ok(())
}

/// Makes SIGTERM and SIGINT cancel `stop`. Called early, so that signals during the start count too. Returns
/// the stream of SIGHUPs, which request a reload.
fn stop_on_signals(stop: &CancellationToken) -> Result<Signal, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(signal(SignalKind::hangup())?)
}

/// Loads the state of earlier runs. Returns `None` if a stop was requested meanwhile.
async fn start(engine: &Engine, stop: &CancellationToken) -> Result<Option<Recovered>, Failure> {
    match stop.run_until_cancelled(engine.start()).await {
        Some(found) => found.map_err(start_failure).map(Some),
        None => Ok(None),
    }
}

fn open(
    config: &Config,
    budget: &Budget,
    rules: &rules::Live,
    clock: Arc<dyn Clock>,
    stop: &CancellationToken,
) -> Result<Core, Failure> {
    let dir = &config.data_dir;
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the data directory {}; set data_dir", dir.display()))
        .map_err(|error| Failure::new(Exit::Store, error))?;
    let registry = Registry::new();
    let backend = backend::Backend::open(config, rules, &clock, &registry, stop)?;
    let journal = Journal::open(&config.journal_dir(), config.journal.clone(), Arc::clone(&clock), &registry)
        .map_err(|error| {
            let exit = if matches!(error, JournalError::Corrupt { .. }) { Exit::Data } else { Exit::Store };
            Failure::new(exit, anyhow::Error::new(error).context("cannot open the journal"))
        })?;
    files::remove_links(dir);
    let index = Arc::new(Index::new(&registry));
    let conditions = Conditions::new(&registry);
    Damage::of(&registry).attach(&conditions);
    let stores = backend.stores();
    let parts = EngineParts {
        clock: Arc::clone(&clock),
        registry: registry.clone(),
        index: Arc::clone(&index),
        points: backend.points,
        flush: backend.flush,
        metadata: backend.metadata,
        journal: journal.clone(),
        checkpoint: Some(dir.join("checkpoint")),
        journal_segment: config.journal.segment,
        config_for: rules.config_for(),
        name_check: backend.keeper.name_check(),
        memory_used: Arc::new(machine::used_bytes),
        memory_reserved: budget.reserved,
        quotas: quotas::open(config)?,
        conditions: conditions.clone(),
    };
    let engine = Engine::new(config.engine.clone(), parts);
    let (keeper, rules, answers) = (backend.keeper, rules.clone(), KeptAnswers::default());
    Ok(Core { keeper, stores, journal, index, engine, clock, registry, conditions, rules, answers })
}

fn bind_ingest(
    config: &Config,
    core: &Core,
    relay: &Relay,
    rules: plumbago_ingest::Rules,
    stage: Option<&aggregation::Stage>,
) -> Result<Ingest, Failure> {
    let engine = core.engine.clone();
    let sink: Arc<dyn PointSink> = if let Some(stage) = stage {
        Arc::new(stage.sink(core, relay))
    } else if relay.is_empty() {
        Arc::new(sink::EngineSink(engine))
    } else {
        Arc::new(sink::RelayedSink { engine, relay: relay.clone() })
    };
    Ingest::bind(&config.ingest, rules, sink, Arc::clone(&core.clock), &core.registry)
        .map_err(|e| internal(e.into()))
}

fn spawn_chores(config: &Config, core: &Core, sources: &admin::Sources, stop: &CancellationToken) {
    core.keeper.spawn_chores(&core.engine, stop);
    let source = self_metrics::Source {
        engine: core.engine.clone(),
        registry: core.registry.clone(),
        listeners: sources.listeners.clone(),
        aggregation: sources.stage.as_ref().map(|stage| stage.aggregation.clone()),
        relay: sources.relay.clone(),
        clock: Arc::clone(&core.clock),
    };
    tokio::spawn(self_metrics::run(config.self_metrics.clone(), source, stop.clone()));
}

/// Waits until the listeners have passed everything that they have read to the engine. The wait times out while the
/// engine accepts no points: the disk is full, or too many points are pending for a store that does not answer.
async fn end_reading(reading: JoinHandle<()>) {
    if tokio::time::timeout(LISTENERS_TIMEOUT, reading).await.is_err() {
        tracing::error!(
            "the engine accepted no points before the stop timed out; points that the listeners have read but not passed on are lost"
        );
    }
}

/// Waits until `stop`, and reloads the configuration on each SIGHUP.
async fn wait(
    stop: &CancellationToken,
    hangup: &mut Signal,
    reload: &mut reload::Reload,
    live: &reload::Live<'_>,
) {
    while stop.run_until_cancelled(hangup.recv()).await.is_some() {
        // A reload blocks: it reads files and resolves names.
        tokio::task::block_in_place(|| reload.reload(live));
    }
    tracing::info!("stopping");
}

async fn close(core: Core) -> Result<(), Failure> {
    let Core { keeper, journal, .. } = core;
    let store = keeper.close().await;
    let journal = journal.close();
    store?;
    journal.context("cannot close the journal").map_err(internal)
}

fn print_addresses(ingest: &plumbago_ingest::Addresses, api: Option<&Server>, admin: Option<&Server>) {
    for (listener, address) in ingest.iter() {
        say(&format!("listening {} {address}", listener.title()));
    }
    for (name, server) in [("http", api), ("admin", admin)] {
        if let Some(server) = server {
            say(&format!("listening {name} {}", server.address()));
        }
    }
}

/// Raises the limit on open files as far as the system allows, because connections and tables of the store
/// need many.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files; many connections or metrics may exceed it");
    }
}

fn internal(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Internal, error)
}

fn start_failure(error: StartError) -> Failure {
    let is_damaged = matches!(&error, StartError::Store(error) if error.kind == ErrorKind::Corrupt);
    let exit = if is_damaged { Exit::Data } else { Exit::Store };
    Failure::new(exit, anyhow::Error::new(error).context("cannot load the names and points of earlier runs"))
}
