//! The suite that every store passes, on a real server.

#![allow(clippy::unwrap_used)]

mod common;

use plumbago_store::{BlockLayout, testsuite};

use common::{Keyspace, now};

#[tokio::test(flavor = "multi_thread")]
async fn cassandra() {
    let Some(keyspace) = Keyspace::new("suite") else { return };
    let store = keyspace.store().await;
    keyspace.sync(&store, &["60s:7d,900s:1y"]).await;
    for round in 0..2 {
        // The second time over what is there, and with another cut of blocks.
        let layout = BlockLayout { raw_slots: 30 + round * 7 };
        testsuite::points::all(&store, layout, now()).await;
        testsuite::metadata::all(&store).await;
    }
    keyspace.drop().await;
}
