//! `plumbago syncdb` and `plumbago schema`: the tables in Cassandra or ScyllaDB.

mod json;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use clap::Args;
use plumbago_model::{Clock, Period, Retention, SystemClock};
use plumbago_store::{ErrorKind, StoreError};
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::schema::ddl::{Engine, Makes, Server, Statement};
use plumbago_store_cassandra::schema::{
    self, Compression, LiveKeyspace, LiveSchema, Options, Purpose, Schema, Severity, TableDef,
};
use plumbago_store_cassandra::{CassandraStore, Config, Report, SyncPlan, parse_retention};

use super::cassandra::connect;
use crate::config;
use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

const SYNCDB_EXAMPLES: &str = "\
Examples:
  plumbago syncdb --dry-run                     print the statements that would be run
  plumbago syncdb                               create what is missing for storage-schemas.conf
  plumbago syncdb --retention 60s:7d,15m:2y     create what is missing for these retentions only
  plumbago syncdb --retention '10080*60s:70080*900s'
                                                the same in BigGraphite's notation
  plumbago syncdb --compression zstd            create what is missing, with smaller files (Cassandra 4.0 and
                                                later), and print how to change tables that exist
  plumbago syncdb --dry-run --json              the statements for a program

Nothing that exists is changed or dropped. Run it from one place before the daemons start, and again when
storage-schemas.conf has new retentions.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  plumbago schema                               what the server has, what is needed, and how they differ;
                                                exit code 5 if a table cannot be used
  plumbago schema --cql > schema.cql            print the statements for an empty server; none is
                                                contacted
  plumbago schema --json                        the same for a program";

/// Options of `plumbago syncdb`.
#[derive(Debug, Args)]
#[command(after_help = SYNCDB_EXAMPLES)]
pub struct SyncdbArgs {
    /// Print the statements without running them
    #[arg(long)]
    dry_run: bool,
    /// Tables for this retention; may be repeated. By default those of storage-schemas.conf
    #[arg(long, value_name = "RETENTION", value_parser = retention)]
    retention: Vec<Retention>,
    /// How the server compresses new tables for points: lz4 or zstd. By default, the server decides
    #[arg(long, value_name = "NAME")]
    compression: Option<Compression>,
    /// Print the statements, what was created and the differences as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `plumbago schema`.
#[derive(Debug, Args)]
#[command(after_help = SCHEMA_EXAMPLES)]
pub struct SchemaArgs {
    /// Print the statements for an empty server; no server is contacted
    #[arg(long, conflicts_with = "json")]
    cql: bool,
    /// Tables for this retention; may be repeated. By default those of storage-schemas.conf
    #[arg(long, value_name = "RETENTION", value_parser = retention)]
    retention: Vec<Retention>,
    /// Print what the server has, what is needed and the differences as JSON
    #[arg(long)]
    json: bool,
}

fn retention(text: &str) -> Result<Retention, String> {
    parse_retention(text)
}

/// Runs `plumbago syncdb`: creates missing keyspaces and tables, then prints the remaining differences.
///
/// # Errors
///
/// If the configuration has errors, the server does not answer or refuses a statement, or a table cannot be
/// used afterwards.
pub fn syncdb(args: &SyncdbArgs, file: Option<&Path>) -> Result<(), Failure> {
    let (config, tables) = wanted(&args.retention, file)?;
    run(async {
        let store = connect(&config).await?;
        let plan = store.plan_sync(&tables, args.compression).await.map_err(|error| match error.kind {
            ErrorKind::Invalid => Failure::new(Exit::Usage, error),
            _ => unreachable(&store, error),
        })?;
        if args.json {
            return sync_as_json(&store, &plan, &tables, args.dry_run).await;
        }
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

/// Runs `plumbago schema`: prints the tables on the server, the tables that are needed, and the differences.
///
/// # Errors
///
/// If the configuration has errors, the server does not answer, or a table cannot be used.
pub fn schema(args: &SchemaArgs, file: Option<&Path>) -> Result<(), Failure> {
    let (config, tables) = wanted(&args.retention, file)?;
    let wanted = Schema::new(&config, &tables, SystemClock.now());
    if args.cql {
        return Ok(print(&wanted.text(Server::DEFAULT))?);
    }
    run(async {
        let store = connect(&config).await?;
        let live = store.live_schema().await.map_err(|error| unreachable(&store, error))?;
        let keyspaces = [config.keyspace.clone(), config.metadata_keyspace()];
        if args.json {
            let report = store.check(&tables).await.map_err(|error| unreachable(&store, error))?;
            print_json(&json::schema(&live, &keyspaces, &wanted, &report))?;
            return exit_of(&report);
        }
        print(&found(&live, &keyspaces, &config.contact_points.join(", ")))?;
        print(&format!("\nNeeded for the storage rules:\n{}\n", listing(&wanted)))?;
        let report = store.check(&tables).await.map_err(|error| unreachable(&store, error))?;
        verdict(&report)
    })
}

/// Creates missing keyspaces and tables, unless this is a dry run, and prints one JSON object.
async fn sync_as_json(
    store: &CassandraStore,
    plan: &SyncPlan,
    tables: &BTreeSet<Table>,
    dry_run: bool,
) -> Result<(), Failure> {
    let mut made = Vec::new();
    if !dry_run {
        let mut tell = |statement: &Statement| made.push(name_of(&statement.makes));
        store.sync(plan, &mut tell).await.map_err(|error| Failure::new(Exit::Store, error))?;
    }
    let report = match dry_run {
        true => None,
        false => Some(store.check(tables).await.map_err(|error| unreachable(store, error))?),
    };
    print_json(&json::sync(plan, &made, report.as_ref()))?;
    report.as_ref().map_or(Ok(()), exit_of)
}

/// Loads the settings and returns the tables needed for the `given` retentions, or for those of the storage
/// rules if none are given.
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
    runtime.context("cannot start the runtime").map_err(Failure::from)?.block_on(work)
}

fn unreachable(store: &CassandraStore, error: StoreError) -> Failure {
    let error = anyhow::Error::new(error);
    let error = match store.trouble() {
        Some(why) => error.context(why),
        None => error,
    };
    Failure::new(Exit::Store, error)
}

fn intro(plan: &SyncPlan) -> String {
    let mut text = format!("-- {}: {} statement(s)\n", server_name(plan.server), plan.statements.len());
    for note in &plan.notes {
        let _ = writeln!(text, "-- {note}");
    }
    for difference in &plan.differences {
        let _ = writeln!(text, "-- left as it is: {difference}");
    }
    if !plan.compression_changes.is_empty() {
        text.push_str(
            "-- Tables that exist keep their compression. These statements change it; existing files are\n\
             -- compressed again when they are compacted, or at once by `nodetool upgradesstables -a`:\n",
        );
    }
    for change in &plan.compression_changes {
        let _ = writeln!(text, "--   {change};");
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

/// Describes the two keyspaces on the server.
fn found(live: &LiveSchema, keyspaces: &[String; 2], nodes: &str) -> String {
    let mut text = format!("{} at {nodes} has:\n", server_name(live.server));
    for keyspace in keyspaces {
        let Some(LiveKeyspace { replication, durable_writes }) = live.keyspaces.get(keyspace) else {
            let _ = writeln!(text, "{keyspace}: no such keyspace; `plumbago syncdb` creates it");
            continue;
        };
        let durable = if *durable_writes { "" } else { ", no commit log" };
        let class = replication.get("class").map_or("", |class| class.rsplit('.').next().unwrap_or(class));
        let factors = replication.iter().filter(|(key, _)| *key != "class");
        let factors: String = factors.map(|(key, n)| format!(", {key} {n}")).collect();
        let _ = writeln!(text, "{keyspace}: {class}{factors}{durable}");
        for ((_, name), table) in live.tables.iter().filter(|((of, _), _)| of == keyspace) {
            let indexes = live.indexes.iter().filter(|i| i.keyspace == *keyspace && i.table == *name).count();
            let indexes = if indexes > 0 { format!(", {indexes} indexes") } else { String::new() };
            let ttl = if table.ttl > 0 { format!(", TTL {}s", table.ttl) } else { String::new() };
            let _ = writeln!(text, "  {name:<34} {} columns{indexes}{ttl}", table.columns.len());
        }
    }
    text
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

/// Prints the differences. Fails with exit code 5 if a table cannot be used.
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
    exit_of(report)
}

/// Fails with exit code 5 if a table cannot be used.
fn exit_of(report: &Report) -> Result<(), Failure> {
    let worst = report.differences.iter().map(|difference| difference.severity).max();
    if worst == Some(Severity::Fatal) { Err(Failure::said(Exit::Data)) } else { Ok(()) }
}
