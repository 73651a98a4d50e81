//! `plumbago replay`: sends rows that the spool retains to the server again. If a daemon is using the data
//! directory, it sends them at once. Otherwise the daemon sends them at its next start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use plumbago_bench::Client;
use plumbago_model::{ByteSize, SystemClock};
use plumbago_spool::Spool;
use plumbago_spool::queue::Position;
use plumbago_telemetry::{Registry, log};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::summary::add_dry_run;
use super::{expect_data, since};
use crate::config::{self, Config, StoreKind};
use crate::error::{Exit, Failure};
use crate::held::is_held;
use crate::output::{print, print_json};
use crate::secret;

/// Approximate bytes of rows that are counted in one step.
const STEP_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  plumbago replay --since 30m                   rows that were acknowledged in the last half hour
  plumbago replay --since 1700000000            everything since then that the spool still has
  plumbago replay --since 30m --dry-run         how many rows of which nodes that would be

Rows older than spool.retain are no longer in the spool. Sending a row twice changes nothing.";

/// Options of `plumbago replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// Send rows that were acknowledged since then: a period like 30m, or seconds since the epoch. Rows older
    /// than `spool.retain` are no longer there
    #[arg(long, value_name = "SINCE", value_parser = since)]
    since: i64,
    /// Admin port of the running daemon, if it differs from the configuration
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Count the rows, of each node if a daemon runs, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago replay`.
///
/// # Errors
///
/// If the configuration has errors, the store has no spool, the daemon does not answer, or the spool cannot
/// be opened.
pub fn run(args: &ReplayArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    let config = loaded.config;
    if config.store.kind != StoreKind::Cassandra {
        let error =
            anyhow!("the embedded store has no spool, so there is nothing to send again (store.kind)");
        return Err(Failure::new(Exit::Usage, error));
    }
    let is_held = is_held(&config);
    let store = |error: anyhow::Error| Failure::new(Exit::Store, error);
    if !is_held {
        expect_data(&config, "spool")?;
    }
    if args.dry_run {
        let found = if is_held { ask_daemon(&config, args) } else { count(&config, args.since) };
        return tell(&found.map_err(store)?, args.json);
    }
    let bytes = if is_held {
        ask_daemon(&config, args).map_err(store)?.bytes
    } else {
        mark(&config, args.since).map_err(store)?
    };
    if args.json {
        return print_json(&json!({ "bytes": bytes, "by_daemon": is_held }));
    }
    let whose = if is_held { "the daemon sends" } else { "the next start sends" };
    Ok(print(&format!("{whose} {} again\n", ByteSize(bytes)))?)
}

/// The rows that are, or would be, sent again.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    bytes: u64,
    /// The number of rows. Counted only in a dry run, otherwise 0.
    #[serde(default)]
    rows: u64,
    /// The number of rows by the host id of the node that stores them. Counted only in a dry run by a
    /// daemon, otherwise empty.
    #[serde(default)]
    nodes: BTreeMap<String, u64>,
}

/// Prints what would be sent again.
fn tell(found: &Found, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return print_json(&json!({
            "dry_run": true, "bytes": found.bytes, "rows": found.rows, "nodes": found.nodes
        }));
    }
    let mut text = format!("{} rows ({}) would be sent again\n", found.rows, ByteSize(found.bytes));
    for (node, rows) in &found.nodes {
        text.push_str(&format!("  {rows} of node {node}\n"));
    }
    add_dry_run(&mut text, true);
    Ok(print(&text)?)
}

fn ask_daemon(config: &Config, args: &ReplayArgs) -> anyhow::Result<Found> {
    let admin = args.admin.as_ref().unwrap_or(&config.admin.listen);
    let client = Client::new(admin).with_token(&secret::for_requests(config)?);
    let path = format!("/admin/replay?since={}&dry_run={}", args.since, args.dry_run);
    let answer = client.post(&path).with_context(|| {
        format!("a daemon uses {}, but its admin port {admin} cannot be used", config.data_dir.display())
    })?;
    let text = String::from_utf8_lossy(&answer.body);
    anyhow::ensure!(answer.status == 200, "the daemon answered {}: {}", answer.status, text.trim());
    serde_json::from_str(&text).context("cannot parse the daemon's answer")
}

/// Counts what would be sent again. Without a connection to a server, it is not known which nodes store the
/// rows.
fn count(config: &Config, since: i64) -> anyhow::Result<Found> {
    let spool = open(config)?;
    let (mut found, mut at) = (Found::default(), Position::default());
    let since_us = since.saturating_mul(1_000_000);
    while let Some(again) = spool.look_again(since_us, at, STEP_BYTES).context("cannot read the spool")? {
        found.bytes += again.chunk.bytes();
        found.rows += again.chunk.slices.iter().map(|slice| u64::from(slice.rows)).sum::<u64>();
        at = again.chunk.end;
    }
    spool.close().context("cannot close the spool")?;
    Ok(found)
}

/// Moves the spool's send position back to `since` (seconds since the epoch), so that the next start of a
/// daemon sends from there. Returns the bytes to send again.
fn mark(config: &Config, since: i64) -> anyhow::Result<u64> {
    let spool = open(config)?;
    let bytes = spool
        .resend_since(since.saturating_mul(1_000_000))
        .context("cannot move the spool's position back")?;
    spool.close().context("cannot close the spool")?;
    Ok(bytes)
}

fn open(config: &Config) -> anyhow::Result<Spool> {
    log::init("warn");
    let dir = config.data_dir.join("spool");
    Spool::open(&dir, config.spool.clone(), Arc::new(SystemClock), &Registry::new())
        .context("cannot open the spool")
}
