//! `plumbago syncdb` and `plumbago schema`: the tables in Cassandra or ScyllaDB.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use plumbago_model::{Clock, Period, Retention, SystemClock};
use plumbago_store::StoreError;
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::schema::ddl::{Engine, Makes, Server, Statement};
use plumbago_store_cassandra::schema::{self, Options, Purpose, Schema, Severity, TableDef};
use plumbago_store_cassandra::{CassandraStore, Config, Identity, Plan, Report, parse_retention};
use plumbago_telemetry::Registry;

use crate::config;
use crate::error::{Exit, Failure};
use crate::output::print;

const SYNCDB_EXAMPLES: &str = "\
Examples:
  plumbago syncdb --dry-run                     print the statements that would be run
  plumbago syncdb                               make what is missing for storage-schemas.conf
  plumbago syncdb --retention 60s:7d,15m:2y     make what is missing for these retentions only
  plumbago syncdb --retention '10080*60s:70080*900s'
                                                the same as BigGraphite spells it

Nothing that exists is changed or dropped. Run it from one place before the daemons start, and again when
storage-schemas.conf has new retentions.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  plumbago schema                               tables, and how the server differs; exit code 5 if a table
                                                cannot be used
  plumbago schema --cql > schema.cql            the statements for an empty server; none is asked";

/// How long a server may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to make.
#[derive(Debug, Args)]
#[command(after_help = SYNCDB_EXAMPLES)]
pub struct SyncdbArgs {
    /// Print the statements and run none
    #[arg(long)]
    dry_run: bool,
    /// Tables for this retention; may come several times. Those of storage-schemas.conf when not given
    #[arg(long, value_name = "RETENTION", value_parser = retention)]
    retention: Vec<Retention>,
}

/// What to show.
#[derive(Debug, Args)]
#[command(after_help = SCHEMA_EXAMPLES)]
pub struct SchemaArgs {
    /// Print the statements for an empty server, and ask none
    #[arg(long)]
    cql: bool,
    /// Tables for this retention; may come several times. Those of storage-schemas.conf when not given
    #[arg(long, value_name = "RETENTION", value_parser = retention)]
    retention: Vec<Retention>,
}

fn retention(text: &str) -> Result<Retention, String> {
    parse_retention(text)
}

/// Makes what is missing.
pub fn syncdb(args: &SyncdbArgs, file: Option<&Path>) -> Result<(), Failure> {
    let (config, tables) = wanted(&args.retention, file)?;
    run(async {
        let store = connect(&config).await?;
        let plan = store.plan_sync(&tables).await.map_err(|error| unreachable(&store, error))?;
        let intro = intro(&plan);
        if args.dry_run {
            let statements: String = plan.statements.iter().map(|s| format!("{};\n", s.cql)).collect();
            return Ok(print(&(intro + &statements))?);
        }
        print(&intro)?;
        let mut printed = Ok(());
        let mut tell =
            |statement: &Statement| printed = print(&format!("made {}\n", name_of(&statement.makes)));
        store.sync(&plan, &mut tell).await.map_err(|error| Failure::new(Exit::Store, error))?;
        printed?;
        let report = store.check(&tables).await.map_err(|error| unreachable(&store, error))?;
        verdict(&report)
    })
}

/// Shows the tables and how the server differs.
pub fn schema(args: &SchemaArgs, file: Option<&Path>) -> Result<(), Failure> {
    let (config, tables) = wanted(&args.retention, file)?;
    let wanted = Schema::new(&config, &tables, SystemClock.now());
    if args.cql {
        return Ok(print(&wanted.text(Server::DEFAULT))?);
    }
    print(&listing(&wanted))?;
    run(async {
        let store = connect(&config).await?;
        let report = store.check(&tables).await.map_err(|error| unreachable(&store, error))?;
        verdict(&report)
    })
}

/// The settings, and the tables that the retentions need.
fn wanted(given: &[Retention], file: Option<&Path>) -> Result<(Config, BTreeSet<Table>), Failure> {
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    let tables = if given.is_empty() {
        schema::tables_of(loaded.rules.configs().iter().map(|config| &config.retention))
    } else {
        schema::tables_of(given)
    };
    Ok((loaded.config.store.cassandra, tables))
}

fn run(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start the runtime").map_err(Failure::from)?.block_on(work)
}

async fn connect(config: &Config) -> Result<CassandraStore, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    // Tools write no points, so any writer will do.
    let identity = Identity::new(config.replica, 0);
    let store = CassandraStore::connect(config, identity, clock, &Registry::new())
        .map_err(|error| Failure::new(Exit::Config, error))?;
    match tokio::time::timeout(PATIENCE, store.wait()).await {
        Ok(Ok(())) => Ok(store),
        Ok(Err(error)) => Err(Failure::new(Exit::Store, error)),
        Err(_) => {
            let nodes = config.contact_points.join(", ");
            let why = store.trouble().unwrap_or_default();
            let error = anyhow!("{why}").context(format!("no answer from {nodes}; see store.cassandra"));
            Err(Failure::new(Exit::Store, error))
        }
    }
}

fn unreachable(store: &CassandraStore, error: StoreError) -> Failure {
    let error = anyhow::Error::new(error);
    let error = match store.trouble() {
        Some(why) => error.context(why),
        None => error,
    };
    Failure::new(Exit::Store, error)
}

fn intro(plan: &Plan) -> String {
    let mut text = format!("-- {}: {} statement(s)\n", server_name(plan.server), plan.statements.len());
    for note in &plan.notes {
        let _ = writeln!(text, "-- {note}");
    }
    for difference in &plan.differences {
        let _ = writeln!(text, "-- left as it is: {difference}");
    }
    text
}

fn server_name(server: Server) -> String {
    let (major, minor) = server.version;
    match server.engine {
        Engine::Cassandra => format!("Cassandra {major}.{minor}"),
        Engine::Scylla => "ScyllaDB".to_owned(),
    }
}

fn name_of(makes: &Makes) -> String {
    match makes {
        Makes::Keyspace(name) => format!("keyspace {name}"),
        Makes::Table(keyspace, name) => format!("table {keyspace}.{name}"),
        Makes::Index(keyspace, _, name) => format!("index {keyspace}.{name}"),
    }
}

fn listing(schema: &Schema) -> String {
    let mut text = String::new();
    for keyspace in &schema.keyspaces {
        let durable = if keyspace.durable_writes { "" } else { ", no commit log" };
        let _ = writeln!(text, "{}{durable}", keyspace.name);
        for table in schema.tables.iter().filter(|table| table.keyspace == keyspace.name) {
            let _ = writeln!(text, "  {:<34} {}", table.name, describe(table));
        }
    }
    text
}

fn describe(table: &TableDef) -> String {
    let Options { ttl, window, comment, .. } = &table.options;
    match table.purpose {
        Purpose::Points(of) => {
            let kept = Period::seconds(of.stage.duration());
            let window = window.map_or(0, |window| window.seconds() / 3600);
            let ttl = ttl.unwrap_or(0);
            format!("every {}s for {kept}, TTL {ttl}s, compaction window {window}h", of.stage.resolution)
        }
        Purpose::Names => format!("{} columns, {} indexes", table.columns.len(), table.indexes.len()),
        Purpose::Extra => comment.clone().unwrap_or_default(),
    }
}

/// Says what differs; a table that cannot be used is exit code 5.
fn verdict(report: &Report) -> Result<(), Failure> {
    let mut text = String::new();
    for difference in &report.differences {
        let _ = writeln!(text, "{difference}");
    }
    let fatal = report.fatal().count();
    let all = report.differences.len();
    let _ = writeln!(
        text,
        "{}: {all} difference(s), {fatal} table(s) or keyspace(s) that cannot be used",
        server_name(report.server)
    );
    print(&text)?;
    let worst = report.differences.iter().map(|difference| difference.severity).max();
    if worst == Some(Severity::Fatal) { Err(Failure::said(Exit::Data)) } else { Ok(()) }
}
