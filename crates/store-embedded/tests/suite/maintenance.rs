//! Tests of expiry, merging, and writes during both.

use std::sync::mpsc;

use crate::common::{BLOCK, LONG, START, assert_blocks, block, block_on, metrics, open, read};
use plumbago_model::Stage;
use plumbago_store::{FlushStore, PointStore, RowCount, WriteBatch};

const WEEK: Stage = Stage { resolution: 60, points: 10_080 };

fn commit_blocks(
    store: &crate::common::Store,
    metrics: &[crate::common::Metric],
    numbers: std::ops::Range<u32>,
) {
    for number in numbers {
        store.clock.set(i64::from(START + number * BLOCK) * 60);
        store.store.commit(&block(&store.store, metrics, number)).unwrap();
    }
}

#[test]
fn days_are_merged_when_they_are_over_and_dropped_when_they_have_expired() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let metrics = metrics(20, WEEK);
    let mut merged = 0;
    let mut expired = 0;
    // Runs for twelve days, with maintenance every 40 minutes.
    for number in 0..12 * 1440 / BLOCK {
        commit_blocks(&store, &metrics, number..number + 1);
        let report = store.store.maintain(&mut |_| true).unwrap();
        assert_eq!(report.failed_buckets, 0);
        merged += report.merged_buckets;
        expired += report.expired_buckets;
    }
    assert_eq!(merged, 11, "each day that is over, once");
    assert_eq!(expired, 4, "days whose last slot is older than a week");
    let now = START + 12 * 1440 - BLOCK;
    for metric in &metrics {
        let from = now - WEEK.points + 1;
        let column = read(&store.store, metric, from, now - BLOCK);
        for (slot, value) in (from..).zip(&column) {
            assert_eq!(value.to_bits(), metric.value(slot).to_bits(), "slot {}", slot - from);
        }
        assert!(read(&store.store, metric, START, START + 1440).iter().all(|v| v.is_nan()));
    }
    let usage = store.store.usage().unwrap();
    assert_eq!(usage.stages.len(), 1);
    assert!(usage.stages[0].merged_points > 20 * 6 * 1440);
    assert!(usage.stages[0].buckets <= 9);
    store.store.write_tables().unwrap();
    let (tables, usage) = (store.store.table_usage().unwrap(), store.store.usage().unwrap());
    let (stage, counted) = (&tables.stages[0], &usage.stages[0]);
    assert_eq!((tables.stages.len(), stage.stage, stage.coarse), (1, WEEK, false));
    assert_eq!((stage.buckets, stage.merged_rows), (counted.buckets, counted.merged_rows), "{tables:?}");
    assert!(stage.fresh_rows >= counted.fresh_rows, "{tables:?}");
    assert_eq!(stage.bytes, counted.fresh_bytes + counted.merged_bytes);
    let oldest = u64::from(now - WEEK.points) * 60;
    assert!(stage.since <= oldest && stage.since + 2 * 86_400 > oldest, "{tables:?}");
    store.store.close().unwrap();
    assert_eq!(store.store.table_usage(), None);
}

#[test]
fn slots_older_than_the_retention_are_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let metric = metrics(1, WEEK)[0];
    let mut batch = WriteBatch::default();
    batch.push(metric.run(START - 30_000, false), &[1.0, 2.0], None);
    block_on(store.store.write(&batch)).unwrap();
    assert_eq!(store.registry.value("plumbago_store_slots_expired_total"), Some(2.0));
    assert!(read(&store.store, &metric, START - 30_000, START - 29_998).iter().all(|v| v.is_nan()));
}

#[test]
fn late_points_during_and_after_a_merge_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let metrics = metrics(3000, LONG);
    commit_blocks(&store, &metrics, 0..6);
    let late = |round: u32| {
        let mut batch = WriteBatch::default();
        for metric in &metrics {
            let slot = metric.first(&store.store) + 17 + round;
            batch.push(metric.run(slot, false), &[f64::from(round) + 0.5], None);
        }
        block_on(store.store.write(&batch)).unwrap();
    };
    let deleted = metrics[7];
    let (started, has_started) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let merge = {
            let store = &store;
            move || {
                // The callback runs within the merge and blocks until `go` is dropped.
                let report = store.store.merge_all(&mut |_| {
                    started.send(()).unwrap();
                    may_go.recv().is_err()
                });
                assert_eq!(report.unwrap().merged_buckets, 1);
            }
        };
        threads.spawn(merge);
        has_started.recv().unwrap();
        late(0);
        block_on(PointStore::delete(&store.store, &[(deleted.id, vec![LONG])])).unwrap();
        late(1);
        let first = metrics[0].first(&store.store);
        assert_eq!(read(&store.store, &metrics[0], first + 17, first + 19), [0.5, 1.5]);
        drop(go);
    });
    late(2);
    let check = |store: &crate::common::Store| {
        for metric in &metrics {
            let first = metric.first(&store.store);
            let column = read(&store.store, metric, first, first + 6 * BLOCK);
            for (i, value) in column.iter().enumerate() {
                // The metric is deleted between the first and the second late point.
                let wanted = match i {
                    18 | 19 => i as f64 - 16.5,
                    _ if metric.number == deleted.number => f64::NAN,
                    17 => 0.5,
                    _ => metric.value(first + i as u32),
                };
                let same = value.is_nan() && wanted.is_nan() || value.to_bits() == wanted.to_bits();
                assert!(same, "metric {} slot {i}: {value} is not {wanted}", metric.number);
            }
        }
    };
    check(&store);
    store.store.merge_all(&mut |_| true).unwrap();
    check(&store);
    store.store.close().unwrap();
    check(&open(dir.path()));
}

#[test]
fn a_stopped_merge_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let metrics = metrics(3000, LONG);
    commit_blocks(&store, &metrics, 0..3);
    let report = store.store.merge_all(&mut |_| false).unwrap();
    assert_eq!(report.merged_buckets, 0);
    assert_blocks(&store.store, &metrics, |_| 3);
    commit_blocks(&store, &metrics, 3..4);
    assert_eq!(store.store.merge_all(&mut |_| true).unwrap().merged_buckets, 1);
    assert_blocks(&store.store, &metrics, |_| 4);
    store.store.close().unwrap();
    assert_blocks(&open(dir.path()).store, &metrics, |_| 4);
}

#[test]
fn a_keyspace_made_after_an_expiry_and_a_restart_stays() {
    // fjall reuses the id of a deleted keyspace and then treats the new one as deleted.
    let dir = tempfile::tempdir().unwrap();
    let metrics = metrics(10, WEEK);
    for round in 0..4 {
        let store = open(dir.path());
        commit_blocks(&store, &metrics, round * 600..round * 600 + 1);
        store.store.close().unwrap();

        let store = open(dir.path());
        let seen = read(
            &store.store,
            &metrics[0],
            metrics[0].first(&store.store) + round * 600 * BLOCK,
            metrics[0].first(&store.store) + round * 600 * BLOCK + 2,
        );
        assert_eq!(seen[..2].iter().filter(|v| v.is_nan()).count(), 0, "round {round}");
        store.clock.set(i64::from(START + (round + 1) * 600 * BLOCK) * 60);
        assert_eq!(store.store.maintain(&mut |_| true).unwrap().expired_buckets, 1);
        store.store.close().unwrap();
    }
}

#[test]
fn windows_of_a_long_bucket_are_merged_day_by_day() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let hours = Stage { resolution: 3600, points: 8760 };
    let metrics = metrics(5, hours);
    let start = START / 60;
    let mut merged = 0;
    for hour in start..start + 70 * 24 {
        store.clock.set(i64::from(hour + 1) * 3600);
        let mut batch = WriteBatch::default();
        for metric in &metrics {
            let mut run = metric.run(hour, true);
            run.stage_index = 1;
            batch.push(run, &[metric.value(hour)], Some(&[RowCount::new(60)]));
        }
        block_on(store.store.write(&batch)).unwrap();
        let report = store.store.maintain(&mut |_| true).unwrap();
        merged += report.merged_buckets;
    }
    assert!((50..75).contains(&merged), "merged {merged} times in 70 days");
    let usage = store.store.usage().unwrap();
    assert_eq!(usage.stages[0].fresh_points + usage.stages[0].merged_points, 5 * 70 * 24);
    assert!(usage.stages[0].fresh_points <= 5 * 24 * 16, "{usage:?}");
    assert_eq!(
        store.registry.value("plumbago_store_reopened_total"),
        Some(1.0),
        "its list of keyspaces was renewed"
    );
    for metric in &metrics {
        let mut range = metric.range(start, start + 70 * 24);
        range.stage_index = 1;
        let request = plumbago_store::ReadRequest { ranges: vec![range], ..Default::default() };
        let column = block_on(store.store.read(&request)).unwrap().remove(0);
        assert!(column.counts.iter().all(|count| *count == 60));
        assert!(
            (start..)
                .zip(&column.values)
                .all(|(hour, value)| value.to_bits() == metric.value(hour).to_bits())
        );
    }
}
