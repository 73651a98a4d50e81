//! `plumbago repair windows` on a real Cassandra, after three kinds of failure: a writer's data directory is
//! lost, points reached two writers of one replica, and another writer replaced values. Afterwards every
//! window equals the model.

use std::collections::BTreeMap;

use plumbago_cassandra_node::server;
use plumbago_model::Aggregation;
use plumbago_tests::answer::alike;
use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::seeds;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// A multiple of the coarsest resolution.
const START: i64 = 1_700_000_400;
/// The time at which the daemon is killed, which is in the middle of windows of both stages.
const KILLED: i64 = START + 930;
const END: i64 = START + 1800;
const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1s:2h,60s:2d,600s:7d\n";
/// Seconds per slot of the coarse stages, each with an age that only this stage covers.
const COARSE: [(i64, i64); 2] = [(60, 3 * 3600), (600, 3 * 86_400)];
const METHODS: [&str; 10] =
    ["average", "sum", "min", "max", "last", "avg_zero", "count", "absmax", "absmin", "median"];
/// The number of rounds of an ordinary run.
const SEEDS: u64 = 2;

/// The raw slots of all metrics, with the last value of each slot.
type Model = BTreeMap<String, BTreeMap<i64, f64>>;

fn aggregation() -> String {
    let rule = |method: &&str| {
        format!("[{method}]\npattern = \\.{method}\\.\nxFilesFactor = 0\naggregationMethod = {method}\n")
    };
    METHODS.iter().map(rule).collect()
}

fn setup(keyspace: &str, replica: u8) -> Option<Setup> {
    let server = server::for_tests()?;
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "4").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s").set("spool.linger", "100ms");
    setup.set("store.cassandra.replica", &replica.to_string());
    // Rows are written only when the test requests it.
    setup.set("engine.flush_interval", "1h").set("admin.listen", &own_address().to_string());
    setup.set("maintenance.settle", "1s").set("maintenance.repair_windows_after", "1m");
    setup.set("maintenance.rows_per_second", "0");
    setup.schemas(SCHEMAS).aggregation(&aggregation()).clock(START);
    Some(setup)
}

fn put(daemon: &Daemon, points: &[Point]) {
    let received = daemon.ledger().received;
    daemon.sender().send(points);
    daemon.applied_at(received + points.len() as u64);
}

/// Flushes, and waits until the server has acknowledged all rows.
fn write_out(daemon: &Daemon) {
    daemon.flush();
    wait_until("the spool to be empty", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
}

/// The windows of a daemon that differ from the model, among the metrics with this prefix.
fn differences(daemon: &Daemon, model: &Model, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, slots) in model.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let method: Aggregation = name.split('.').nth(1).unwrap().parse().unwrap();
        for (step, age) in COARSE {
            let series = daemon.render(name, START - 1, END - 1, START + age);
            assert_eq!(series[0].step, step, "{name}");
            for (slot, seen) in series[0].slots.iter().filter(|(slot, _)| *slot < END) {
                let window = method.fold_all(slots.range(*slot..slot + step).map(|(_, value)| *value));
                let wanted = Some(method.finish(window, step as u32)).filter(|value| !value.is_nan());
                if !alike(*seen, wanted) {
                    found.push(format!("{name} {step}s {}: {seen:?}, wanted {wanted:?}", slot - START));
                }
            }
        }
    }
    found
}

fn job(daemon: &Daemon, name: &str) -> Value {
    let jobs: Vec<Value> =
        serde_json::from_str(&http::get(daemon.admin(), "/admin/maintenance").body).unwrap();
    jobs.into_iter().find(|job| job["job"] == name).unwrap()
}

/// Runs a job and waits for its end.
fn run_job(daemon: &Daemon, name: &str) -> Value {
    let before = job(daemon, name)["runs"].as_u64().unwrap();
    let asked = daemon.post_admin(&format!("/admin/maintenance?job={name}"));
    assert_eq!(asked.status, 200, "{asked:?}");
    wait_until("the job to end", || job(daemon, name)["runs"].as_u64().unwrap() > before);
    let ended = job(daemon, name);
    assert!(ended["error"].is_null(), "{ended}");
    ended["report"].clone()
}

/// Two writers of one replica, and the points that were sent to them.
struct Run {
    random: StdRng,
    setups: [Setup; 2],
    model: Model,
}

impl Run {
    fn point(&mut self, name: String, at: i64) -> Point {
        let value = f64::from(self.random.random_range(-5000..5000)) * 0.01;
        self.model.entry(name.clone()).or_default().insert(at, value);
        Point::new(name, at, value)
    }

    /// The points of one minute. The relay sends some points to both writers.
    fn minute(&mut self, writers: [&Daemon; 2], from: i64) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for at in (from..from + 60).step_by(5) {
            for method in METHODS {
                first.push(self.point(format!("lost.{method}.m"), at));
                first.push(self.point(format!("replaced.{method}.m"), at));
                let point = self.point(format!("twice.{method}.m"), at);
                match self.random.random_range(0..4) {
                    0 => second.push(point),
                    1 => first.push(point),
                    _ => {
                        second.push(point.clone());
                        first.push(point);
                    }
                }
            }
        }
        for (writer, points) in writers.into_iter().zip([first, second]) {
            writer.set_clock(from + 60);
            put(writer, &points);
        }
    }

    /// Replaces values of closed windows through the second writer.
    fn replace(&mut self, second: &Daemon) {
        let mut points = Vec::new();
        for method in METHODS {
            for at in (START..START + 600).step_by(35) {
                points.push(self.point(format!("replaced.{method}.m"), at));
            }
        }
        put(second, &points);
    }

    fn repair(&self, which: usize, arguments: &[&str]) -> String {
        let ended = self.setups[which].run(&[&["repair", "windows"], arguments].concat());
        assert!(ended.status.success(), "{}", ended.output);
        ended.output
    }

    /// Sends all points, with a kill and the loss of a data directory in the middle. Returns both writers.
    fn send(&mut self) -> [Daemon; 2] {
        let [mut first, second] = [0, 1].map(|n| self.setups[n].start());
        assert_eq!(run_job(&second, "repair_new_writer")["windows"], 0);
        let mut from = START;
        while from < END {
            self.minute([&first, &second], from);
            from += 60;
            if (from - 60..from).contains(&KILLED) {
                // The raw rows are on the server, but the open windows are not.
                write_out(&first);
                first.kill();
                std::fs::remove_dir_all(self.setups[0].data()).unwrap();
                first = self.setups[0].clock(from).start();
                first.wait_names(self.model.len());
                run_job(&first, "repair_new_writer");
            }
        }
        for daemon in [&first, &second] {
            daemon.set_clock(END + 100);
            write_out(daemon);
        }
        self.replace(&second);
        [&first, &second].into_iter().for_each(write_out);
        [first, second]
    }
}

fn prepare(keyspace: &str, seed: u64, replica: u8) -> Option<Run> {
    let setups = [setup(keyspace, replica)?, setup(keyspace, replica)?];
    Some(Run { random: StdRng::seed_from_u64(seed), setups, model: Model::new() })
}

#[test]
fn repaired_windows_equal_the_model() {
    for seed in seeds(0, SEEDS) {
        const KEYSPACE: &str = "windows_repair";
        let Some(server) = server::for_tests() else { return };
        let Some(mut run) = prepare(KEYSPACE, seed, (seed % 3) as u8) else { return };
        server.drop_keyspaces(KEYSPACE).unwrap();
        assert!(run.setups[0].run(&["syncdb"]).status.success());
        let daemons = run.send();
        let [first, second] = &daemons;
        for prefix in ["lost", "twice", "replaced"] {
            assert!(
                !differences(first, &run.model, prefix).is_empty(),
                "seed {seed}: {prefix} needs no repair"
            );
        }

        // Windows that ended a short time ago are not repaired.
        let early = run.repair(0, &["--from", &START.to_string(), "--until", &END.to_string(), "--dry-run"]);
        assert!(early.contains("wrong"), "{early}");
        let later = END + 200;
        daemons.iter().for_each(|daemon| daemon.set_clock(later));

        // The scheduled job repairs the windows that were open when the writer id was chosen.
        let report = run_job(first, "repair_new_writer");
        assert!(report["done"]["corrected"].as_u64().unwrap() > 0, "{report}");
        assert_eq!(differences(first, &run.model, "lost"), Vec::<String>::new(), "seed {seed}");

        let one = run.repair(0, &["twice.sum.*"]);
        assert!(one.contains("corrected") && !one.contains("twice.min"), "{one}");
        assert_eq!(differences(second, &run.model, "twice.sum"), Vec::<String>::new(), "seed {seed}");
        let dry = run.repair(1, &["--dry-run"]);
        assert!(dry.contains("wrong") && dry.contains("nothing is changed"), "{dry}");
        let all = run.repair(0, &[]);
        assert!(all.contains("windows compared, corrected"), "{all}");
        for daemon in &daemons {
            assert_eq!(differences(daemon, &run.model, ""), Vec::<String>::new(), "seed {seed}: {all}");
        }
        // A further repair finds nothing to repair, with a running writer or without one.
        let again = run.repair(1, &[]);
        assert!(!again.contains("corrected"), "{again}");
        daemons.into_iter().for_each(|daemon| drop(daemon.stop_well()));
        let at_rest = run.setups[1].clock(later).run(&["repair", "windows", "--rate", "0"]);
        assert!(at_rest.status.success() && !at_rest.output.contains("corrected"), "{}", at_rest.output);
        assert!(at_rest.output.contains("windows compared"), "{}", at_rest.output);
        server.clean_up(KEYSPACE).unwrap();
    }
}

#[test]
fn the_embedded_store_has_nothing_to_repair() {
    let ended = Setup::new().run(&["repair", "windows"]);
    assert!(ended.status.success() && ended.output.contains("one writer"), "{}", ended.output);
    let wrong = Setup::new().run(&["repair", "windows", "--from", "lately"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", wrong.output);
}
