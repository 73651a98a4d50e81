//! The built daemon on keyspaces of BigGraphite.

use std::collections::BTreeMap;

use plumbago_model::MetricId;
use plumbago_tests::biggraphite::{Metric, ONE, Points};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::beside::{Beside, Counted, range, stage_of};
use super::points::{METHODS, folded, now, value};

const RETENTION: &str = "14400*1s:10080*60s:2160*3600s";
const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1s:4h,1m:7d,1h:90d\n";

/// An hour in the future. The daemon's writes are later than BigGraphite's, as after a migration.
fn next_hour() -> i64 {
    (now() / 3600 + 2) * 3600
}

fn setup(beside: &Beside, clock: i64) -> Setup {
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", &beside.config.keyspace);
    setup.set("store.cassandra.contact_points", &beside.config.contact_points[0]);
    setup.set("store.cassandra.request_timeout", "60s");
    setup.set("spool.linger", "100ms").set("engine.flush_interval", "1s");
    setup.schemas(SCHEMAS).clock(clock);
    setup
}

/// The expected slots of stage 0 of a metric.
type Slots = BTreeMap<i64, f64>;

struct TakeOver {
    metrics: Vec<Metric>,
    slots: Vec<Slots>,
    random: SmallRng,
}

impl TakeOver {
    /// A point for every metric at `time`.
    fn points(&mut self, time: i64) -> Vec<Point> {
        let mut points = Vec::new();
        for (metric, slots) in self.metrics.iter().zip(&mut self.slots) {
            let value = value(&mut self.random);
            slots.insert(time, value);
            points.push(Point::new(&metric.name, time, value));
        }
        points
    }

    /// Late points for slots that have no value yet.
    fn late(&mut self, from: i64, until: i64) -> Vec<Point> {
        let empty: Vec<i64> = (from..until).filter(|t| !self.slots[0].contains_key(t)).collect();
        let chosen: Vec<i64> = empty.into_iter().filter(|_| self.random.random_bool(0.2)).collect();
        chosen.into_iter().flat_map(|time| self.points(time)).collect()
    }
}

/// BigGraphite is stopped in the middle of an hour and Plumbago takes over. Late points arrive for both
/// halves, before and after the end of the hour. Both programs read minutes and an hour that include all
/// points.
#[test]
fn taking_over_in_the_middle_of_an_hour() {
    let Some(mut beside) = Beside::made_by_biggraphite("interop_takeover", &[RETENTION]) else { return };
    let hour = next_hour();
    let metric = |method: &&str| Metric {
        name: format!("takeover.{method}"),
        retention: RETENTION.to_owned(),
        aggregator: (*method).to_owned(),
        factor: 0.5,
    };
    let metrics: Vec<Metric> = METHODS.iter().map(metric).collect();
    let slots = vec![Slots::new(); metrics.len()];
    let mut test = TakeOver { metrics, slots, random: SmallRng::seed_from_u64(45) };

    beside.biggraphite.create(ONE, &test.metrics);
    beside.biggraphite.open("writer", 0, Some(3));
    biggraphites_half(&mut beside, &mut test, hour);

    let setup = setup(&beside, hour + 1800);
    let daemon = setup.start();
    daemon.wait_names(test.metrics.len());
    our_half(&daemon, &mut test, hour);
    rendered(&daemon, &test, hour);
    sent(&daemon);
    daemon.stop_well();
    compare(&mut beside, &test, hour, hour + 3600);

    // After another start, points arrive for windows that closed long ago.
    let daemon = setup.start();
    daemon.set_clock(hour + 7000);
    daemon.put(&test.late(hour + 200, hour + 700));
    daemon.put(&test.late(hour + 1900, hour + 2500));
    sent(&daemon);
    daemon.stop_well();
    compare(&mut beside, &test, hour, hour + 3600);
}

fn biggraphites_half(beside: &mut Beside, test: &mut TakeOver, hour: i64) {
    let mut calls: BTreeMap<String, Points> = BTreeMap::new();
    for time in hour..hour + 1800 {
        if test.random.random_bool(0.6) {
            for point in test.points(time) {
                calls.entry(point.name.clone()).or_default().push((time, point.value));
            }
        }
    }
    for (name, points) in &calls {
        let chunks: Vec<(&str, Points)> =
            points.chunks(15).map(|chunk| (name.as_str(), chunk.to_vec())).collect();
        beside.biggraphite.insert("writer", &chunks);
    }
    // The first flush may write only metrics that are already queued, the second writes the rest. Neither waits
    // for the server.
    beside.biggraphite.flush("writer");
    beside.biggraphite.flush("writer");
    for (metric, slots) in test.metrics.iter().zip(&test.slots) {
        let hour = range(metric, 2, hour, hour + 3600);
        wait_until("BigGraphite's hour", || {
            let read = beside.biggraphite.fetch_counted(ONE, std::slice::from_ref(&hour)).remove(0);
            read.is_some_and(|points| {
                points.iter().map(|(.., count)| count).sum::<u64>() == slots.len() as u64
            })
        });
    }
}

fn our_half(daemon: &Daemon, test: &mut TakeOver, hour: i64) {
    for start in (hour + 1800..hour + 3600).step_by(100) {
        daemon.set_clock(start + 100);
        let times: Vec<i64> = (start..start + 100).filter(|_| test.random.random_bool(0.6)).collect();
        let mut points: Vec<Point> = times.into_iter().flat_map(|time| test.points(time)).collect();
        if start == hour + 2800 {
            points.extend(test.late(hour + 600, hour + 900));
            points.extend(test.late(hour + 2000, hour + 2200));
        }
        daemon.put(&points);
    }
    // The next hour begins, which closes the last one.
    daemon.set_clock(hour + 3700);
    let next: Vec<Point> = (hour + 3600..hour + 3700).flat_map(|time| test.points(time)).collect();
    daemon.put(&next);
    daemon.flush();
}

/// Checks stage 0 of both halves through the daemon's API.
fn rendered(daemon: &Daemon, test: &TakeOver, hour: i64) {
    for (metric, slots) in test.metrics.iter().zip(&test.slots) {
        let series = daemon.render(&metric.name, hour - 1, hour + 3699, hour + 3700);
        assert_eq!(series.len(), 1, "{}", metric.name);
        assert_eq!(series[0].step, 1);
        assert_eq!(series[0].known(), *slots, "{}", metric.name);
    }
}

/// Waits until the server has acknowledged all rows of the daemon.
fn sent(daemon: &Daemon) {
    daemon.flush();
    wait_until("the spool to be empty", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
}

/// Checks all stages as read by BigGraphite and by our store.
fn compare(beside: &mut Beside, test: &TakeOver, from: i64, until: i64) {
    let store = beside.store(3, 16_000);
    for (metric, slots) in test.metrics.iter().zip(&test.slots) {
        let points: Points = slots.iter().map(|(time, value)| (*time, *value)).collect();
        for (stage, slots) in folded(metric, &points).iter().enumerate() {
            let range = range(metric, stage, from, until);
            let step = i64::from(stage_of(metric, stage).resolution);
            let expected: Vec<Counted> = slots
                .iter()
                .map(|(slot, window)| (i64::from(*slot) * step, window.value, u64::from(window.count)))
                .filter(|(time, ..)| (from..until).contains(time))
                .collect();
            assert_eq!(beside.read(&store, metric, stage, &range), expected, "{range:?}, ours");
            // For several writers, BigGraphite's last value is that of the highest writer id.
            if stage > 0 && metric.aggregator == "last" {
                continue;
            }
            let theirs = beside.biggraphite.fetch_counted(ONE, std::slice::from_ref(&range)).remove(0);
            assert_eq!(theirs.unwrap(), expected, "{range:?}, BigGraphite's");
        }
    }
}

/// BigGraphite finds a metric as soon as the daemon has created it, with the settings of the storage rules. After a
/// restart the daemon writes with the same writer id, and sums still include all points.
#[test]
fn biggraphite_knows_and_reads_what_the_daemon_took() {
    let Some(mut beside) = Beside::made_by_biggraphite("interop_daemon", &[RETENTION]) else { return };
    let start = next_hour();
    let mut setup = setup(&beside, start);
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0.25\naggregationMethod = sum\n");
    let metric = Metric {
        name: "fresh.metric.one".to_owned(),
        retention: RETENTION.to_owned(),
        aggregator: "total".to_owned(),
        factor: 0.25,
    };
    let mut slots = Slots::new();
    for part in 0..3 {
        let daemon = setup.start();
        let from = start + part * 1300;
        daemon.set_clock(from + 1300);
        let points: Vec<Point> =
            (from..from + 1300).map(|t| Point::new(&metric.name, t, (t % 97) as f64)).collect();
        daemon.put(&points);
        slots.extend(points.iter().map(|p| (p.timestamp, p.value)));
        sent(&daemon);
        if part == 1 {
            daemon.kill();
        } else {
            daemon.stop_well();
        }
    }
    let known = beside.biggraphite.get(ONE, &[&metric.name]).remove(0).unwrap();
    assert_eq!(known.id, MetricId::of(&metric.name).to_string());
    assert_eq!(
        (known.retention.as_str(), known.aggregator.as_str(), known.factor.as_str()),
        (RETENTION, "total", "0.250000")
    );
    let found = beside.biggraphite.glob(ONE, &["fresh.*.*"]).remove(0).unwrap();
    assert_eq!(found.metrics, [metric.name.as_str()]);
    let test = TakeOver { metrics: vec![metric], slots: vec![slots], random: SmallRng::seed_from_u64(0) };
    compare(&mut beside, &test, start, start + 3600);
}

/// A clean stop writes open windows, so that nothing is left for the next start.
#[test]
fn a_clean_stop_writes_open_windows() {
    let Some(mut beside) = Beside::made_by_biggraphite("interop_stop", &[RETENTION]) else { return };
    let start = next_hour();
    let setup = setup(&beside, start + 90);
    let daemon = setup.start();
    let metrics = vec![Metric {
        name: "stopped.average".to_owned(),
        retention: RETENTION.to_owned(),
        aggregator: "average".to_owned(),
        factor: 0.5,
    }];
    let mut test = TakeOver { metrics, slots: vec![Slots::new()], random: SmallRng::seed_from_u64(46) };
    let points: Vec<Point> = (start..start + 90).flat_map(|time| test.points(time)).collect();
    daemon.put(&points);
    sent(&daemon);
    daemon.stop_well();
    compare(&mut beside, &test, start, start + 3600);
}

/// A metric that BigGraphite has deleted disappears with the next scan of all names. Its next point creates it again.
#[test]
fn what_biggraphite_deletes_is_forgotten() {
    let Some(mut beside) = Beside::made_by_biggraphite("interop_deleted", &[RETENTION]) else { return };
    let start = next_hour();
    let metrics: Vec<Metric> = (0..10)
        .map(|n| Metric {
            name: format!("deleted.dir{n}.metric"),
            retention: RETENTION.to_owned(),
            aggregator: "average".to_owned(),
            factor: 0.5,
        })
        .collect();
    beside.biggraphite.create(ONE, &metrics);
    let setup = setup(&beside, start);
    let daemon = setup.start();
    daemon.wait_names(10);
    daemon.stop_well();

    let gone: Vec<&str> = metrics[..3].iter().map(|metric| metric.name.as_str()).collect();
    beside.biggraphite.delete(ONE, &gone);
    let daemon = setup.start();
    wait_until("what was deleted to be forgotten", || daemon.names().len() == 7);
    assert!(daemon.names().iter().all(|name| !gone.contains(&name.as_str())));
    daemon.put(&[Point::new(gone[0], start, 1.0)]);
    daemon.wait_names(8);
    sent(&daemon);
    daemon.stop_well();
    assert!(beside.biggraphite.get(ONE, &gone)[0].is_some());
}

/// `plumbago rules apply` changes the retention while the daemon runs. BigGraphite sees the new retention and reads
/// every stage of it, with the earlier and the later points.
#[test]
fn biggraphite_reads_a_metric_whose_rules_have_changed() {
    const OLD: &str = "14400*1s:10080*60s";
    // The retention of metrics that no section of the rules matches.
    const BUILT_IN: &str = "10080*60s:70080*900s";
    let Some(mut beside) = Beside::made_by_biggraphite("interop_rules", &[OLD, RETENTION, BUILT_IN]) else {
        return;
    };
    let start = next_hour();
    let mut setup = setup(&beside, start + 3700);
    setup.schemas("[all]\npattern = .*\nretentions = 1s:4h,1m:7d\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    let metrics = vec![Metric {
        name: "changed.metric".to_owned(),
        retention: RETENTION.to_owned(),
        aggregator: "total".to_owned(),
        factor: 0.0,
    }];
    let mut test = TakeOver { metrics, slots: vec![Slots::new()], random: SmallRng::seed_from_u64(47) };
    let daemon = setup.start();
    let points: Vec<Point> = (start..start + 3700).step_by(3).flat_map(|time| test.points(time)).collect();
    daemon.put(&points);
    sent(&daemon);
    daemon.kill_journaled();
    setup.schemas(SCHEMAS);
    let daemon = setup.start_for_commands();
    let done = setup.run_well(&["rules", "apply"]);
    assert!(done.contains("1 of 1 metrics changed"), "{done}");
    sent(&daemon);
    let known = beside.biggraphite.get(ONE, &["changed.metric"]).remove(0).unwrap();
    assert_eq!(known.retention, RETENTION);
    compare(&mut beside, &test, start, start + 3600);
    // The daemon computes the next hours, and late points change the hour that the change of the retention
    // filled.
    daemon.set_clock(start + 7400);
    let more: Vec<Point> =
        (start + 3700..start + 7400).step_by(3).flat_map(|time| test.points(time)).collect();
    daemon.put(&more);
    daemon.put(&test.late(start + 200, start + 300));
    sent(&daemon);
    daemon.stop_well();
    compare(&mut beside, &test, start, start + 7200);
}
