//! Power cuts of the embedded store and the journal after failed syncs: after the next start, everything that
//! was stored, and everything that was synced in the journal, can be read.

use std::collections::BTreeSet;

use plumbago_tests::counters::{Counters, JOURNAL_WRITTEN, Ledger};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::power::Disk;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

/// A Monday, at the start of an hour.
const START: i64 = 1_763_974_800;
const METRICS: usize = 20;
/// Number of slots that are sent before, during and after the failure. Each of the three times, they fill
/// several journal segments.
const PHASE: i64 = 45;

struct Run {
    setup: Setup,
    disk: Disk,
    daemon: Option<Daemon>,
    /// Number of slots sent so far.
    slots: i64,
}

impl Run {
    fn new() -> Self {
        let mut setup = Setup::new();
        setup.schemas("[all]\npattern = .*\nretentions = 60s:7d,15m:30d\n");
        setup.set("store.embedded.min_free_bytes", "16MiB").set("journal.sync", "50ms");
        let disk = Disk::below(&mut setup);
        let mut run = Self { setup, disk, daemon: None, slots: 0 };
        run.start();
        run
    }

    fn now(&self) -> i64 {
        START + 60 * self.slots
    }

    fn start(&mut self) {
        let now = self.now();
        self.daemon = Some(self.setup.clock(now).start());
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    fn kill(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    /// Sends a phase of slots, and lets the store accept them if it can.
    fn phase(&mut self) {
        for _ in 0..PHASE {
            self.daemon().set_clock(self.now());
            let point = |metric| Point::new(name(metric), self.now(), value(metric, self.slots));
            self.daemon().put(&(0..METRICS).map(point).collect::<Vec<_>>());
            self.slots += 1;
        }
        self.ask_for_flush();
    }

    /// Requests a flush without waiting for it, because it lasts as long as the store refuses writes.
    fn ask_for_flush(&self) {
        let (admin, owner) = (self.daemon().admin(), self.daemon().authorization());
        std::thread::spawn(move || http::try_request(admin, "POST", "/admin/flush", &owner, ""));
    }

    /// Waits until everything that was sent is synced, in the journal or in the store.
    fn journaled(&self) {
        let written = |counters: &Counters| counters.sum(JOURNAL_WRITTEN);
        wait_until("the points to be in the journal", || {
            let counters = self.daemon().counters();
            written(&counters) >= Ledger::of(&counters).received
        });
        let syncs = || self.daemon().counters().sum("plumbago_journal_syncs_total");
        // The first sync that ends may have begun before the point, so two must end.
        for _ in 0..2 {
            let before = syncs();
            self.daemon().put(&[Point::new("power.last", self.now(), 1.0)]);
            // A journal without segments has nothing to sync.
            wait_until("the journal to be synced", || syncs() > before || self.segments() == 0);
        }
    }

    /// Waits until the journal has dropped all but its newest segments, because the store no longer needs them.
    fn stored(&self) {
        self.daemon().flush();
        wait_until("the journal to be dropped", || self.segments() <= 2);
    }

    /// The number of the journal's segments on the disk. The gauge may be slightly out of date.
    fn segments(&self) -> usize {
        let files = std::fs::read_dir(self.setup.data().join("journal")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let logs = names.filter(|name| name.ends_with(".log"));
        logs.filter_map(|name| Some(name.split_once('-')?.0.to_owned())).collect::<BTreeSet<_>>().len()
    }

    /// Simulates a power cut, starts with a working disk, and checks that every point can be read.
    fn cut_and_check(&mut self) {
        self.kill();
        self.disk.cut();
        self.setup.environment("LD_PRELOAD", "");
        self.start();
        let now = self.now();
        for metric in 0..METRICS {
            let found = self.daemon().render(&name(metric), START - 60, now, now);
            assert_eq!(found.len(), 1, "{} is gone", name(metric));
            let known = found[0].known();
            let missing: Vec<i64> =
                (0..self.slots).filter(|slot| !known.contains_key(&(START + 60 * slot))).collect();
            assert!(missing.is_empty(), "{} has lost the slots {missing:?}", name(metric));
            assert!((0..self.slots).all(|slot| known[&(START + 60 * slot)] == value(metric, slot)));
        }
    }

    fn reasons(&self) -> String {
        http::get(self.daemon().admin(), "/readyz").body
    }

    /// Sends a phase before and one during failed syncs of the store.
    fn fail_store_syncs(&mut self) {
        self.phase();
        self.stored();
        self.disk.fail("/store/");
        self.phase();
        wait_until("a sync to fail", || self.disk.failures() > 0);
    }
}

fn name(metric: usize) -> String {
    format!("power.m{metric}")
}

fn value(metric: usize, slot: i64) -> f64 {
    (metric as i64 * 10_000 + slot) as f64
}

#[test]
fn a_power_cut_loses_nothing_that_was_stored() {
    let mut run = Run::new();
    run.phase();
    run.stored();
    run.phase();
    run.journaled();
    run.cut_and_check();
}

#[test]
fn a_failed_sync_of_the_store_loses_nothing() {
    let mut run = Run::new();
    run.fail_store_syncs();
    run.disk.heal();
    run.phase();
    run.journaled();
    run.stored();
    assert!(run.reasons().contains("\"ready\":true"), "{}", run.reasons());
    run.cut_and_check();
}

/// After a failed sync the kernel marks the lost pages as clean, and a new process sees them as clean too.
#[test]
fn a_failed_sync_before_a_restart_loses_nothing() {
    let mut run = Run::new();
    run.fail_store_syncs();
    run.journaled();
    run.kill();
    run.disk.heal();
    run.start();
    run.phase();
    run.journaled();
    run.stored();
    run.cut_and_check();
}

/// While syncs fail, points are still written to the journal.
#[test]
fn a_power_cut_while_syncs_fail_loses_nothing() {
    let mut run = Run::new();
    run.fail_store_syncs();
    wait_until("readiness to name it", || run.reasons().contains("sync"));
    run.phase();
    run.journaled();
    run.cut_and_check();
}
