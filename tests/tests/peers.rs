//! `cluster.peers`: several daemons on one Cassandra. Each sees the points that the others have accepted but
//! not written yet. If one daemon is killed, the answers of the others stay complete.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use plumbago_cassandra_node::server;
use plumbago_tests::answer::alike;
use plumbago_tests::capture::own_address;
use plumbago_tests::counters::{JOURNAL_WRITTEN, Ledger};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use crate::compare;
use crate::load::{self, Load, Sent};

const TOKEN: &str = "a token of all three";

/// Setups of daemons that are peers on one keyspace. `replicas` has the replica id of each.
pub(crate) fn setups(keyspace: &str, replicas: &[u8], now: i64) -> Option<Vec<Setup>> {
    let server = server::for_tests()?;
    let admins: Vec<String> = replicas.iter().map(|_| own_address().to_string()).collect();
    let setup = |(replica, admin): (&u8, &String)| {
        let mut setup = Setup::new();
        setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
        setup.set("store.cassandra.contact_points", &server.contact_point());
        setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
        setup
            .set("store.cassandra.request_timeout", "60s")
            .set("store.cassandra.replica", &replica.to_string());
        // Rows are written only when a test requests it.
        setup.set("spool.linger", "100ms").set("engine.flush_interval", "1h");
        setup.set("admin.listen", admin).set("admin.token", TOKEN);
        // All daemons get the same list, so each daemon also has itself as a peer.
        setup.set("cluster.peers", &admins.join(",")).set("cluster.timeout", "10s");
        setup.schemas(load::SCHEMAS).aggregation(&load::aggregation()).clock(now);
        setup
    };
    server.drop_keyspaces(keyspace).unwrap();
    let setups: Vec<Setup> = replicas.iter().zip(&admins).map(setup).collect();
    let ended = setups[0].run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
    Some(setups)
}

fn admin(daemon: &Daemon, method: &str, path: &str) -> http::Response {
    http::request(daemon.admin(), method, path, &format!("Authorization: Bearer {TOKEN}\r\n"), "")
}

fn received(daemon: &Daemon) -> u64 {
    Ledger::parse(&admin(daemon, "GET", "/admin/ledger").body).unwrap().received
}

fn set_clock(daemon: &Daemon, now: i64) {
    assert_eq!(admin(daemon, "POST", &format!("/admin/clock?now={now}")).status, 200);
}

fn put(daemon: &Daemon, points: &[Point]) {
    let wanted = received(daemon) + points.len() as u64;
    daemon.sender().send(points);
    wait_until("the points to be received", || received(daemon) >= wanted);
    wait_until("the points to be applied", || {
        Ledger::queued(&admin(daemon, "GET", "/admin/ledger").body) == Some(0)
    });
}

/// Flushes, and waits until the server has acknowledged all rows.
fn write_out(daemon: &Daemon) {
    assert_eq!(admin(daemon, "POST", "/admin/flush").status, 200);
    wait_until("the spool to be empty", || counter(daemon, "plumbago_spool_pending_rows") == 0);
}

pub(crate) fn counter(daemon: &Daemon, name: &str) -> u64 {
    plumbago_tests::counters::Counters::parse(&admin(daemon, "GET", "/metrics").body).sum(name)
}

/// Kills the daemon with SIGKILL once all points are in its journal. `released` is the number of points from
/// the future that have become due, which the journal contains twice.
fn kill(daemon: Daemon, released: usize) {
    let journaled = received(&daemon) + released as u64;
    wait_until("the points to be in the journal", || counter(&daemon, JOURNAL_WRITTEN) >= journaled);
    daemon.kill();
}

/// Waits until every daemon agrees with the model.
fn check(daemons: &[&Daemon], load: &Load, what: &str) {
    let metrics = load.metrics.iter().filter(|m| m.exists()).count();
    for daemon in daemons {
        set_clock(daemon, load.now);
        daemon.wait_names(metrics);
        compare::all(daemon, load, alike, what);
    }
}

fn steps(writers: &[&Daemon], load: &mut Load, count: usize) {
    for _ in 0..count {
        let sent = load.step();
        send(writers, load.now, sent);
    }
}

/// Sends no points that replace others. If only one of two replicas gets the new value, no reader can tell which
/// window is the newer one.
fn steps_without_replaced(writers: &[&Daemon], load: &mut Load, count: usize) {
    for _ in 0..count {
        let mut sent = load.step();
        load.take_back(&mut sent, |one| one.before.is_some());
        send(writers, load.now, sent);
    }
}

fn send(writers: &[&Daemon], now: i64, sent: Vec<Sent>) {
    let points: Vec<Point> = sent.into_iter().map(|sent| sent.point).collect();
    for daemon in writers {
        set_clock(daemon, now);
        put(daemon, &points);
    }
}

/// Two daemons receive the same points, and a third one only reads. Each is killed in turn.
#[test]
fn two_replicas_and_a_reader() {
    const KEYSPACE: &str = "peers_replicas";
    let mut load = Load::new(81, 1);
    let Some(mut setups) = setups(KEYSPACE, &[0, 1, 0], load.now) else { return };
    let [one, two, reader] = [&setups[0], &setups[1], &setups[2]].map(|setup| setup.start());
    let start = load.now;
    steps(&[&one, &two], &mut load, 30);
    check(&[&reader, &one, &two], &load, "nothing is written");
    assert_eq!(counter(&reader, "plumbago_cassandra_rows_written_total"), 0);

    // Written rows are not counted twice.
    write_out(&one);
    steps(&[&one, &two], &mut load, 30);
    check(&[&reader, &one, &two], &load, "one has written");
    write_out(&two);
    steps(&[&one, &two], &mut load, 10);
    check(&[&reader, &one, &two], &load, "both have written");

    // A peer that hangs delays reads only up to `cluster.timeout`, and `/readyz` mentions it.
    two.signal(Signal::SIGSTOP);
    check(&[&reader, &one], &load, "one hangs");
    assert!(counter(&reader, "plumbago_peer_failed_requests_total") > 0);
    let ready = || http::get(reader.admin(), "/readyz");
    assert!(ready().status == 200 && ready().body.contains("cluster.timeout"), "{:?}", ready());
    two.signal(Signal::SIGCONT);
    wait_until("the peer to be heard again", || {
        check(&[&reader], &load, "it goes on");
        !ready().body.contains("cluster.timeout")
    });

    // Each daemon is killed and restarted.
    kill(two, load.released(start));
    check(&[&reader, &one], &load, "without the second");
    let two = setups[1].clock(load.now).start();
    check(&[&reader, &two], &load, "with the second again");
    kill(one, load.released(start));
    check(&[&reader, &two], &load, "without the first");
    let one = setups[0].clock(load.now).start();
    let restarted = load.now;
    kill(reader, 0);
    check(&[&one, &two], &load, "without the reader");
    let reader = setups[2].clock(load.now).start();

    // Points that arrive while one replica is down are in the other one.
    kill(one, load.released(restarted));
    steps_without_replaced(&[&two], &mut load, 20);
    check(&[&reader, &two], &load, "points for the second only");
    let one = setups[0].clock(load.now).start();
    check(&[&reader, &one, &two], &load, "the first is back without them");
    for daemon in [one, two, reader] {
        daemon.stop_well();
    }
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}

/// Two daemons each receive a part of the points, the third only reads. Windows contain all points.
#[test]
fn two_writers_and_a_reader() {
    const KEYSPACE: &str = "peers_writers";
    const START: i64 = 1_700_000_400;
    let Some(mut setups) = setups(KEYSPACE, &[0, 0, 0], START) else { return };
    let [one, two, reader] = [&setups[0], &setups[1], &setups[2]].map(|setup| setup.start());
    let methods = ["average", "sum", "min", "max"];
    let mut slots: BTreeMap<i64, f64> = BTreeMap::new();
    let mut two = Some(two);
    for minute in 0..24 {
        let now = START + 60 * (minute + 1);
        set_clock(&one, now);
        two.iter().for_each(|two| set_clock(two, now));
        let times: Vec<i64> = (now - 50..=now).step_by(10).collect();
        for (turn, time) in times.iter().enumerate() {
            let value = (time % 97) as f64 - 40.0;
            slots.insert(*time, value);
            let points: Vec<Point> =
                methods.iter().map(|m| Point::new(format!("load.a.{m}.x0.m"), *time, value)).collect();
            let writer = if turn % 3 == 0 { &one } else { two.as_ref().unwrap() };
            put(writer, &points);
        }
        match minute {
            5 => write_out(&one),
            8 => write_out(two.as_ref().unwrap()),
            // A clean stop writes open windows, which continue to grow after the start.
            13 => {
                two.take().unwrap().stop_well();
                shared(&[&one, &reader], &methods, &slots, now, "stopped");
                two = Some(setups[1].clock(now).start());
            }
            // A killed daemon loses nothing.
            17 => {
                kill(two.take().unwrap(), 0);
                two = Some(setups[1].clock(now).start());
            }
            _ => {}
        }
        shared(&[&one, two.as_ref().unwrap(), &reader], &methods, &slots, now, &format!("minute {minute}"));
    }
    // Requests without the token are refused.
    let refused = http::post(one.admin(), "/admin/heads", "PBQ1");
    assert_eq!(refused.status, 401, "{refused:?}");
    let odd = admin(&one, "POST", "/admin/heads");
    assert_eq!(odd.status, 503, "{odd:?}");
    for daemon in [one, two.unwrap(), reader] {
        daemon.stop_well();
    }
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}

/// Checks all stages of all metrics against the slots.
fn shared(daemons: &[&Daemon], methods: &[&str], slots: &BTreeMap<i64, f64>, now: i64, what: &str) {
    for daemon in daemons {
        set_clock(daemon, now);
        daemon.wait_names(methods.len());
        for method in methods {
            for (age, step) in [(3600, 10), (86_000, 60), (2_000_000, 600)] {
                let name = format!("load.a.{method}.x0.m");
                let series = daemon.render(&name, now - age, now, now);
                assert_eq!(series[0].step, step, "{what}");
                let mut windows: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
                slots.iter().for_each(|(t, v)| windows.entry(t / step * step).or_default().push(*v));
                let folded = windows.into_iter().map(|(t, values)| (t, fold(method, &values)));
                assert_eq!(series[0].known(), folded.collect(), "{what}: {name} every {step} s");
            }
        }
    }
}

/// Aggregates integers, for which the order of addition does not matter.
fn fold(method: &str, values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    match method {
        "average" => sum / values.len() as f64,
        "sum" => sum,
        "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
        _ => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

#[test]
fn peers_need_a_store_in_common() {
    let mut setup = Setup::new();
    setup.set("cluster.peers", "10.0.0.2:8081,nowhere");
    let ended = setup.run(&["config", "check"]);
    assert!(!ended.status.success(), "{}", ended.output);
    for text in ["store.kind", "nowhere"] {
        assert!(ended.output.contains(text), "{}", ended.output);
    }
}
