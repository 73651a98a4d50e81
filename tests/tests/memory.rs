//! The memory ceiling under a flood of new names. The ceiling holds, existing metrics lose nothing, and the
//! daemon reports what happens and which setting is responsible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_for, wait_until};

const NOW: i64 = 1_700_000_000;
/// Number of one-second slots that the known metrics fill.
const KNOWN: i64 = 500;
const FLOODS: u64 = 4;
/// Number of new names that are sent after the first refusal.
const REFUSED: u64 = 1_000_000;

#[test]
fn the_ceiling_holds_at_128_mib() {
    holds(128);
}

#[test]
fn the_ceiling_holds_at_256_mib() {
    holds(256);
}

fn holds(mib: u64) {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d,1m:7d\n").clock(NOW);
    setup.set("engine.memory_max", &format!("{mib}MiB"));
    let daemon = setup.start();
    let known = |slot: i64| -> Vec<Point> {
        (0..KNOWN).map(|m| Point::new(format!("known.m{m}"), NOW + slot, (m * 31 + slot) as f64)).collect()
    };
    daemon.put(&known(0));
    daemon.wait_names(KNOWN as usize);
    assert_eq!(warnings(&daemon), Vec::<String>::new());

    let over = Arc::new(AtomicBool::new(false));
    let (floods, sent) = flood(&daemon, &over);
    let mut sender = daemon.sender();
    let (mut slots, mut until) = (1, u64::MAX);
    let warning = wait_for("a warning of refused metrics, and many refusals", || {
        sender.send(&known(slots));
        daemon.set_clock(NOW + slots);
        slots += 1;
        std::thread::sleep(Duration::from_millis(50));
        let warning = warnings(&daemon).into_iter().find(|text| text.contains("memory_limited"))?;
        until = until.min(sent.load(Ordering::Relaxed) + REFUSED);
        (sent.load(Ordering::Relaxed) >= until).then_some(warning)
    });
    assert!(warning.contains("engine.memory_max"), "{warning}");
    over.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());

    let received = sent.load(Ordering::Relaxed) + (slots * KNOWN) as u64;
    daemon.applied_at(received);
    // The counters are exported a little after the ledger is written.
    let refused = wait_for("the ledger to contain only refusals of new metrics", || {
        let refused = daemon.counters().with("plumbago_rejected_points_total", "reason=\"memory_limited\"");
        let ledger = daemon.ledger();
        assert!(ledger.balances(), "{ledger:?}");
        (refused > 0 && ledger.rejected == refused).then_some(refused)
    });
    let counters = daemon.counters();
    let peak = daemon.memory("VmHWM");
    println!(
        "ceiling {mib} MiB: peak {} MiB, now {} MiB, metrics {}, refused {refused} of {received}",
        peak >> 20,
        daemon.memory("VmRSS") >> 20,
        counters.sum("plumbago_engine_metrics"),
    );
    assert!(peak <= (mib << 20) * 11 / 10, "{} MiB of {mib} MiB", peak >> 20);
    complete(&daemon, slots);
    let log = daemon.log();
    assert!(log.contains("WARN") && log.contains("condition=\"memory\""), "{log}");
    let ended = daemon.stop_well();
    assert!(ended.output.contains("missing 0"), "{}", ended.output);
}

/// Every point of the metrics that existed before the flood can be read.
fn complete(daemon: &Daemon, slots: i64) {
    let series = daemon.render("known.*", NOW - 1, NOW + slots - 1, NOW + slots);
    assert_eq!(series.len(), KNOWN as usize);
    for series in series {
        let m: i64 = series.name["known.m".len()..].parse().unwrap();
        let wanted = (0..slots).map(|slot| (NOW + slot, (m * 31 + slot) as f64));
        assert_eq!(series.known(), wanted.collect(), "{}", series.name);
    }
}

/// Connections that send nothing but new names, as fast as the daemon reads them. Also returns a counter of the names
/// that were sent.
fn flood(daemon: &Daemon, over: &Arc<AtomicBool>) -> (Vec<JoinHandle<()>>, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let spawn = |n: u64| {
        let (mut sender, over, sent) = (daemon.sender(), Arc::clone(over), Arc::clone(&sent));
        std::thread::spawn(move || {
            let mut text = String::new();
            for round in 0u64.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                text.clear();
                for k in 0..1000 {
                    text.push_str(&format!("new.host{:04}.disk{n}.metric{k} 1 {NOW}\n", round));
                }
                sender.try_bytes(text.as_bytes()).unwrap();
                sent.fetch_add(1000, Ordering::Relaxed);
            }
        })
    };
    ((0..FLOODS).map(spawn).collect(), sent)
}

fn warnings(daemon: &Daemon) -> Vec<String> {
    let response = http::get(daemon.admin(), "/readyz");
    assert_eq!(response.status, 200, "{}", response.body);
    let page: serde_json::Value = serde_json::from_str(&response.body).unwrap();
    page["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_ceiling_below_what_caches_are_set_to_is_refused() {
    let mut setup = Setup::new();
    setup.set("engine.memory_max", "200MiB").set("store.embedded.cache_bytes", "150MiB");
    let ended = setup.run(&["config", "check"]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.output);
    for wanted in ["engine.memory_max", "200MiB", "store.embedded.cache_bytes = 150MiB"] {
        assert!(ended.output.contains(wanted), "no {wanted:?} in:\n{}", ended.output);
    }
    setup.unset("store.embedded.cache_bytes");
    assert!(setup.run(&["config", "check"]).status.success());
}

/// Many refusals of one kind cause a warning while they last, and two lines in the log.
#[test]
fn refusals_in_number_are_warnings() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n").clock(NOW);
    setup.set("engine.max_creates_per_minute", "1").set("engine.future_max", "10m");
    let daemon = setup.start();
    daemon.put(&[Point::new("first", NOW, 1.0)]);
    let new: Vec<Point> = (0..300).map(|n| Point::new(format!("more.m{n}"), NOW, 1.0)).collect();
    let ahead: Vec<Point> = (0..300).map(|n| Point::new("first", NOW + 3600 + n, 1.0)).collect();
    // 65,536 points ahead of now may be pending in a shard; only one shard has this metric.
    let pending: Vec<Point> =
        (0..66_000).map(|n| Point::new("first", NOW + 30 + n % 500, n as f64)).collect();
    for (points, setting, name) in [
        (&new, "engine.max_creates_per_minute", "create_limited"),
        (&ahead, "engine.future_max", "future"),
        (&pending, "engine.future_max", "future_full"),
    ] {
        daemon.put(points);
        let is_about = |text: &String| text.contains(&format!("({name})"));
        let text = wait_for(name, || warnings(&daemon).into_iter().find(is_about));
        assert!(text.contains(setting), "{text}");
        assert_eq!(daemon.counters().with("plumbago_condition", &format!("name=\"{name}\"")), 1);
    }
    daemon.set_clock(NOW + 200);
    wait_until("the warnings to end", || warnings(&daemon).is_empty());
    let log = daemon.log();
    for name in ["create_limited", "future", "future_full"] {
        let lines = log.lines().filter(|line| line.contains(&format!("condition=\"{name}\"")));
        assert_eq!(lines.count(), 2, "one line when {name} begins and one when it ends:\n{log}");
    }
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}
