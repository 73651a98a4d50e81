//! Power cuts of a daemon on Cassandra whose node is down, after failed syncs of the spool. The journal may
//! drop points only once their rows are durable in the spool.

use std::collections::BTreeSet;

use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Cluster, Options};
use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::power::Disk;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

/// A Monday, at the start of an hour.
const START: i64 = 1_763_974_800;
const METRICS: usize = 20;
/// Number of slots that are sent before, during and after the failure. Each of the three times, they fill
/// several journal segments.
const PHASE: i64 = 45;

fn name(metric: usize) -> String {
    format!("spooled.m{metric}")
}

fn value(metric: usize, slot: i64) -> f64 {
    (metric as i64 * 10_000 + slot) as f64
}

struct Run {
    setup: Setup,
    disk: Disk,
    cluster: Cluster,
    /// Number of slots sent so far.
    slots: i64,
}

impl Run {
    fn new() -> Option<Self> {
        let cluster = cluster_for_test(1, &Options { heap_mib: 320, sasi: false, ..Options::default() })?;
        let mut setup = crate::faults::setup("power_spool", &cluster.contact_points());
        setup.schemas("[all]\npattern = .*\nretentions = 60s:7d,15m:30d\n");
        setup.set("spool.min_free_bytes", "16MiB").set("journal.sync", "50ms");
        let ended = setup.run(&["syncdb"]);
        assert!(ended.status.success(), "{}", ended.output);
        let disk = Disk::below(&mut setup);
        Some(Self { setup, disk, cluster, slots: 0 })
    }

    fn now(&self) -> i64 {
        START + 60 * self.slots
    }

    fn start(&mut self) -> Daemon {
        let now = self.now();
        self.setup.clock(now).start()
    }

    fn phase(&mut self, daemon: &Daemon) {
        for _ in 0..PHASE {
            daemon.set_clock(self.now());
            let point = |metric| Point::new(name(metric), self.now(), value(metric, self.slots));
            daemon.put(&(0..METRICS).map(point).collect::<Vec<_>>());
            self.slots += 1;
        }
    }

    /// Number of segments that the journal has on the disk.
    fn segments(&self) -> usize {
        let files = std::fs::read_dir(self.setup.data().join("journal")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let logs = names.filter(|name| name.ends_with(".log"));
        logs.filter_map(|name| Some(name.split_once('-')?.0.to_owned())).collect::<BTreeSet<_>>().len()
    }

    /// Waits until every point is in the journal and synced there, or synced in the spool.
    fn journaled(&self, daemon: &Daemon) {
        wait_until("the points to be in the journal", || {
            daemon.counters().sum(JOURNAL_WRITTEN) >= daemon.ledger().received
        });
        let syncs = || daemon.counters().sum("plumbago_journal_syncs_total");
        // The first sync that ends may have begun before the point, so two must end.
        for _ in 0..2 {
            let before = syncs();
            // Sends the last point again.
            let last = self.slots - 1;
            daemon.put(&[Point::new(name(0), START + 60 * last, value(0, last))]);
            wait_until("the journal to be synced", || syncs() > before || self.segments() == 0);
        }
    }

    /// Simulates a power cut, starts with a working disk, starts the node again, and checks that the server
    /// gets every point.
    fn cut_and_check(&mut self, daemon: Daemon) {
        daemon.kill();
        self.disk.cut();
        self.setup.environment("LD_PRELOAD", "");
        let daemon = self.start();
        self.cluster.node(0).start().unwrap();
        wait_until("the spool to be empty", || {
            daemon.flush();
            daemon.counters().sum("plumbago_spool_pending_rows") == 0
        });
        let stored = || {
            let mut cql = self.cluster.nodes()[0].connect().ok()?;
            let rows = cql.query("SELECT count(*) FROM power_spool.datapoints_10080p_60s_0").ok()?;
            rows.iter().next()?.integer(0)
        };
        let wanted = METRICS as i64 * self.slots;
        wait_until("the points on the server", || stored() == Some(wanted));
        let now = self.now();
        for metric in 0..METRICS {
            let found = daemon.render(&name(metric), START - 60, now, now);
            let known = found.first().unwrap_or_else(|| panic!("{} is gone", name(metric))).known();
            let wrong: Vec<i64> = (0..self.slots)
                .filter(|slot| known.get(&(START + 60 * slot)) != Some(&value(metric, *slot)))
                .collect();
            assert!(wrong.is_empty(), "{}: the slots {wrong:?} are missing or wrong", name(metric));
        }
    }
}

/// The spool's syncs fail for a while, then succeed again. Then there is a power cut.
#[test]
fn a_failed_sync_of_the_spool_loses_nothing() {
    let Some(mut run) = Run::new() else { return };
    let daemon = run.start();
    // Without names on the server, points would stay in the journal. This test is about rows, so the names are
    // created first.
    run.phase(&daemon);
    daemon.flush();
    wait_until("the rows to be sent", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
    run.cluster.node(0).kill();
    run.phase(&daemon);
    daemon.flush();
    wait_until("the journal to be dropped", || run.segments() <= 2);
    run.disk.fail("/spool/");
    run.phase(&daemon);
    wait_until("a sync to fail", || run.disk.failures() > 0);
    run.disk.heal();
    run.phase(&daemon);
    run.journaled(&daemon);
    run.cut_and_check(daemon);
}
