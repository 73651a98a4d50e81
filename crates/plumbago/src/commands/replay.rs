//! `plumbago replay`: what the spool has kept is sent to the server again. Where a daemon has the data
//! directory, it is asked to.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use plumbago_journal::Spool;
use plumbago_model::{ByteSize, Clock as _, Period, SystemClock};
use plumbago_telemetry::{Registry, log};
use serde_json::Value;

use super::maintain::is_held;
use crate::bench::http::Client;
use crate::config::{self, Config, StoreKind};
use crate::error::{Exit, Failure};
use crate::output::print;

/// From when on.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// How far back, like 30m, or seconds since the epoch; what was accepted since then is sent again, as
    /// far as `spool.retain` has kept it
    #[arg(long, value_name = "SINCE", value_parser = since)]
    since: i64,
    /// Admin port of the running daemon, where it is not that of the configuration
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
}

fn since(text: &str) -> Result<i64, String> {
    if let Ok(epoch) = text.parse::<i64>() {
        return Ok(epoch);
    }
    let back: Period = text.parse().map_err(|_| {
        format!("{text:?} is neither a time back from now, like 30m, nor seconds since the epoch")
    })?;
    Ok(SystemClock.now() - back.as_secs() as i64)
}

/// Has it sent again.
pub fn run(args: &ReplayArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    let config = loaded.config;
    if config.store.kind != StoreKind::Cassandra {
        let error = anyhow!("the embedded store has no spool: nothing is ever sent (store.kind)");
        return Err(Failure::new(Exit::Usage, error));
    }
    let is_held = is_held(&config);
    let bytes = if is_held {
        ask_daemon(&config, args).map_err(|error| Failure::new(Exit::Store, error))?
    } else {
        mark(&config, args.since).map_err(|error| Failure::new(Exit::Store, error))?
    };
    let whose = if is_held { "the daemon sends" } else { "the next start sends" };
    Ok(print(&format!("{whose} {} again\n", ByteSize(bytes)))?)
}

fn ask_daemon(config: &Config, args: &ReplayArgs) -> anyhow::Result<u64> {
    let admin = args.admin.as_ref().unwrap_or(&config.admin.listen);
    let mut client = Client::new(admin).with_token(&config.admin.token);
    let answer = client.post(&format!("/admin/replay?since={}", args.since)).with_context(|| {
        format!("a daemon has {}, and its admin port {admin} does not help", config.data_dir.display())
    })?;
    let text = String::from_utf8_lossy(&answer.body);
    anyhow::ensure!(answer.status == 200, "the daemon answers {}: {}", answer.status, text.trim());
    let value: Value = serde_json::from_str(&text).context("read the daemon's answer")?;
    value["bytes"].as_u64().ok_or_else(|| anyhow!("the daemon answers {text}"))
}

/// Sets the spool's mark back, for the next start.
fn mark(config: &Config, since: i64) -> anyhow::Result<u64> {
    log::init("warn");
    let dir = config.data_dir.join("spool");
    anyhow::ensure!(dir.is_dir(), "{} is missing: no daemon has sent anything from here", dir.display());
    let spool = Spool::open(&dir, config.spool.clone(), Arc::new(SystemClock), &Registry::new())
        .context("open the spool")?;
    let bytes = spool.replay_since(since.saturating_mul(1_000_000)).context("set the spool's mark back")?;
    spool.close().context("close the spool")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_period_or_an_epoch() {
        assert_eq!(since("1700000000"), Ok(1_700_000_000));
        let ago = SystemClock.now() - since("2h").unwrap();
        assert!((7199..7300).contains(&ago), "{ago}");
        assert!(since("lately").unwrap_err().contains("30m"));
    }
}
