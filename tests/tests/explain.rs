//! `/plumbago/explain` agrees with `/render`: over random retentions, points and ranges, for points in memory, in the
//! embedded store, in the spool and in Cassandra's tables.

use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

const NOW: i64 = 1_700_000_040;
const DAY: i64 = 86_400;
const RETENTIONS: [&str; 5] =
    ["10s:6h,60s:7d,1h:2y", "60s:1d", "60s:2d,15m:30d", "1s:1h,30s:1d,5m:10d", "5m:7d,1h:60d"];

/// Settings for a daemon whose clock begins twenty days before `end`.
fn setup(end: i64) -> Setup {
    let mut setup = Setup::new();
    let rule = |(number, retention): (usize, &&str)| {
        format!("[r{number}]\npattern = ^r{number}\\.\nretentions = {retention}\n\n")
    };
    setup.schemas(&RETENTIONS.iter().enumerate().map(rule).collect::<String>());
    let method = |(name, method): (&str, &str)| {
        format!("[{name}]\npattern = \\.{name}$\nxFilesFactor = 0.5\naggregationMethod = {method}\n\n")
    };
    setup.aggregation(
        &[("sum", "sum"), ("last", "last"), ("p90", "p90")].into_iter().map(method).collect::<String>(),
    );
    setup.clock(end - 20 * DAY).set("admin.listen", "127.0.0.1:0");
    setup
}

fn names() -> Vec<String> {
    let of = |number: usize| ["sum", "last", "p90"].map(|method| format!("r{number}.{method}"));
    (0..RETENTIONS.len()).flat_map(of).collect()
}

fn explained(daemon: &Daemon, target: &str, from: i64, until: i64, now: i64) -> Value {
    let (from, until, now) = (from.to_string(), until.to_string(), now.to_string());
    let url = http::url(
        "/plumbago/explain",
        &[("target", target), ("from", &from), ("until", &until), ("now", &now)],
    );
    let answer = daemon.get(&url);
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Sends points of the twenty days before `end`, with flushes in between.
fn fill(daemon: &Daemon, random: &mut StdRng, end: i64) {
    let names = names();
    let mut now = end - 20 * DAY;
    let mut sent = 0;
    while now < end {
        let step = [10, 60, 600, 7200, DAY][random.random_range(0..5)];
        now = (now + random.random_range(1..=step)).min(end);
        daemon.set_clock(now);
        let mut points = Vec::new();
        for name in &names {
            for _ in 0..random.random_range(0..8) {
                let time = now - random.random_range(0..600);
                points.push(Point::new(name.clone(), time, f64::from(random.random_range(0..100))));
            }
        }
        sent += points.len() as u64;
        daemon.put(&points);
        daemon.ledger_at(sent);
        if random.random_range(0..4) == 0 {
            daemon.flush();
        }
    }
}

/// Compares the answers for random ranges. Returns the number of slots from each place.
fn compare(daemon: &Daemon, random: &mut StdRng, now: i64) -> [u64; 5] {
    const PLACES: [&str; 5] = ["head", "spool", "peers", "store", "hidden"];
    let mut found = [0; 5];
    for _ in 0..150 {
        let names = names();
        let name = &names[random.random_range(0..names.len())];
        let back = [300, 7200, DAY, 25 * DAY][random.random_range(0..4)];
        let from = now - random.random_range(2..back);
        let until = from + random.random_range(1..=now - from);
        let answer = explained(daemon, name, from, until, now);
        let rendered = daemon.render(name, from, until, now);
        let what = format!("{name} ({from}, {until}] at {now}: {answer}");
        let metrics = answer["fetches"][0]["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), rendered.len(), "{what}");
        let (Some(metric), Some(series)) = (metrics.first(), rendered.first()) else { continue };
        let known = series.known().len() as u64;
        assert_eq!(metric["known"], known, "{what}");
        assert_eq!(metric["slots"], series.slots.len(), "{what}");
        assert_eq!(answer["targets"][0]["known"], known, "{what}");
        if series.slots.len() > 1 {
            assert_eq!(metric["step"], series.step, "{what}");
        }
        for (sum, place) in found.iter_mut().zip(PLACES) {
            *sum += metric[place].as_u64().unwrap();
        }
    }
    println!("slots from {PLACES:?}: {found:?}");
    found
}

#[test]
fn agrees_with_render_and_the_reader() {
    let seed = number("PLUMBAGO_SEED").unwrap_or(20_261_125);
    println!("seed {seed} (PLUMBAGO_SEED)");
    let mut random = StdRng::seed_from_u64(seed);
    let setup = setup(NOW);
    let daemon = setup.start();
    fill(&daemon, &mut random, NOW);
    let [head, spool, peers, store, hidden] = compare(&daemon, &mut random, NOW);
    assert!(head > 0 && store > 0 && hidden > 0);
    assert_eq!((spool, peers), (0, 0), "the embedded store has neither");
    daemon.stop_well();
    let daemon = setup.start();
    daemon.set_clock(NOW);
    let [_, _, _, store, _] = compare(&daemon, &mut random, NOW);
    assert!(store > 0);
    daemon.stop_well();
}

/// Targets that functions build from names are shown below the call that built them, with their fetches.
#[test]
fn made_targets_are_explained() {
    let setup = setup(NOW);
    let daemon = setup.start();
    daemon.set_clock(NOW);
    let points = |name: &'static str| {
        let times = (0..30).filter(move |minute| name == "r1.sum" || minute % 3 == 0);
        times.map(move |minute| Point::new(name, NOW - 60 * minute, minute as f64))
    };
    daemon.put(&["r1.sum", "r1.last"].into_iter().flat_map(points).collect::<Vec<_>>());
    daemon.wait_names(2);
    let from = NOW - 1800;
    let fetches = |answer: &Value, made: &Value| -> Vec<Value> {
        let numbers = made["fetches"].as_array().unwrap().iter();
        numbers.map(|number| answer["fetches"][number.as_u64().unwrap() as usize].clone()).collect()
    };

    let target = "useSeriesAbove(r1.sum,5,'sum','last')";
    let (answer, rendered) =
        (explained(&daemon, target, from, NOW, NOW), daemon.render(target, from, NOW, NOW));
    let call = &answer["targets"][0];
    assert_eq!((call["made"].as_array().unwrap().len(), &call["more_made"]), (1, &0.into()), "{answer}");
    let made = &call["made"][0];
    assert_eq!((&made["text"], &made["plots"]), (&"group(r1.last)".into(), &true.into()));
    let known = rendered[0].known().len();
    assert!(known > 0 && known < 30, "{known}");
    assert_eq!((&made["known"], &call["known"]), (&known.into(), &known.into()), "{answer}");
    let of_made = fetches(&answer, made);
    assert_eq!(of_made.len(), 1, "{answer}");
    let metric = &of_made[0]["metrics"][0];
    assert_eq!((&metric["name"], &metric["stage"]), (&"r1.last".into(), &0.into()));
    assert_eq!(metric["known"], known, "{answer}");
    let names = &call["arguments"][0];
    assert_eq!((&names["known"], &names["made"]), (&30.into(), &Value::Null), "{answer}");

    let target = "applyByNode(r1.*,0,'diffSeries(%.sum,%.last)')";
    let (answer, rendered) =
        (explained(&daemon, target, from, NOW, NOW), daemon.render(target, from, NOW, NOW));
    let made = &answer["targets"][0]["made"][0];
    assert_eq!(made["text"], "diffSeries(r1.sum,r1.last)", "{answer}");
    assert_eq!(made["known"], rendered[0].known().len(), "{answer}");
    let of_made = fetches(&answer, made);
    let expressions: Vec<_> = of_made.iter().map(|fetch| &fetch["expression"]).collect();
    assert_eq!(expressions, ["r1.sum", "r1.last"], "{answer}");
    daemon.stop_well();
}

#[test]
fn points_in_the_spool_and_on_the_server_are_told_apart() {
    const KEYSPACE: &str = "explain";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut setup = setup(now);
    setup.on_cassandra(&server.contact_point(), KEYSPACE);
    let mut random = StdRng::seed_from_u64(7);
    let daemon = setup.start();
    fill(&daemon, &mut random, now);
    let [head, ..] = compare(&daemon, &mut random, now);
    assert!(head > 0);
    daemon.flush();
    wait_until("the rows to be sent", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
    let [_, spool, peers, _, _] = compare(&daemon, &mut random, now);
    assert!(spool > 0, "rows that were acknowledged a moment ago are still read from the spool");
    assert_eq!(peers, 0);
    daemon.stop_well();
    // A daemon with another data directory: everything that it shows comes from the server.
    let other = setup.path().join("other");
    setup.set("data_dir", other.to_str().unwrap()).clock(now);
    let daemon = setup.start();
    daemon.wait_names(names().len());
    let [_, spool, peers, store, _] = compare(&daemon, &mut random, now);
    assert!(store > 0);
    assert_eq!((spool, peers), (0, 0));
    daemon.stop_well();
}
