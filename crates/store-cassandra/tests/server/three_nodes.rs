//! Tests with three nodes, one of which is killed and returns. They share a cluster, because starting one takes most of
//! their time.

use plumbago_cassandra_node::{Options, server};
use plumbago_tests::rounds::seeds;

use crate::{levels, ranges};

#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_nodes_dies() {
    for seed in seeds(1, 1) {
        // Without hints, a replica lacks what was written while it was down.
        let more = vec!["hinted_handoff_enabled: false".to_owned()];
        let options = Options { heap_mib: 320, sasi: false, more, ..Options::default() };
        let Some(mut cluster) = server::cluster_for_test(3, &options) else { return };
        ranges::dead_node(&mut cluster, seed).await;
        cluster.wait_settled().unwrap();
        levels::lagging_replica(&mut cluster, seed).await;
        levels::all_replicas_confirm_a_deletion(&mut cluster).await;
    }
}
