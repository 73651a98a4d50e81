//! The ledger balances at every moment: received + recovered = stored + held + replaced + rejected.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::{wait_for, wait_until};
use serde_json::Value;

use crate::load::{self, Load};

/// The answer of `/admin/ledger`.
struct Ledger(Value);

impl Ledger {
    fn of(admin: SocketAddr) -> Self {
        let response = http::get(admin, "/admin/ledger");
        assert_eq!(response.status, 200, "{}", response.body);
        Self(serde_json::from_str(&response.body).unwrap())
    }

    fn get(&self, field: &str) -> u64 {
        self.0[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {}", self.0))
    }

    fn assert_balanced(&self) {
        assert_eq!(self.0["missing"].as_i64(), Some(0), "{}", self.0);
        let came = self.get("received") + self.get("recovered");
        let went = ["stored", "held", "replaced", "rejected"].map(|f| self.get(f)).iter().sum::<u64>();
        assert_eq!(came, went, "{}", self.0);
    }
}

#[test]
fn adds_up_at_every_moment() {
    let seed = 7;
    println!("seed {seed}");
    let mut setup = Setup::new();
    let mut load = Load::new(seed, 10);
    setup.schemas(load::SCHEMAS).aggregation(&load::aggregation());
    setup.clock(load.now).set("engine.shards", "2");
    let daemon = setup.start();
    let (stop, admin) = (Arc::new(AtomicBool::new(false)), daemon.admin());
    let owner = daemon.authorization();
    let flag = Arc::clone(&stop);
    let watcher = std::thread::spawn(move || {
        let mut looks = 0;
        while !flag.load(Ordering::SeqCst) {
            Ledger::of(admin).assert_balanced();
            looks += 1;
            if looks % 50 == 0 {
                assert!(http::request(admin, "POST", "/admin/flush", &owner, "").status < 300);
            }
        }
        looks
    });
    let mut sender = daemon.sender();
    let (mut sent, mut refused, mut releases) = (0, 0, Vec::new());
    for step in 0..200 {
        let step_points = load.step();
        daemon.set_clock(load.now);
        sent += step_points.len() as u64;
        releases.extend(step_points.iter().map(|s| s.release));
        let points: Vec<Point> = step_points.into_iter().map(|s| s.point).collect();
        sender.send(&points);
        let bad = refused_lines(step, load.now);
        refused += bad.lines().count() as u64;
        sender.try_bytes(bad.as_bytes()).unwrap();
        // The clock must not advance before the points of this step were received.
        wait_for_received(&daemon, sent + refused);
    }
    stop.store(true, Ordering::SeqCst);
    println!("the ledger was looked at {} times", watcher.join().unwrap());

    daemon.flush();
    let waiting = releases.iter().filter(|release| **release > load.now).count() as u64;
    let ledger = Ledger::of(admin);
    ledger.assert_balanced();
    assert_eq!(ledger.get("held"), waiting, "only points ahead of now: {}", ledger.0);
    assert_eq!(ledger.get("received"), sent + refused, "{}", ledger.0);
    assert_eq!(ledger.get("rejected"), refused, "{}", ledger.0);
    for reason in ["future", "too_old", "nan", "fields", "value", "timestamp"] {
        let counted = ledger.0["rejected_by_reason"][reason].as_u64();
        assert!(counted.is_some_and(|n| n > 0), "{reason}: {}", ledger.0);
    }
    let ended = daemon.stop_well();
    let line = ended.output.lines().find(|l| l.starts_with("ledger: ")).unwrap();
    assert!(line.ends_with("missing 0"), "{line}");
    assert!(line.contains(&format!("received {}", sent + refused)), "{line}");
}

fn refused_lines(step: i64, now: i64) -> String {
    let name = format!("load.a.sum.x0.m{}", step % 10);
    match step % 7 {
        0 => lines(&[Point::new(name, now + 2 * 86_400, 1.0)]),
        1 => lines(&[Point::new(name, now - 40 * 86_400, 1.0)]),
        2 => format!("{name} nan {now}\n"),
        3 => format!("{name} {now}\n"),
        4 => format!("{name} one {now}\n"),
        5 => format!("{name} 1 soon\n"),
        _ => String::new(),
    }
}

fn wait_for_received(daemon: &Daemon, count: u64) {
    wait_until("the points to be received", || Ledger::of(daemon.admin()).get("received") >= count);
}

/// The ledger also balances after a start that recovers points of a killed process.
#[test]
fn adds_up_after_a_kill() {
    let mut load = Load::new(11, 5);
    let mut setup = Setup::new();
    setup.schemas(load::SCHEMAS).aggregation(&load::aggregation()).clock(load.now);
    for _ in 0..3 {
        setup.clock(load.now);
        let daemon = setup.start();
        Ledger::of(daemon.admin()).assert_balanced();
        let mut stream = TcpStream::connect(daemon.line()).unwrap();
        for _ in 0..40 {
            let points: Vec<Point> = load.step().into_iter().map(|s| s.point).collect();
            daemon.set_clock(load.now);
            stream.write_all(lines(&points).as_bytes()).unwrap();
            Ledger::of(daemon.admin()).assert_balanced();
        }
        daemon.kill();
    }
    setup.clock(load.now);
    let daemon = setup.start();
    let ledger = wait_for("a ledger", || Some(Ledger::of(daemon.admin())));
    ledger.assert_balanced();
    assert!(ledger.get("recovered") > 0, "{}", ledger.0);
    daemon.stop_well();
}
