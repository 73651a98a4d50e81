//! Points on a real server: what the test suite for all stores cannot cover, because only this store has
//! several writers, replicas, TTLs and rows of other programs.

use plumbago_model::{Aggregation, MetricId, Stage, SystemClock};
use plumbago_store::{
    ErrorKind, PointStore, ReadRequest, RemotePoints, RowCount, Run, SharedWindows, SlotRange, SlotRow,
    WriteBatch, WriterIdentity,
};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_cassandra::layout::{Partition, offset};
use plumbago_telemetry::Registry;
use uuid::Uuid;

use crate::common::{Keyspace, now};

const RAW: Stage = Stage { resolution: 60, points: 1440 };
const HOURS: Stage = Stage { resolution: 3600, points: 720 };
const RETENTION: &str = "60s:1d,3600s:30d";

fn run(name: &str, stage_index: u8, first_slot: u32, aggregation: Aggregation) -> Run {
    let stage = if stage_index == 0 { RAW } else { HOURS };
    Run { id: MetricId::of(name), stage, stage_index, aggregation, first_slot, len: 0, at: 0, whole: false }
}

fn batch(run: Run, values: &[f64], counts: &[u32]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    let counts: Vec<RowCount> = counts.iter().map(|count| (*count).into()).collect();
    batch.push(run, values, Some(&counts));
    batch
}

fn range(run: Run, len: u32) -> SlotRange {
    let Run { id, stage, stage_index, aggregation, first_slot: from, .. } = run;
    SlotRange { id, stage, stage_index, aggregation, from, until: from + len }
}

async fn read(store: &CassandraStore, run: Run, len: u32) -> (Vec<f64>, Vec<u32>) {
    let request = ReadRequest { ranges: vec![range(run, len)], ..Default::default() };
    let column = store.read(&request).await.unwrap().remove(0);
    (column.values, column.counts.into_iter().map(RowCount::of_window).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn points_of_several_writers() {
    let Some(keyspace) = Keyspace::new("points") else { return };
    several_writers(keyspace).await;
}

/// Of a thousand partitions, those with rows are found.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_with_rows_are_found() {
    let Some(keyspace) = Keyspace::new("occupied") else { return };
    let registry = Registry::new();
    let store = keyspace.store_at(WriterIdentity::new(0, 801), SystemClock, &registry).await;
    keyspace.sync(&store, &["1s:30d"]).await;
    let stage = Stage { resolution: 1, points: 30 * 86_400 };
    let end = stage.slot(now()) / 2000 * 2000;
    let first = end - 2_000_000;
    let rare = |slot: u32| Run { stage, ..run("rare", 0, slot, Aggregation::Average) };
    for slot in [first + 7, first + 1_000_000, end - 1] {
        store.write(&batch(rare(slot), &[1.0], &[1])).await.unwrap();
    }
    let whole = range(rare(first + 5), 2_000_000 - 5);
    let none = SlotRange { id: MetricId::of("none"), ..whole };
    let few = SlotRange { until: whole.from + 1, ..whole };
    let wanted = [first + 5..first + 2000, first + 1_000_000..first + 1_002_000, end - 2000..end].to_vec();
    for is_decisive in [false, true] {
        let parts = PointStore::occupied(&store, &[whole, none, few, whole], is_decisive).await.unwrap();
        let whole_few = std::iter::once(few.from..few.until).collect::<Vec<_>>();
        assert_eq!(parts, [wanted.clone(), Vec::new(), whole_few, wanted.clone()]);
    }
    keyspace.drop().await;
}

/// A deletion leaves a tombstone for each partition that has something.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_leaves_few_tombstones() {
    let Some(keyspace) = Keyspace::new("deletion") else { return };
    let registry = Registry::new();
    let store = keyspace.store_at(WriterIdentity::new(0, 800), SystemClock, &registry).await;
    keyspace.sync(&store, &["1s:1d,3600s:30d"]).await;
    let stage = Stage { resolution: 1, points: 86_400 };
    let raw = Run { stage, ..run("few", 0, stage.slot(now()) / 2000 * 2000 - 1000, Aggregation::Average) };
    store.write(&batch(raw, &[1.0; 1500], &[1; 1500])).await.unwrap();
    let hours = run("few", 1, HOURS.slot(now()) - 1, Aggregation::Average);
    store.write(&batch(hours, &[1.0], &[60])).await.unwrap();
    let deleted = || registry.value("plumbago_cassandra_partitions_deleted_total").unwrap_or(0.0);
    PointStore::delete(&store, &[(raw.id, vec![stage, HOURS]), (MetricId::of("none"), vec![stage])])
        .await
        .unwrap();
    assert_eq!(deleted(), 3.0, "two partitions of seconds and one of hours");
    assert!(
        read(&store, raw, 1500).await.0.iter().chain(&read(&store, hours, 1).await.0).all(|v| v.is_nan())
    );
    PointStore::delete(&store, &[(raw.id, vec![stage, HOURS])]).await.unwrap();
    assert_eq!(deleted(), 3.0, "nothing is left");

    // A row that arrives after its deletion.
    let late = Run { stage, ..run("on its way", 0, raw.first_slot, Aggregation::Average) };
    let at_us = i64::from(now()) * 1_000_000;
    RemotePoints::delete_at(&store, &[(late.id, vec![stage])], &[range(late, 1000)], at_us).await.unwrap();
    assert_eq!(deleted(), 4.0, "only the partition of the row");
    store.write_at(&batch(late, &[1.0; 1000], &[1; 1000]), at_us - 1).await.unwrap();
    assert!(read(&store, late, 1000).await.0.iter().all(|value| value.is_nan()));
    keyspace.drop().await;
}

pub async fn several_writers(keyspace: Keyspace) {
    let store = keyspace.store_of(WriterIdentity::new(0, 800)).await;
    keyspace.sync(&store, &[RETENTION]).await;
    let other = keyspace.store_of(WriterIdentity::new(0, 80)).await;
    let replica = keyspace.store_of(WriterIdentity::new(1, 800)).await;
    writers_merge_and_the_fullest_replica_wins(&store, &other, &replica).await;
    an_older_timestamp_never_wins(&store).await;
    long_counts_read_back(&store, &keyspace).await;
    late_windows_complete_those_of_others(&store, &other).await;
    all_daemons_see_the_same(&store, &other, &replica).await;
    windows_of_others_can_be_replaced(&store, &other).await;
    times_of_rows_are_known(&store, &other).await;
    foreign_rows_are_skipped(&store, &keyspace).await;
    late_points_carry_what_remains(&store, &keyspace).await;
    a_missing_table_keeps_its_points_waiting(&store).await;
    keyspace.drop().await;
}

async fn writers_merge_and_the_fullest_replica_wins(
    store: &CassandraStore,
    other: &CassandraStore,
    replica: &CassandraStore,
) {
    let slot = HOURS.slot(now()) - 10;
    for (method, whole, count) in [
        (Aggregation::Average, 30.0, 5),
        (Aggregation::Sum, 30.0, 5),
        (Aggregation::Min, 10.0, 5),
        (Aggregation::Max, 20.0, 5),
        // The value of the writer that wrote last.
        (Aggregation::Last, 20.0, 5),
        // Percentiles cannot be merged, so the row with the largest count is taken.
        (Aggregation::Percentile(500), 99.0, 4),
    ] {
        let run = run(&format!("merge.{method}"), 1, slot, method);
        store.write(&batch(run, &[10.0, 1.0], &[2, 5])).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        other.write(&batch(run, &[20.0], &[3])).await.unwrap();
        replica.write(&batch(run, &[99.0, 98.0], &[4, 6])).await.unwrap();
        assert_eq!(read(store, run, 2).await, (vec![whole, 98.0], vec![count, 6]), "{method}");
    }
}

async fn an_older_timestamp_never_wins(store: &CassandraStore) {
    let (raw, coarse) = (run("again", 0, RAW.slot(now()) - 5, Aggregation::Sum), HOURS.slot(now()) - 3);
    let coarse = run("again", 1, coarse, Aggregation::Sum);
    let at = store.writer().next_timestamp_us();
    for run in [raw, coarse] {
        store.write_at(&batch(run, &[1.0, 2.0], &[1, 1]), at).await.unwrap();
        store.write_at(&batch(run, &[10.0], &[7]), at + 1).await.unwrap();
        // The spool sends an older batch again.
        store.write_at(&batch(run, &[1.0, 2.0], &[1, 1]), at).await.unwrap();
    }
    assert_eq!(read(store, raw, 2).await.0, [10.0, 2.0]);
    assert_eq!(read(store, coarse, 2).await, (vec![10.0, 2.0], vec![7, 1]));
}

async fn long_counts_read_back(store: &CassandraStore, keyspace: &Keyspace) {
    let run = run("long", 1, HOURS.slot(now()) - 4, Aggregation::Average);
    store.write(&batch(run, &[86_400.5], &[86_400])).await.unwrap();
    assert_eq!(read(store, run, 1).await, (vec![86_400.5], vec![86_400]));
    let session = keyspace.session().await;
    let text = format!(
        "SELECT shard, count, value FROM \"{}\".datapoints_720p_3600s_aggr WHERE metric = ? AND time_start_ms = ?",
        keyspace.config.keyspace
    );
    let start = Partition::of(run.first_slot).start_ms(HOURS);
    let rows = session.query_unpaged(text, (Uuid::from_bytes(run.id.0), start)).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    let mut rows: Vec<(i16, i16, f64)> = rows.rows().unwrap().map(Result::unwrap).collect();
    rows.sort_by_key(|row| row.0);
    assert_eq!(rows, [(800, 32_767, 86_400.5), (801, 32_767, -0.0), (802, 20_866, -0.0)]);
}

async fn late_windows_complete_those_of_others(store: &CassandraStore, other: &CassandraStore) {
    let slot = HOURS.slot(now()) - 20;
    for (method, theirs, whole) in [
        (Aggregation::Sum, (50.0, 55), (60.0, 60)),
        // The other writer counted points twice, so our row corrects that.
        (Aggregation::Average, (75.0, 70), (60.0, 60)),
        (Aggregation::Max, (5.0, 55), (9.0, 60)),
        (Aggregation::Percentile(950), (5.0, 55), (9.0, 60)),
    ] {
        let run = run(&format!("late.{method}"), 1, slot, method);
        other.write(&batch(run, &[theirs.0, 1.0], &[theirs.1, 1])).await.unwrap();
        // An earlier row of this writer for the window must not be subtracted.
        store.write(&batch(run, &[3.0], &[2])).await.unwrap();
        let mut rows = batch(run, &[whole.0, f64::NAN], &[whole.1, 0]);
        PointStore::subtract_other_writers(store, &mut rows).await.unwrap();
        store.write(&rows).await.unwrap();
        let (values, counts) = read(store, run, 1).await;
        assert_eq!((values[0], counts[0]), whole, "{method}");
    }
}

/// A slot as the daemon of this store sees it.
async fn seen_by(store: &CassandraStore, run: Run) -> (f64, RowCount) {
    let request = ReadRequest { ranges: vec![range(run, 1)], ..Default::default() };
    let mut column = RemotePoints::read_own(store, &request).await.unwrap().remove(0);
    column.merge_writers(run.aggregation);
    (column.values[0], column.counts[0])
}

/// Checks all cases: who corrects whom, who wrote last, and two replicas with the same count.
async fn all_daemons_see_the_same(store: &CassandraStore, other: &CassandraStore, replica: &CassandraStore) {
    let slot = HOURS.slot(now()) - 30;
    let rows = [
        (Aggregation::Sum, (70.0, 70), (-10.0, -10), (99.0, 60), (60.0, 60)),
        (Aggregation::Average, (-3.0, 0), (60.0, 60), (99.0, 60), (57.0, 60)),
        (Aggregation::Last, (1.0, 5), (2.0, 5), (9.0, 10), (2.0, 10)),
        (Aggregation::Max, (1.0, 5), (2.0, 5), (9.0, 11), (9.0, 11)),
    ];
    for (method, ours, theirs, elsewhere, whole) in rows {
        let run = run(&format!("same.{method}"), 1, slot, method);
        for (writer, (value, count)) in [(store, ours), (other, theirs), (replica, elsewhere)] {
            let mut rows = WriteBatch::default();
            rows.push(run, &[value], Some(&[RowCount::new(count)]));
            writer.write(&rows).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
        for daemon in [store, other, replica] {
            assert_eq!(seen_by(daemon, run).await, (whole.0, RowCount::new(whole.1)), "{method}");
        }
        assert_eq!(read(store, run, 1).await, (vec![whole.0], vec![whole.1 as u32]), "{method}");
    }
    // A negative part of other writers is subtracted too, instead of being ignored.
    let run = run("same.late", 1, slot, Aggregation::Sum);
    let mut rows = WriteBatch::default();
    rows.push(run, &[-10.0], Some(&[RowCount::new(-10)]));
    other.write(&rows).await.unwrap();
    let mut rows = batch(run, &[60.0], &[60]);
    PointStore::subtract_other_writers(store, &mut rows).await.unwrap();
    assert_eq!((rows.values[0], rows.counts[0]), (70.0, RowCount::new(70)));
}

async fn windows_of_others_can_be_replaced(store: &CassandraStore, other: &CassandraStore) {
    let run = run("replace", 1, HOURS.slot(now()) - 40, Aggregation::Max);
    other.write(&batch(run, &[9.0, 8.0], &[70_000, 1])).await.unwrap();
    store.write(&batch(run, &[3.0], &[2])).await.unwrap();
    let rows = async || {
        let rows = store.read_rows(&[range(run, 2), range(run, 1)]).await.unwrap();
        let row = |(slot, row): &SlotRow| {
            (*slot - run.first_slot, row.writer.first_id(), row.row.value, row.row.count.get())
        };
        rows.iter().map(|rows| rows.iter().map(row).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let first = vec![(0, 80, 9.0, 32_767), (0, 80, 9.0, 32_767), (0, 80, 9.0, 4466), (0, 800, 3.0, 2)];
    assert_eq!(rows().await, [[first.clone(), vec![(1, 80, 8.0, 1)]].concat(), first]);
    let writer = SharedWindows::identity(other);
    store.write_as(writer, &batch(run, &[5.0], &[70_000])).await.unwrap();
    assert_eq!(read(store, run, 2).await, (vec![5.0, 8.0], vec![70_002, 1]));
    // A row that the writer computes later wins.
    other.write(&batch(run, &[7.0], &[70_000])).await.unwrap();
    assert_eq!(read(store, run, 1).await, (vec![7.0], vec![70_002]));
}

/// Raw rows belong to all writers. Of windows, only the own ones count.
async fn times_of_rows_are_known(store: &CassandraStore, other: &CassandraStore) {
    let raw = run("times", 0, RAW.slot(now()) - 5, Aggregation::Sum);
    let coarse = run("times", 1, HOURS.slot(now()) - 5, Aggregation::Sum);
    let at = i64::from(now()) * 1_000_000;
    for run in [raw, coarse] {
        store.writer().write_at(&batch(run, &[1.0, f64::NAN, 1.0], &[1, 0, 1]), at).await.unwrap();
        other.writer().write_at(&batch(run, &[2.0, 2.0], &[1, 1]), at + 1).await.unwrap();
    }
    let times = store.written_at(&[range(raw, 4), range(coarse, 4)]).await.unwrap();
    assert_eq!(times, [vec![at + 1, at + 1, at, i64::MIN], vec![at, i64::MIN, at, i64::MIN]]);
}

async fn foreign_rows_are_skipped(store: &CassandraStore, keyspace: &Keyspace) {
    // All slots must be in the same partition.
    let slot = RAW.slot(now()) - 20;
    let slot = slot - slot.saturating_sub(slot / 2000 * 2000 + 1990);
    let run = run("foreign", 0, slot, Aggregation::Average);
    let coarse = Run { stage: HOURS, stage_index: 1, first_slot: HOURS.slot(now()) - 2, ..run };
    store.write(&batch(run, &[1.0, 2.0], &[1, 1])).await.unwrap();
    store.write(&batch(coarse, &[3.0], &[4])).await.unwrap();
    let session = keyspace.session().await;
    let name = &keyspace.config.keyspace;
    let id = Uuid::from_bytes(run.id.0);
    let start = Partition::of(run.first_slot).start_ms(RAW);
    // One row without a value, and one with an offset that no slot has.
    for (text, at) in
        [("metric, time_start_ms, offset", offset(run.first_slot + 2)), ("metric, time_start_ms, offset", -3)]
    {
        let text = format!("INSERT INTO \"{name}\".datapoints_1440p_60s_0 ({text}) VALUES (?, ?, ?)");
        session.query_unpaged(text, (id, start, at)).await.unwrap();
    }
    let text = format!(
        "INSERT INTO \"{name}\".datapoints_720p_3600s_aggr (metric, time_start_ms, offset, shard, value) \
         VALUES (?, ?, ?, ?, 5.0)"
    );
    let start = Partition::of(coarse.first_slot).start_ms(HOURS);
    session.query_unpaged(text, (id, start, offset(coarse.first_slot), 9i16)).await.unwrap();
    assert_eq!(read(store, run, 4).await.0[..2], [1.0, 2.0]);
    assert_eq!(read(store, coarse, 1).await, (vec![3.0], vec![4]));
}

async fn late_points_carry_what_remains(store: &CassandraStore, keyspace: &Keyspace) {
    let newest = RAW.slot(now());
    let fresh = run("ttl", 0, newest - 3, Aggregation::Average);
    let late = Run { first_slot: newest - 1000, ..fresh };
    let gone = Run { first_slot: newest - 1500, ..fresh };
    for run in [fresh, late, gone] {
        store.write(&batch(run, &[1.0], &[1])).await.unwrap();
    }
    assert!(read(store, gone, 1).await.0[0].is_nan());
    let session = keyspace.session().await;
    let text = format!(
        "SELECT TTL(value) FROM \"{}\".datapoints_1440p_60s_0 WHERE metric = ? AND time_start_ms = ? AND offset = ?",
        keyspace.config.keyspace
    );
    let mut ttls = Vec::new();
    for run in [fresh, late] {
        let start = Partition::of(run.first_slot).start_ms(RAW);
        let values = (Uuid::from_bytes(run.id.0), start, offset(run.first_slot));
        let rows = session.query_unpaged(text.clone(), values).await.unwrap().into_rows_result().unwrap();
        ttls.push(rows.first_row::<(i32,)>().unwrap().0);
    }
    assert!((87_000..=87_300).contains(&ttls[0]), "{ttls:?}");
    assert!((27_000..=27_360).contains(&ttls[1]), "{ttls:?}");
}

async fn a_missing_table_keeps_its_points_waiting(store: &CassandraStore) {
    let there = run("there", 0, RAW.slot(now()) - 1, Aggregation::Average);
    let stage = Stage { resolution: 7, points: 1000 };
    let missing = Run { stage, first_slot: stage.slot(now()), ..there };
    let mut rows = batch(missing, &[1.0], &[1]);
    rows.push(there, &[2.0], None);
    let error = store.write(&rows).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("datapoints_1000p_7s_0") && error.to_string().contains("syncdb"),
        "{error}"
    );
    assert_eq!(store.writer().refused_tables().len(), 1);
    let refusal = store.writer().write_runs_at(&rows, store.writer().next_timestamp_us()).await.unwrap_err();
    assert_eq!((refusal.error.kind, refusal.runs.as_slice()), (ErrorKind::Invalid, &[0][..]));
    assert_eq!(read(store, there, 1).await.0, [2.0], "the other rows are written");
    assert!(read(store, missing, 1).await.0[0].is_nan(), "a table that is not there holds nothing");
}
