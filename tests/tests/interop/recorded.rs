//! Sends the calls of a fixture, recorded with the real BigGraphite, to the daemon, which must write the same rows.
//!
//! Each accessor of the fixture becomes a daemon with the accessor's replica id and writer id, on the clock of the
//! points. All differences are listed in [`Expected`].

use std::collections::BTreeMap;

use plumbago_cassandra_node::server;
use plumbago_model::MetricId;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use super::beside::{Beside, retention};
use super::fixture::{
    Row, array, bits, fixture, float, metric, recorded_row, sorted, stored_rows, text, uuid,
};

const KEYSPACE: &str = "bg_recorded";
/// Our writers own eight ids each. Those of the fixture are 1 to 3.
const IDS: i64 = 8;
/// A point that BigGraphite drops because it is more than 20 slots late.
const LATE: (i64, f64) = (1_700_039_984, 999.0);

const SCHEMAS: &str = "[hours]\npattern = (maximum|last)$\nretentions = 1s:1m,1m:2h,1h:2d\n\
                       [minutes]\npattern = .*\nretentions = 1s:1m,1m:1d\n";
/// The aggregation rules, with xFilesFactor as BigGraphite stored it, which is not always the given value.
const AGGREGATION: &str = "[sum]\npattern = (total|x_y)$\naggregationMethod = sum\n\
                           [min]\npattern = minimum$\naggregationMethod = min\nxFilesFactor = 0.25\n\
                           [max]\npattern = maximum$\naggregationMethod = max\nxFilesFactor = 1\n\
                           [last]\npattern = last$\naggregationMethod = last\nxFilesFactor = 0.33\n";

#[test]
fn recorded_calls_give_the_recorded_rows() {
    let Some(server) = server::for_tests() else { return };
    let fixture = without_blanks(&fixture());
    let retentions: Vec<&str> = array(&fixture["metrics"]).iter().map(|m| text(&m["retention"])).collect();
    let Some(beside) = Beside::made_by_us(KEYSPACE, &retentions) else { return };
    for accessor in ["A", "B", "C"] {
        feed(&beside, &fixture, accessor);
    }
    let expected = Expected::of(&fixture);
    assert_eq!(expected.late, 5);
    for (keyspace, tables) in &expected.tables {
        for (table, rows) in tables {
            let stored = stored_rows(server, &keyspace.replace("biggraphite", KEYSPACE), table);
            assert_eq!(sorted(stored), sorted(rows.clone()), "{table}");
        }
    }
}

/// Replaces a name that contains a blank, which our listeners refuse.
fn without_blanks(fixture: &Value) -> Value {
    let (theirs, ours) = ("fixture.café.x y", "fixture.café.x_y");
    let id = |name| uuid(&MetricId::of(name).0);
    let components = |name: &str| format!("\"{}\"", name.rsplit_once('.').unwrap().1);
    let text = fixture.to_string().replace(theirs, ours).replace(&id(theirs), &id(ours));
    serde_json::from_str(&text.replace(&components(theirs), &components(ours))).unwrap()
}

/// A call of an accessor. Its time is that of the newest point of the metric.
struct Call<'a> {
    now: i64,
    name: &'a str,
    points: Vec<(i64, f64)>,
}

/// Calls in the order of time. The calls of a metric stay in order.
fn calls<'a>(fixture: &'a Value, accessor: &str) -> Vec<Call<'a>> {
    let mut newest = BTreeMap::new();
    let call = |feed: &'a Value| {
        let name = text(&fixture["metrics"][feed["metric"].as_u64().unwrap() as usize]["given"]);
        let mut points: Vec<(i64, f64)> =
            array(&feed["points"]).iter().map(|p| (p[0].as_i64().unwrap(), float(&p[1]))).collect();
        // BigGraphite sorts the points of a call, so that the largest point of a slot is the last.
        points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let now = newest.entry(name).or_insert(0);
        *now = points.iter().map(|(time, _)| *time).fold(*now, i64::max);
        Call { now: *now, name, points }
    };
    let of_accessor = array(&fixture["feeds"]).iter().filter(|feed| feed["accessor"] == accessor);
    let mut calls: Vec<Call<'_>> = of_accessor.map(call).collect();
    calls.sort_by_key(|call| call.now);
    calls
}

/// Runs a daemon in place of an accessor. All points of one time are on the server before the clock advances.
fn feed(beside: &Beside, fixture: &Value, accessor: &str) {
    let calls = calls(fixture, accessor);
    let setup = setup(beside, &fixture["accessors"][accessor], calls[0].now);
    let daemon = setup.start();
    if accessor != "A" {
        daemon.wait_names(array(&fixture["metrics"]).len());
    }
    for calls in calls.chunk_by(|a, b| a.now == b.now) {
        daemon.set_clock(calls[0].now);
        for call in calls {
            let points = call.points.iter().map(|(time, value)| Point::new(call.name, *time, *value));
            daemon.put(&points.collect::<Vec<_>>());
        }
        sent(&daemon);
    }
    daemon.stop_well();
}

fn setup(beside: &Beside, accessor: &Value, now: i64) -> Setup {
    let (replica, writer) = (accessor["replica"].as_i64().unwrap(), accessor["writer"].as_i64().unwrap());
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", &beside.config.keyspace);
    setup.set("store.cassandra.contact_points", &beside.config.contact_points[0]);
    setup.set("store.cassandra.replica", &replica.to_string());
    setup.set("store.cassandra.request_timeout", "60s").set("spool.linger", "100ms");
    setup.schemas(SCHEMAS).aggregation(AGGREGATION).clock(now);
    // The daemon keeps the writer id in its file unless the file is a copy.
    let path = setup.data().join("writer-id");
    std::fs::create_dir_all(setup.data()).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let (id, instance) = (writer * IDS, format!("00000000-0000-4000-8000-00000000000{writer}"));
    let kept =
        format!("plumbago-writer 1\nreplica {replica}\nwriter {id}\ninstance {instance}\ninode {inode}\n");
    std::fs::write(&path, kept).unwrap();
    setup
}

/// Waits until the server has acknowledged all rows that the daemon has flushed.
fn sent(daemon: &Daemon) {
    daemon.flush();
    wait_until("the spool to be empty", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
}

/// The rows of the fixture as our daemon must write them.
struct Expected {
    /// Rows by keyspace and table.
    tables: BTreeMap<String, BTreeMap<String, Vec<Row>>>,
    /// Number of points that only our daemon stores.
    late: usize,
}

impl Expected {
    fn of(fixture: &Value) -> Self {
        let mut tables = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (keyspace, recorded) in fixture["tables"].as_object().unwrap() {
            for (table, rows) in recorded.as_object().unwrap() {
                let rows = array(rows).iter().map(recorded_row).map(with_our_shard).collect();
                tables.entry(keyspace.clone()).or_default().insert(table.clone(), rows);
            }
        }
        let mut expected = Self { tables, late: 0 };
        expected.hours_are_not_held_back(fixture);
        expected.no_row_says_nothing();
        for feed in array(&fixture["feeds"]) {
            let points = array(&feed["points"]);
            if points.iter().any(|p| p[0] == LATE.0 && float(&p[1]) == LATE.1) {
                expected.late_point_counts(&fixture["metrics"][feed["metric"].as_u64().unwrap() as usize]);
            }
        }
        expected
    }

    fn rows(&mut self, table: &str) -> &mut Vec<Row> {
        self.tables.get_mut("biggraphite").unwrap().get_mut(table).unwrap()
    }

    /// BigGraphite keeps windows of an hour and more in memory, and the last ones never reached the server. The
    /// expected rows are those that its downsampler emitted.
    fn hours_are_not_held_back(&mut self, fixture: &Value) {
        let mut hours = BTreeMap::new();
        for feed in array(&fixture["feeds"]) {
            let (metric, accessor) = (&feed["metric"], text(&feed["accessor"]));
            for made in array(&feed["downsampled"]).iter().filter(|made| made[3] == "48*3600s_aggr") {
                let key = (metric.as_u64().unwrap(), accessor, made[0].as_i64().unwrap());
                hours.insert(key, (float(&made[1]), made[2].as_i64().unwrap()));
            }
        }
        let row = |((metric, accessor, time), (value, count)): (&(u64, &str, i64), &(f64, i64))| {
            let ids = &fixture["accessors"][*accessor];
            let shard = (ids["replica"].as_i64().unwrap() << 14) | ids["writer"].as_i64().unwrap();
            let id = text(&fixture["metrics"][*metric as usize]["id"]);
            with_our_shard(at(id, *time, 3600, &[("shard", shard), ("count", *count)], *value))
        };
        let hours: Vec<Row> = hours.iter().map(row).collect();
        let recorded = std::mem::replace(self.rows("datapoints_48p_3600s_aggr"), hours.clone());
        assert!(!recorded.is_empty() && recorded.iter().all(|row| hours.contains(row)), "{recorded:?}");
    }

    /// Removes NaN values, which BigGraphite stores and our daemon refuses.
    fn no_row_says_nothing(&mut self) {
        let rows = self.rows("datapoints_60p_1s_0");
        let before = rows.len();
        rows.retain(|row| row["value"] != "NaN");
        assert_eq!(before - rows.len(), 5);
    }

    /// Adds the late point to stage 0 and to its windows.
    fn late_point_counts(&mut self, recorded: &Value) {
        let (metric, id) = (metric(recorded), text(&recorded["id"]));
        let (time, late) = LATE;
        self.late += 1;
        self.rows("datapoints_60p_1s_0").push(at(id, time, 1, &[], late));
        for stage in &retention(&metric.retention).stages()[1..] {
            let table = format!("datapoints_{}p_{}s_aggr", stage.points, stage.resolution);
            let window = with_our_shard(at(id, time, i64::from(stage.resolution), &[("shard", 1)], 0.0));
            let is_it = |row: &&mut Row| {
                ["metric", "time_start_ms", "offset", "shard"].iter().all(|key| row[*key] == window[*key])
            };
            let row = self.rows(&table).iter_mut().find(is_it).unwrap();
            let (value, count): (f64, i64) = (row["value"].parse().unwrap(), row["count"].parse().unwrap());
            let value = match metric.aggregator.as_str() {
                "average" | "total" => value + late,
                "maximum" => late,
                // The point is neither the smallest nor the last of its window.
                _ => value,
            };
            row.insert("value".to_owned(), bits(value));
            row.insert("count".to_owned(), (count + 1).to_string());
        }
    }
}

/// A row with the key of its partition. A partition has 2000 slots.
fn at(id: &str, time: i64, resolution: i64, numbers: &[(&str, i64)], value: f64) -> Row {
    let (partition, offset) = (time / resolution / 2000, time / resolution % 2000);
    let mut row = Row::from([("metric".to_owned(), id.to_owned()), ("value".to_owned(), bits(value))]);
    let place = [("time_start_ms", partition * 2000 * resolution * 1000), ("offset", offset)];
    let numbers = numbers.iter().chain(&place);
    row.extend(numbers.map(|(name, number)| ((*name).to_owned(), number.to_string())));
    row
}

/// The column `shard` of the same writer in our numbering.
fn with_our_shard(mut row: Row) -> Row {
    if let Some(shard) = row.get_mut("shard") {
        let theirs: i64 = shard.parse().unwrap();
        *shard = ((theirs & 0x4000) | ((theirs & 0x3fff) * IDS)).to_string();
    }
    row
}
