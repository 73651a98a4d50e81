//! Clean stops and restarts, reloads, health checks, TLS.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use plumbago_tests::answer::Series;
use plumbago_tests::counterpart;
use plumbago_tests::counters::Ledger;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use crate::load::{self, GROUPS, Load};

/// All stages of all groups.
fn everything(daemon: &Daemon, load: &Load) -> Vec<Series> {
    let mut all = Vec::new();
    for (group, stages) in GROUPS {
        let mut reach = 0;
        for (step, slots) in stages {
            let from = if reach == 0 { load.now - step * slots } else { load.now - reach - 2 * step };
            all.extend(daemon.render(&format!("load.{group}.*.*.*"), from, load.now, load.now));
            reach = step * slots;
        }
    }
    all
}

#[test]
fn a_clean_stop_keeps_everything() {
    let mut load = Load::new(3, 5);
    let mut setup = Setup::new();
    setup.schemas(load::SCHEMAS).aggregation(&load::aggregation());
    for _ in 0..3 {
        let daemon = setup.clock(load.now).start();
        let mut sender = daemon.sender();
        let mut sent = 0;
        for _ in 0..60 {
            let points: Vec<Point> = load.step().into_iter().map(|s| s.point).collect();
            daemon.set_clock(load.now);
            sender.send(&points);
            sent += points.len() as u64;
            // The clock must not advance before the points of this step were received.
            wait_until("the points to be received", || Ledger::of(&daemon.counters()).received >= sent);
        }
        let before = everything(&daemon, &load);
        let ended = daemon.stop_well();
        let line = ended.output.lines().find(|l| l.starts_with("ledger: "));
        let line = line.unwrap_or_else(|| panic!("no ledger in {}", ended.output));
        assert!(line.contains(&format!("received {sent} ")) && line.ends_with("missing 0"), "{line}");

        let daemon = setup.clock(load.now).start();
        let after = everything(&daemon, &load);
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            let other: Vec<_> = before.slots.iter().zip(&after.slots).filter(|(b, a)| b != a).collect();
            assert!(before == after, "{}, read before and after a clean stop: {other:?}", before.name);
        }
        assert!(daemon.log().contains("replayed=0"), "{}", daemon.log());
        daemon.stop_well();
    }
}

#[test]
fn a_stop_under_load_loses_nothing_it_received() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n").clock(1_700_000_000);
    let daemon = setup.start();
    let address = daemon.line();
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            std::thread::spawn(move || {
                let mut stream = plumbago_tests::send::LineSender::connect(address);
                for second in 0..3600 {
                    let points: Vec<_> = (0..50)
                        .map(|m| {
                            Point::new(format!("stop.s{sender}.m{m}"), 1_699_996_400 + second, second as f64)
                        })
                        .collect();
                    if stream.try_bytes(plumbago_tests::send::lines(&points).as_bytes()).is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    daemon.ledger_at(20_000);
    let ended = daemon.stop_well();
    senders.into_iter().for_each(|s| s.join().unwrap());
    let line = ended.output.lines().find(|l| l.starts_with("ledger: ")).unwrap().to_owned();
    assert!(line.ends_with("missing 0"), "{line}");
    let number = |word: &str| -> u64 {
        let mut words = line.split_whitespace();
        words.find(|w| *w == word);
        words.next().unwrap().trim_end_matches(';').parse().unwrap()
    };
    let daemon = setup.start();
    let series = daemon.render("stop.*.*", 1_699_996_399, 1_700_000_000, 1_700_000_000);
    let known: usize = series.iter().map(|s| s.known().len()).sum();
    assert_eq!(known as u64, number("received") - number("rejected") - number("replaced"), "{line}");
    daemon.stop_well();
}

/// A signal stops the daemon at any moment of its start. The times of the signals vary; none of them has to
/// be exact.
#[test]
fn a_stop_is_heard_at_any_moment_of_the_start() {
    let setup = Setup::new();
    for milliseconds in (0..150).step_by(6) {
        let daemon = setup.launch();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        daemon.stop();
    }
}

#[test]
fn rules_are_reloaded_and_wrong_ones_are_not() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d\n").clock(1_700_000_000);
    let daemon = setup.start();
    let step_of = |name: &str| {
        daemon.put(&[Point::new(name, 1_700_000_000, 1.0)]);
        // A name can be found once its metadata are stored.
        wait_until("the metric", || daemon.names().contains(&name.to_owned()));
        let series = daemon.render(name, 1_699_999_000, 1_700_000_000, 1_700_000_000);
        assert_eq!(series.len(), 1, "{name}");
        series[0].step
    };
    assert_eq!(step_of("reload.before"), 60);

    setup.schemas("[all]\npattern = .*\nretentions = 10s:1d\n");
    daemon.signal(Signal::SIGHUP);
    wait_until("the good rules", || daemon.log().contains("storage rules reloaded"));
    assert_eq!(step_of("reload.good"), 10);
    assert_eq!(step_of("reload.before"), 60, "a metric keeps the rule of its creation");

    setup.schemas("[all]\npattern = ((\nretentions = 1s:1d\n[none]\npattern = x\n");
    daemon.signal(Signal::SIGHUP);
    wait_until("the complaint", || daemon.log().contains("the old rules stay"));
    let log = daemon.log();
    let complaint = log.lines().find(|l| l.contains("the old rules stay")).unwrap();
    assert!(complaint.contains("ERROR") && log.contains("storage-schemas.conf"), "{log}");
    assert_eq!(step_of("reload.wrong"), 10, "the old rules stay in force");

    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n");
    daemon.signal(Signal::SIGHUP);
    wait_until("rules that are right again", || daemon.log().matches("storage rules reloaded").count() == 2);
    assert_eq!(step_of("reload.again"), 1);
    daemon.stop_well();
}

#[test]
fn certificates_of_ports_are_reloaded() {
    if counterpart::on_path("curl").is_none() {
        return;
    }
    let data = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(path);
    let mut setup = Setup::new();
    let (cert, key) = (setup.path().join("cert.pem"), setup.path().join("key.pem"));
    let put = |from_cert: &str, from_key: &str| {
        std::fs::copy(data(from_cert), &cert).unwrap();
        std::fs::copy(data(from_key), &key).unwrap();
    };
    put("api/testdata/localhost.pem", "api/testdata/localhost.key");
    for section in ["api", "admin"] {
        setup.set(&format!("{section}.tls.cert"), &cert.display().to_string());
        setup.set(&format!("{section}.tls.key"), &key.display().to_string());
    }
    let daemon = setup.start();
    let is_trusted = |authority: &str| {
        let mut curl = counterpart::on_path("curl").unwrap();
        curl.args(["--silent", "--fail", "--cacert"]).arg(data(authority));
        curl.arg(format!("https://localhost:{}/version", daemon.api().port()));
        curl.output().unwrap().stdout == b"1.1.10\n"
    };
    let (old, new) = ("api/testdata/localhost.pem", "ingest/testdata/tls/ca.pem");
    assert!(is_trusted(old) && !is_trusted(new));

    put("ingest/testdata/tls/server.pem", "api/testdata/localhost.key");
    daemon.signal(Signal::SIGHUP);
    wait_until("the complaint", || daemon.log().contains("admin.tls was not reloaded"));
    assert!(is_trusted(old) && !is_trusted(new));

    put("ingest/testdata/tls/server.pem", "ingest/testdata/tls/server.key");
    daemon.signal(Signal::SIGHUP);
    wait_until("the new certificate", || is_trusted(new));
    assert!(!is_trusted(old));
    daemon.stop_well();
}

#[test]
fn health_is_reported() {
    let setup = Setup::new();
    let daemon = setup.start();
    let health = http::get(daemon.admin(), "/healthz");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let ready = http::get(daemon.admin(), "/readyz");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(ready.body.contains("\"ready\":true"), "{}", ready.body);
    daemon.stop_well();
}

#[test]
fn lines_come_over_tls() {
    let Some(mut make) = counterpart::on_path("openssl") else { return };
    let Some(mut client) = counterpart::on_path("openssl") else { return };
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d\n").clock(1_700_000_000);
    let (cert, key) = (setup.path().join("cert.pem"), setup.path().join("key.pem"));
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    make.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    make.arg("-keyout").arg(&key).arg("-out").arg(&cert);
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    setup.set("ingest.line.tls.cert", cert.to_str().unwrap());
    setup.set("ingest.line.tls.key", key.to_str().unwrap());
    let daemon = setup.start();

    client.args(["s_client", "-quiet", "-verify_return_error", "-servername", "localhost"]);
    client.arg("-CAfile").arg(&cert).arg("-connect").arg(daemon.line().to_string());
    let mut child =
        client.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"tls.point 42.5 1700000000\n").unwrap();
    wait_until("the point over TLS", || {
        let series = daemon.render("tls.point", 1_699_999_900, 1_700_000_000, 1_700_000_000);
        series.first().is_some_and(|s| s.known().values().eq(&[42.5]))
    });
    drop(child.stdin.take());
    child.kill().unwrap();
    child.wait().unwrap();

    // Plain text is not a TLS handshake: it is refused, and other connections are not affected.
    daemon.sender().try_bytes(b"plain.point 1 1700000000\nplain.point 1 1700000000\n").unwrap();
    let again = counterpart::on_path("openssl").map(|mut c| {
        c.args(["s_client", "-connect"]).arg(daemon.line().to_string());
        c.stdin(Stdio::null()).output().unwrap()
    });
    assert!(again.is_some_and(|o| String::from_utf8_lossy(&o.stdout).contains("BEGIN CERTIFICATE")));
    assert_eq!(daemon.names(), ["tls.point"]);
    daemon.stop_well();
}
