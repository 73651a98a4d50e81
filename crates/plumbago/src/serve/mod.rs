//! The daemon: its parts, wired. Start at [`run`].

mod admin;
mod backend;
mod clock;
mod info;
mod maintenance;
mod memory;
mod peers;
mod reads;
mod rules;
mod self_metrics;
mod sink;
mod tagging;
mod watchdog;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use plumbago_api::{AdminHandles, Handles, Server};
use plumbago_engine::{Engine, Parts, Reader, Recovered, SeriesSource};
use plumbago_index::Index;
use plumbago_ingest::Ingest;
use plumbago_journal::Journal;
use plumbago_maintenance::{Scheduler, Stores, Turn};
use plumbago_model::Clock;
use plumbago_peers::Client;
use plumbago_telemetry::{Registry, log};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Loaded};
use crate::error::{Exit, Failure};

/// How often expired points are dropped and closed days merged.
const MAINTENANCE: Duration = Duration::from_secs(300);
/// How long a stop waits for the listeners.
const READING_PATIENCE: Duration = Duration::from_secs(20);
/// How long a stop waits for a store that fails; what is not stored by then stays in the journal.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the daemon until it is told to stop.
pub(crate) fn run(loaded: Loaded, file: Option<&Path>) -> Result<(), Failure> {
    let level = log::init(&loaded.config.log.level);
    raise_file_limit();
    // One crypto provider for every listener; a second call finds it installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let reload = rules::Reload {
        file: file.map(Path::to_path_buf),
        config: loaded.config.clone(),
        level,
        certificates: Vec::new(),
    };
    let result = runtime.block_on(serve(loaded, reload));
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

/// The stores and the engine over them.
pub(crate) struct Core {
    keeper: backend::Keeper,
    stores: Stores,
    journal: Journal,
    index: Arc<Index>,
    engine: Engine,
    clock: Arc<dyn Clock>,
    registry: Registry,
}

impl Core {
    /// Who of the processes on the stores may run a job.
    pub(crate) fn turn(&self) -> Arc<dyn Turn> {
        self.keeper.turn()
    }

    /// What the API reads from.
    fn source(&self, peers: &Arc<Client>, stop: &CancellationToken) -> Arc<dyn SeriesSource> {
        let source = Arc::new(self.reader(peers));
        match self.keeper.notes_reads() {
            Some(store) => Arc::new(reads::Noted::new(source, store, stop.clone())),
            None => source,
        }
    }

    /// Reads points: also of metrics that were not loaded, where names are found by the server, and those
    /// that peers have not written yet.
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

async fn serve(loaded: Loaded, mut reload: rules::Reload) -> Result<(), Failure> {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    memory::give_back_unused();
    let config = &loaded.config;
    let rules = rules::Live::new(loaded.rules);
    let clock = clock::Setting::from(config.debug.clock);
    let stop = CancellationToken::new();
    let mut hangup = stop_on_signals(&stop)?;
    let core = open(config, &rules, clock.shared(), &stop)?;
    let ingest = bind_ingest(config, &core)?;
    let (listeners, addresses) = (ingest.handle(), ingest.addresses());
    let jobs = maintenance::jobs(&config.maintenance, &core.stores);
    let scheduler = Scheduler::new(jobs, core.job_context(config), core.turn());
    let peers = Arc::new(peers::open(config, &core.registry)?);
    let hands = (core.engine.clone(), core.keeper.clone(), Arc::clone(&peers));
    let control = admin::Control::new(hands, stop.clone(), clock, listeners.clone(), scheduler.clone());
    let tagging = Arc::new(tagging::Tags::new(&core, rules.config_for()));
    let handles = Handles {
        index: Arc::clone(&core.index),
        finder: core.keeper.finder(),
        source: core.source(&peers, &stop),
        tagging: Arc::clone(&tagging) as _,
        metadata: Arc::new(info::Stored(Arc::clone(&core.stores.metadata))),
        events: info::events(config)?,
        clock: Arc::clone(&core.clock),
        registry: core.registry.clone(),
    };
    let admin_handles = AdminHandles {
        readiness: Arc::new(control.clone()),
        actions: Arc::new(control.clone()),
        heads: Arc::new(control.clone()),
        registry: core.registry.clone(),
    };
    let api = Server::bind(&api_config(config), &handles).await.context("api.listen").map_err(internal)?;
    let admin =
        Server::bind_admin(&config.admin, &admin_handles).await.context("admin.listen").map_err(internal)?;
    for (section, port) in [("api", &api), ("admin", &admin)] {
        reload.certificates.extend(port.iter().map(|port| (section, port.certificates())));
    }
    print_addresses(&addresses, api.as_ref(), admin.as_ref());

    let http_stop = CancellationToken::new();
    let admin = admin.map(|server| tokio::spawn(server.run(http_stop.clone())));
    let ingest_stop = CancellationToken::new();
    let reading = tokio::spawn(ingest.run(ingest_stop.clone()));
    let Some(found) = start(&core.engine, &stop).await? else {
        ingest_stop.cancel();
        end_reading(reading).await;
        return close(core).await;
    };
    tracing::info!(
        metrics = found.metrics,
        state_rows = found.states,
        replayed = found.replayed,
        covered = found.covered,
        unexplained = found.unexplained,
        names_ms = found.names.as_millis() as u64,
        load_ms = found.load.as_millis() as u64,
        replay_ms = found.replay.as_millis() as u64,
        "started"
    );
    let _ = stop.run_until_cancelled(tagging.compare()).await;
    control.set_ready();
    // Reads wait in the port's queue until everything is replayed.
    let api_address = api.as_ref().map(Server::address);
    let api = api.map(|server| tokio::spawn(server.run(http_stop.clone())));
    spawn_chores(config, &core, &listeners, &stop);
    tokio::spawn(tagging::watch(tagging, stop.clone()));
    let maintenance = tokio::spawn(scheduler.run(stop.clone()));
    print_ready(addresses.line, api_address);
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    tokio::spawn(watchdog::run(core.engine.clone(), stop.clone()));

    wait(&stop, &mut hangup, &mut reload, &rules, &listeners).await;

    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    ingest_stop.cancel();
    // A job goes on where it is the next time.
    maintenance.abort();
    end_reading(reading).await;
    let ledger = core.engine.stop(PATIENCE).await;
    http_stop.cancel();
    for server in [api, admin].into_iter().flatten() {
        let _ = server.await;
    }
    println!("{}", admin::Whole::new(ledger, &listeners));
    close(core).await
}

/// The settings of the API, with the memory that this machine has.
fn api_config(config: &Config) -> plumbago_api::Config {
    let mut api = config.api.clone();
    if api.limits.memory_total.0 == 0 {
        api.limits.memory_total.0 = memory::total_bytes() / 4;
    }
    api
}

/// Lets signals ask for the stop, from now until the end: one that comes between two steps of the start
/// is not lost. Gives those that ask for a reload.
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

/// Loads what earlier runs left; `None` when a stop came first.
async fn start(engine: &Engine, stop: &CancellationToken) -> Result<Option<Recovered>, Failure> {
    match stop.run_until_cancelled(engine.start()).await {
        Some(found) => found.context("start").map_err(start_failure).map(Some),
        None => Ok(None),
    }
}

/// Opens everything for work without listeners, does it, and closes again.
pub(crate) async fn at_rest<T>(
    loaded: Loaded,
    work: impl AsyncFnOnce(&Config, &Core) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let rules = rules::Live::new(loaded.rules);
    let (clock, stop) = (clock::Setting::from(loaded.config.debug.clock), CancellationToken::new());
    let core = open(&loaded.config, &rules, clock.shared(), &stop)?;
    core.engine.start().await.context("start").map_err(start_failure)?;
    let result = work(&loaded.config, &core).await;
    core.engine.stop(PATIENCE).await;
    stop.cancel();
    close(core).await?;
    result
}

/// All jobs on the stores of a core.
pub(crate) fn jobs_of(
    config: &plumbago_maintenance::Config,
    core: &Core,
) -> Vec<Arc<dyn plumbago_maintenance::Job>> {
    maintenance::jobs(config, &core.stores).into_iter().map(|(job, _)| job).collect()
}

fn open(
    config: &Config,
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
        .context("cannot open the journal")
        .map_err(|error| Failure::new(Exit::Store, error))?;
    let index = Arc::new(Index::new(&registry));
    let mut engine_config = config.engine.clone();
    if engine_config.memory_max.0 == 0 {
        engine_config.memory_max.0 = memory::total_bytes() / 2;
    }
    let stores = backend.stores();
    let parts = Parts {
        clock: Arc::clone(&clock),
        registry: registry.clone(),
        index: Arc::clone(&index),
        points: backend.points,
        flush: backend.flush,
        metadata: backend.metadata,
        journal: journal.clone(),
        journal_segment: config.journal.segment,
        config_for: rules.config_for(),
        name_check: backend.keeper.name_check(),
        memory_used: Arc::new(memory::used_bytes),
    };
    let engine = Engine::new(engine_config, parts);
    Ok(Core { keeper: backend.keeper, stores, journal, index, engine, clock, registry })
}

fn bind_ingest(config: &Config, core: &Core) -> Result<Ingest, Failure> {
    let rules = plumbago_ingest::Rules::load(&config.ingest).map_err(|e| Failure::new(Exit::Config, e))?;
    let sink = Arc::new(sink::EngineSink(core.engine.clone()));
    Ingest::bind(&config.ingest, rules, sink, Arc::clone(&core.clock), &core.registry)
        .map_err(|e| internal(e.into()))
}

fn spawn_chores(config: &Config, core: &Core, listeners: &plumbago_ingest::Handle, stop: &CancellationToken) {
    core.keeper.spawn_chores(&core.engine, stop);
    let source = self_metrics::Source {
        engine: core.engine.clone(),
        registry: core.registry.clone(),
        listeners: listeners.clone(),
        clock: Arc::clone(&core.clock),
    };
    tokio::spawn(self_metrics::run(config.self_metrics.clone(), source, stop.clone()));
}

/// Waits for the listeners to hand over what they have read. They cannot while the engine takes nothing: the
/// disk is full, or a store is away and too much waits for it.
async fn end_reading(reading: JoinHandle<()>) {
    if tokio::time::timeout(READING_PATIENCE, reading).await.is_err() {
        tracing::error!("the engine takes no points: what senders sent last is lost");
    }
}

/// Until a signal or the admin port ends it; reloads on SIGHUP.
async fn wait(
    stop: &CancellationToken,
    hangup: &mut Signal,
    reload: &mut rules::Reload,
    rules: &rules::Live,
    listeners: &plumbago_ingest::Handle,
) {
    while stop.run_until_cancelled(hangup.recv()).await.is_some() {
        reload.reload(rules, listeners);
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
    let rows = [
        ("line tcp", ingest.line),
        ("line udp", ingest.udp),
        ("pickle tcp", ingest.pickle),
        ("protobuf tcp", ingest.protobuf),
        ("http", api.map(Server::address)),
        ("admin", admin.map(Server::address)),
    ];
    for (name, address) in rows {
        if let Some(address) = address {
            println!("listening {name} {address}");
        }
    }
}

fn print_ready(line: Option<std::net::SocketAddr>, api: Option<std::net::SocketAddr>) {
    println!("ready");
    if let (Some(line), Some(api)) = (line, api) {
        println!();
        println!("Send a point:  echo \"test.count 42 $(date +%s)\" | nc -q0 {} {}", line.ip(), line.port());
        println!("See it:        curl 'http://{api}/render?target=test.count&from=-10min&format=json'");
    }
}

/// As many open files as the system lets us have: connections and tables both need them.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn internal(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Internal, error)
}

fn start_failure(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Store, error)
}
