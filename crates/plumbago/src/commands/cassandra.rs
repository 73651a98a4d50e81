//! The connection of a command to Cassandra or ScyllaDB.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use plumbago_model::{Clock, SystemClock};
use plumbago_store::WriterIdentity;
use plumbago_store_cassandra::{CassandraStore, Config};
use plumbago_telemetry::Registry;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::{Exit, Failure};

/// How long to wait for a session. If the server cannot be reached, the command fails after this time and
/// [`PROBE`].
const FIRST: Duration = Duration::from_secs(4);
/// How long to wait for a node to accept a plain connection.
const PROBE: Duration = Duration::from_millis(900);
/// How long to wait for a session if a node accepts connections but is slow.
const SLOW: Duration = Duration::from_secs(20);

/// Connects to the servers.
///
/// # Errors
///
/// If the settings cannot be used, or no node answers. It fails within five seconds if no node accepts a
/// connection or one refuses the login.
pub(super) async fn connect(config: &Config) -> Result<CassandraStore, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    // Commands write no points, so the writer id does not matter.
    let identity = WriterIdentity::new(config.replica, 0);
    let store = CassandraStore::connect(config, identity, clock, &Registry::new())
        .map_err(|error| Failure::new(Exit::Config, error))?;
    let mut waited = timeout(FIRST, store.wait()).await;
    if waited.is_err() && !store.has_failed() && any_accepts(config).await {
        eprintln!("waiting for {} ...", nodes(config));
        waited = timeout(SLOW, store.wait()).await;
    }
    match waited {
        Ok(Ok(())) => Ok(store),
        Ok(Err(error)) => Err(Failure::new(Exit::Store, error)),
        Err(_) => Err(Failure::new(Exit::Store, no_answer(config, &store))),
    }
}

fn no_answer(config: &Config, store: &CassandraStore) -> anyhow::Error {
    let advice = "is Cassandra running there? The addresses are store.cassandra.contact_points";
    match store.trouble() {
        Some(why) if store.has_failed() => anyhow!("{why}; {advice}"),
        _ => anyhow!("no answer from {}; {advice}", nodes(config)),
    }
}

fn nodes(config: &Config) -> String {
    let own = if config.has_metadata_cluster() { config.metadata.contact_points.as_slice() } else { &[] };
    config.contact_points.iter().chain(own).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Whether one of the contact points accepts a connection.
async fn any_accepts(config: &Config) -> bool {
    let mut tries = tokio::task::JoinSet::new();
    for node in config.contact_points.iter().chain(&config.metadata.contact_points) {
        let node = if node.rsplit_once(':').is_some() { node.clone() } else { format!("{node}:9042") };
        tries.spawn(async move { matches!(timeout(PROBE, TcpStream::connect(node)).await, Ok(Ok(_))) });
    }
    while let Some(tried) = tries.join_next().await {
        if tried.unwrap_or(false) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_server_is_said_within_five_seconds() {
        assert!(FIRST + PROBE <= Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_node_that_accepts_is_told_from_none() {
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = port.local_addr().unwrap().to_string();
        let mut config = Config { contact_points: vec!["127.0.0.1:1".to_owned()], ..Config::default() };
        assert!(!any_accepts(&config).await);
        config.contact_points.push(node);
        assert!(any_accepts(&config).await);
        assert_eq!(nodes(&config), config.contact_points.join(", "));
    }
}
