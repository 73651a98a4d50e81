//! Cassandra 4.1 and 3.11, the oldest supported release: a daemon on each, from socket to answer, and our
//! store together with BigGraphite.

use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Options, Release};
use plumbago_tests::rounds::each;

use crate::faults::Run;
use crate::interop::beside::Beside;
use crate::interop::points::{self, RETENTIONS};

#[test]
fn cassandra_4_1() {
    each(66, 1, |seed| all_works_on(Release::V4_1, seed));
}

#[test]
fn cassandra_3_11() {
    each(67, 1, |seed| all_works_on(Release::V3_11, seed));
}

fn all_works_on(release: Release, seed: u64) {
    let options = Options { release, ..Options::default() };
    let Some(mut cluster) = cluster_for_test(1, &options) else { return };
    let mut run = Run::new("older", &cluster.contact_points(), seed);
    // As in BigGraphite's keyspaces: a killed node loses the rows that it has in memory.
    run.setup.set("store.cassandra.replication.durable_writes", "false");
    run.syncdb();
    run.start();
    run.steps(15);
    run.kill_and_start();
    run.steps(10);
    run.sent();
    run.check("after a kill of the daemon");
    run.kill_node(&mut cluster);
    run.steps(5);
    cluster.node(0).start().unwrap();
    run.starts_noted(&cluster);
    run.check_server("after a kill of the node");
    drop(run);

    let server = cluster.nodes()[0].socket();
    let Some(theirs) = Beside::made_by_biggraphite_on(server, "older_theirs", &RETENTIONS) else { return };
    points::theirs_is_read(theirs);
    let Some(ours) = Beside::made_by_us_on(server, "older_ours", &RETENTIONS) else { return };
    points::ours_is_read(ours);
}
