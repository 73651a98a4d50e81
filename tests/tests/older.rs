//! Cassandra 4.1, the oldest release that is run: a daemon on it from socket to answer, and BigGraphite
//! beside our store.

use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Options, Release};
use plumbago_tests::wait::wait_until;

use crate::faults::Run;
use crate::interop::beside::Beside;
use crate::interop::points::{self, RETENTIONS};

#[test]
fn cassandra_4_1() {
    let options = Options { release: Release::V4_1, ..Options::default() };
    let Some(mut cluster) = cluster_for_test(1, &options) else { return };
    let mut run = Run::new("older", &cluster.contact_points(), 66);
    // As BigGraphite's keyspaces are: the node forgets what it holds in memory.
    run.setup.set("store.cassandra.replication.durable_writes", "false");
    run.syncdb();
    run.start();
    run.steps(15);
    run.kill_and_start();
    run.steps(10);
    run.sent();
    run.check("after a kill of the daemon");
    let before = run.returns_at_rest();
    cluster.node(0).kill();
    run.steps(5);
    cluster.node(0).start().unwrap();
    wait_until("the return to be seen", || run.returns() > before);
    run.check_server("after a kill of the node");
    drop(run);

    let server = cluster.nodes()[0].socket();
    let Some(theirs) = Beside::made_by_biggraphite_on(server, "older_theirs", &RETENTIONS) else { return };
    points::theirs_is_read(theirs);
    let Some(ours) = Beside::made_by_us_on(server, "older_ours", &RETENTIONS) else { return };
    points::ours_is_read(ours);
}
