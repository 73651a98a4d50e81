use std::collections::BTreeSet;

use plumbago_model::Stage;

use super::*;

const NOW: i64 = 1_700_000_000;
const RAW: Stage = Stage { resolution: 60, points: 10_080 };
const DAY: Stage = Stage { resolution: 86_400, points: 3650 };

fn run(stage: Stage, stage_index: u8, first_slot: u32) -> Run {
    Run {
        id: MetricId::of("a.b"),
        stage,
        stage_index,
        aggregation: Aggregation::Average,
        first_slot,
        len: 0,
        at: 0,
        whole: false,
    }
}

fn plan(batch: &WriteBatch, rows_per_request: u32) -> WritePlan {
    let config = Config { rows_per_request, ..Config::default() };
    Planner::new(&config, WriterIdentity::new(1, 16), NOW).plan(batch)
}

#[test]
fn a_request_never_spans_partitions() {
    let mut batch = WriteBatch::default();
    let slot = RAW.slot(NOW as u32) / 2000 * 2000 - 3;
    batch.push(run(RAW, 0, slot), &[1.0, f64::NAN, 3.0, 4.0, 5.0], None);
    let plan = plan(&batch, 500);
    let offsets: Vec<(u32, Vec<i16>)> = plan
        .requests
        .iter()
        .map(|r| (r.partition.0, r.rows.iter().map(|row| row.offset).collect()))
        .collect();
    let part = slot / 2000;
    assert_eq!(offsets, [(part, vec![1997, 1999]), (part + 1, vec![0, 1])]);
    assert_eq!(plan.expired, 0);
}

#[test]
fn a_slot_comes_once_and_the_last_run_wins() {
    let slot = RAW.slot(NOW as u32) / 2000 * 2000 + 10;
    let mut batch = WriteBatch::default();
    batch.push(run(RAW, 0, slot), &[1.0, 2.0, 3.0, 4.0], None);
    batch.push(run(RAW, 0, slot + 1), &[20.0, f64::NAN], None);
    batch.push(run(RAW, 0, slot), &[10.0], None);
    let requests = plan(&batch, 500).requests;
    assert_eq!(requests.len(), 1);
    let rows: Vec<(i16, f64)> = requests[0].rows.iter().map(|row| (row.offset, row.value)).collect();
    assert_eq!(rows, [(10, 10.0), (11, 20.0), (12, 3.0), (13, 4.0)]);
}

#[test]
fn long_partitions_are_cut() {
    let slot = RAW.slot(NOW as u32) / 2000 * 2000;
    let mut batch = WriteBatch::default();
    batch.push(run(RAW, 0, slot), &[0.5; 250], None);
    let sizes: Vec<usize> = plan(&batch, 100).requests.iter().map(|r| r.rows.len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
}

#[test]
fn counts_that_do_not_fit_are_split_over_our_ids() {
    let slot = DAY.slot(NOW as u32) - 1;
    let mut batch = WriteBatch::default();
    batch.push(run(DAY, 1, slot), &[86_400.0], Some(&[RowCount::new(86_400)]));
    let rows = plan(&batch, 500).requests.remove(0).rows;
    let cells: Vec<(i16, f64, i16)> = rows.iter().map(|row| (row.writer_key, row.value, row.count)).collect();
    let first = 16_384 + 16;
    assert_eq!(cells, [(first, 86_400.0, 32_767), (first + 1, -0.0, 32_767), (first + 2, -0.0, 20_866)]);
    let mut batch = WriteBatch::default();
    batch.push(
        Run { aggregation: Aggregation::Max, ..run(DAY, 1, slot) },
        &[7.0],
        Some(&[RowCount::new(40_000)]),
    );
    let rows = plan(&batch, 500).requests.remove(0).rows;
    assert_eq!(rows.iter().map(|row| row.value).collect::<Vec<_>>(), [7.0, 7.0]);
}

#[test]
fn only_late_points_carry_a_ttl() {
    let now_slot = RAW.slot(NOW as u32);
    let ttl_of = |age_slots: u32| {
        let mut batch = WriteBatch::default();
        batch.push(run(RAW, 0, now_slot - age_slots), &[1.0], None);
        let plan = plan(&batch, 500);
        (plan.requests.first().map(|request| request.rows[0].ttl), plan.expired)
    };
    // The compaction window of this table is three hours.
    assert_eq!(ttl_of(0), (Some(None), 0));
    assert_eq!(ttl_of(180), (Some(None), 0));
    let start = i64::from(now_slot - 1000) * 60;
    assert_eq!(ttl_of(1000), (Some(Some((start + 605_700 - NOW) as i32)), 0));
    assert_eq!(ttl_of(10_080 + 16), (None, 1));
}

#[test]
fn a_ttl_beyond_the_servers_calendar_is_cut() {
    let long = Stage { resolution: 86_400, points: 36_500 };
    let mut batch = WriteBatch::default();
    batch.push(run(long, 1, long.slot(NOW as u32) - 1), &[1.0], Some(&[RowCount::ONE]));
    let row = plan(&batch, 500).requests[0].rows[0];
    assert_eq!(row.ttl, Some((2_147_483_646 - 86_400 - NOW) as i32));
}

#[test]
fn the_real_rows_of_biggraphite_lie_where_we_put_them() {
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/biggraphite-rows.json")).unwrap();
    let accessors = &fixture["accessors"];
    let ids: Vec<uuid::Uuid> = fixture["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["id"].as_str().unwrap().parse().unwrap())
        .collect();
    // (table, metric, time_start_ms, offset, shard) of all rows that BigGraphite's downsampler emitted.
    let mut ours = BTreeSet::new();
    for feed in fixture["feeds"].as_array().unwrap() {
        let accessor = &accessors[feed["accessor"].as_str().unwrap()];
        let (replica, writer) =
            (accessor["replica"].as_u64().unwrap() as u8, accessor["writer"].as_u64().unwrap() as u16);
        let id = ids[feed["metric"].as_u64().unwrap() as usize];
        for point in feed["downsampled"].as_array().unwrap() {
            let text = point[3].as_str().unwrap();
            let (stage, kind) = text.split_once('_').unwrap();
            let (points, resolution) = stage.trim_end_matches('s').split_once('*').unwrap();
            let stage = Stage { resolution: resolution.parse().unwrap(), points: points.parse().unwrap() };
            let table = Table { stage, coarse: kind == "aggr" };
            let slot = stage.slot(point[0].as_u64().unwrap() as u32);
            let key = |writer: u16| {
                let identity = WriterIdentity::new(replica, writer);
                layout::writer_key(identity, writer - identity.first_id())
            };
            let shard = if table.coarse { key(writer) } else { 0 };
            let start = Partition::of(slot).start_ms(stage);
            ours.insert((table.name(), id.to_string(), start, layout::offset(slot), shard));
        }
    }
    let mut theirs = BTreeSet::new();
    for (table, rows) in fixture["tables"]["biggraphite"].as_object().unwrap() {
        for row in rows.as_array().unwrap() {
            let number = |key: &str| row[key].as_i64().unwrap_or(0);
            theirs.insert((
                table.clone(),
                row["metric"].as_str().unwrap().to_owned(),
                number("time_start_ms"),
                number("offset") as i16,
                number("shard") as i16,
            ));
        }
    }
    assert!(ours.len() > 100);
    // BigGraphite delays windows of an hour or more, so the last ones never reached its table.
    let lost = ours.difference(&theirs).filter(|row| row.0 != "datapoints_48p_3600s_aggr");
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&_>::new(), "theirs lack");
    assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), Vec::<&_>::new(), "ours lack");
}

#[test]
fn reads_of_biggraphite_come_out_of_its_rows() {
    use plumbago_store::{RowCount, SlotWindow, WindowRow, WriterRow};
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/biggraphite-rows.json")).unwrap();
    let metrics = fixture["metrics"].as_array().unwrap();
    let mut compared = 0;
    for read in fixture["reads"].as_array().unwrap() {
        let metric = &metrics[read["metric"].as_u64().unwrap() as usize];
        let method: Aggregation = metric["aggregator"].as_str().unwrap().parse().unwrap();
        let text = read["stage"].as_str().unwrap();
        let Some(stage) = text.strip_suffix("s_aggr") else { continue };
        let (points, resolution) = stage.split_once('*').unwrap();
        let stage = Stage { resolution: resolution.parse().unwrap(), points: points.parse().unwrap() };
        let table = Table { stage, coarse: true }.name();
        let rows = fixture["tables"]["biggraphite"][&table].as_array().unwrap();
        for point in read["points"].as_array().unwrap() {
            let slot = stage.slot(point[0].as_u64().unwrap() as u32);
            let (start, offset) = (Partition::of(slot).start_ms(stage), i64::from(layout::offset(slot)));
            let mut whole = SlotWindow::default();
            for row in rows.iter().filter(|row| {
                row["metric"] == metric["id"] && row["time_start_ms"] == start && row["offset"] == offset
            }) {
                let key = row["shard"].as_i64().unwrap() as i16;
                let (writer, part) = layout::writer_of(key);
                let value = row["value"].as_f64().unwrap_or(f64::NAN);
                let count = RowCount::new(row["count"].as_i64().unwrap() as i32);
                // BigGraphite takes the value with the highest `shard`. Let that row be the one written last.
                let written_us = i64::from(key);
                let row = WindowRow { value, count };
                whole.add(method, WriterRow { writer, part, row, written_us, is_full: false });
            }
            let shown = whole.window().map_or(f64::NAN, |window| method.finish(window, 1));
            let wanted = point[1].as_f64().unwrap_or(f64::NAN);
            assert!(shown == wanted || shown.is_nan() && wanted.is_nan(), "{table} {slot}: {shown} {wanted}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

proptest::proptest! {
    /// All rows of a request are in the same partition, and no two of them have the same key.
    #[test]
    fn requests_are_of_one_partition(
        runs in proptest::collection::vec((0u8..2, 0u32..5000, 1usize..300, 0u32..100_000), 1..12),
    ) {
        let mut batch = WriteBatch::default();
        let mut wanted = BTreeSet::new();
        for (stage_index, back, len, count) in runs {
            let stage = if stage_index == 0 { RAW } else { Stage { resolution: 3600, points: 8760 } };
            let first = stage.slot(NOW as u32) - back;
            batch.push(run(stage, stage_index, first), &vec![1.0; len], Some(&vec![RowCount::from(count); len]));
            wanted.extend((first..first + len as u32).map(|slot| (stage_index, slot)));
        }
        let plan = plan(&batch, 200);
        proptest::prop_assert_eq!(plan.expired, 0);
        let mut written = BTreeSet::new();
        let mut cells = BTreeSet::new();
        for request in &plan.requests {
            proptest::prop_assert!(!request.rows.is_empty() && request.rows.len() <= 200);
            for row in &request.rows {
                proptest::prop_assert!((0..2000).contains(&row.offset));
                let slot = request.partition.first_slot() + row.offset as u32;
                written.insert((u8::from(request.table.coarse), slot));
                proptest::prop_assert!(cells.insert((request.table, slot, row.writer_key)), "a cell comes once");
            }
        }
        proptest::prop_assert_eq!(written, wanted);
    }
}
