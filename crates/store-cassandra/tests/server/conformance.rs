//! The test suite that every store must pass, on a real server.

use plumbago_model::{Clock, SystemClock};
use plumbago_store::{BlockLayout, testsuite};
use plumbago_store_cassandra::config::Indexes;

use crate::common::{Keyspace, now};

#[tokio::test(flavor = "multi_thread")]
async fn cassandra() {
    let Some(keyspace) = Keyspace::new("suite") else { return };
    suite(keyspace).await;
}

pub async fn suite(keyspace: Keyspace) {
    let store = keyspace.store().await;
    keyspace.sync(&store, &["60s:7d,900s:1y"]).await;
    let now = now();
    for round in 0..2 {
        // The second round runs over the rows of the first, with another block size.
        let layout = BlockLayout { raw_slots: 30 + round * 7 };
        testsuite::points::all(&store, layout, now).await;
        testsuite::metadata::all(&store).await;
        testsuite::directories::rows(&store, now_us).await;
        testsuite::directories::all(&store, now_us).await;
    }
    keyspace.drop().await;
}

/// The suite for directories on a server where an index finds the metrics below them.
#[tokio::test(flavor = "multi_thread")]
async fn directories_by_index() {
    let Some(keyspace) = Keyspace::new("dirs") else { return };
    directories(keyspace).await;
}

pub async fn directories(mut keyspace: Keyspace) {
    keyspace.config.indexes = Indexes::Sasi;
    let store = keyspace.store().await;
    keyspace.sync(&store, &[]).await;
    testsuite::directories::all(&store, now_us).await;
    keyspace.drop().await;
}

fn now_us() -> i64 {
    // The clock counts milliseconds, so the next millisecond is after everything written so far.
    (SystemClock.now_ms() + 1) * 1000
}
