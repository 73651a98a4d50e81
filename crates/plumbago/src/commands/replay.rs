//! `plumbago replay`: has rows that the spool retains sent to the server again. If a daemon is using the data
//! directory, it sends them at once. Otherwise the daemon sends them at its next start.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use plumbago_bench::Client;
use plumbago_model::{ByteSize, SystemClock};
use plumbago_spool::Spool;
use plumbago_telemetry::{Registry, log};
use serde_json::{Value, json};

use super::ask::print_json;
use super::maintain::is_held;
use super::{expect_data, since};
use crate::config::{self, Config, StoreKind};
use crate::error::{Exit, Failure};
use crate::output::print;
use crate::secret;

const EXAMPLES: &str = "\
Examples:
  plumbago replay --since 30m                   rows that were acknowledged in the last half hour
  plumbago replay --since 1700000000            everything since then that the spool still has

Rows older than spool.retain are no longer there. Sending a row twice changes nothing.";

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
    let bytes = if is_held {
        ask_daemon(&config, args).map_err(|error| Failure::new(Exit::Store, error))?
    } else {
        expect_data(&config, "spool")?;
        mark(&config, args.since).map_err(|error| Failure::new(Exit::Store, error))?
    };
    if args.json {
        return print_json(&json!({ "bytes": bytes, "by_daemon": is_held }));
    }
    let whose = if is_held { "the daemon sends" } else { "the next start sends" };
    Ok(print(&format!("{whose} {} again\n", ByteSize(bytes)))?)
}

fn ask_daemon(config: &Config, args: &ReplayArgs) -> anyhow::Result<u64> {
    let admin = args.admin.as_ref().unwrap_or(&config.admin.listen);
    let client = Client::new(admin).with_token(&secret::for_requests(config)?);
    let answer = client.post(&format!("/admin/replay?since={}", args.since)).with_context(|| {
        format!("a daemon uses {}, but its admin port {admin} cannot be used", config.data_dir.display())
    })?;
    let text = String::from_utf8_lossy(&answer.body);
    anyhow::ensure!(answer.status == 200, "the daemon answered {}: {}", answer.status, text.trim());
    let value: Value = serde_json::from_str(&text).context("cannot parse the daemon's answer")?;
    value["bytes"].as_u64().ok_or_else(|| anyhow!("the daemon's answer has no bytes: {text}"))
}

/// Moves the spool's send position back to `since` (seconds since the epoch), so that the next start of a
/// daemon sends from there. Returns the bytes to send again.
fn mark(config: &Config, since: i64) -> anyhow::Result<u64> {
    log::init("warn");
    let dir = config.data_dir.join("spool");
    let spool = Spool::open(&dir, config.spool.clone(), Arc::new(SystemClock), &Registry::new())
        .context("cannot open the spool")?;
    let bytes = spool
        .resend_since(since.saturating_mul(1_000_000))
        .context("cannot move the spool's position back")?;
    spool.close().context("cannot close the spool")?;
    Ok(bytes)
}
