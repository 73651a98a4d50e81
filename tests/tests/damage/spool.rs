//! Damage in the data directory of a daemon whose Cassandra is unreachable: the journal, the spool, the copy
//! of the names and the small files. The daemon starts and reports what is missing, or exits with a message
//! that contains the file and the remedy.
//!
//! `PLUMBAGO_SPOOL_DAMAGE_CASES` sets the number of cases, `PLUMBAGO_SEED` the seed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plumbago_cassandra_node::server;
use plumbago_tests::counters::Ledger;
use plumbago_tests::daemon::{Daemon, Ended, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::wait::wait_for;

use super::files::{copy, files};
use super::{
    Base, Case, Harm, LINES_MAX, Model, WORKERS, bases, cases, names, seed, send, setup, tail, wait_synced,
};

const KEYSPACE: &str = "damage_spool";
/// A port of the loopback address on which nothing listens.
const NOBODY: &str = "127.0.0.1:1";
/// Number of cases in an ordinary run.
const CASES: usize = 75;

/// A daemon whose Cassandra is unreachable.
fn away() -> Setup {
    let mut setup = setup();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", KEYSPACE);
    setup.set("store.cassandra.contact_points", NOBODY);
    setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
    setup
}

/// Two data directories, one after a clean stop and one after `kill -9`. Their spools have rows that no server has.
fn fill(into: &Path, contact_point: &str) -> (BTreeSet<String>, Vec<Base>) {
    let mut setup = away();
    let (mut model, all) = (Model::new(), names(120));
    // New metrics need the server.
    setup.set("store.cassandra.contact_points", contact_point).set("store.cassandra.request_timeout", "60s");
    setup.run_well(&["syncdb"]);
    let daemon = setup.start();
    send(&daemon, &mut model, &all, 0..5);
    daemon.flush();
    daemon.stop_well();

    setup.set("store.cassandra.contact_points", NOBODY);
    let daemon = setup.start();
    send(&daemon, &mut model, &all, 5..25);
    daemon.flush();
    send(&daemon, &mut model, &all, 25..35);
    wait_synced(&setup.data().join("journal"));
    daemon.kill();
    (model.into_keys().collect(), bases(&setup, into))
}

/// Starts the daemon and waits until it accepts points. The error tells how the process ended.
fn launch(what: &str, setup: &Setup) -> Result<Daemon, Ended> {
    let mut daemon = setup.launch();
    let is_up = wait_for(what, || {
        let is_up = daemon.stdout().iter().any(|line| line.starts_with("accepting points"));
        (is_up || !daemon.runs()).then_some(is_up)
    });
    if is_up { Ok(daemon) } else { Err(daemon.wait()) }
}

/// The number of rows in the spool plus that of points in memory. A start may have turned some of the points
/// into fewer rows, so the numbers of two starts with the same directory differ by up to an eighth. The test
/// therefore notices only the loss of more than a quarter.
fn kept(daemon: &Daemon) -> u64 {
    let held = Ledger::parse(&http::get(daemon.admin(), "/admin/ledger").body).unwrap().held;
    held + daemon.counters().sum("plumbago_spool_pending_rows")
}

/// The names, rows and points that an undamaged directory has after a start.
fn kept_by(base: &Base) -> u64 {
    let setup = away();
    copy(&base.directory, &setup.data());
    let daemon = launch(base.name, &setup).unwrap();
    let kept = kept(&daemon);
    assert!(kept > 0, "{} has rows that no server has", base.name);
    daemon.kill();
    kept
}

fn run(case: &Case<'_>, setup: &Setup, known: &BTreeSet<String>, sound: u64) -> Result<(), String> {
    let data = setup.data();
    case.prepare(&data);
    let before = files(&data);
    match launch(&case.title(), setup) {
        Ok(daemon) => {
            let result = check(case, &daemon, known, sound);
            result.map_err(|problem| format!("{problem}\n{}", tail(&daemon.log())))?;
            daemon.kill();
        }
        Err(ended) => {
            case.check_refusal(&ended, &data, &before)?;
            let is_backup_needed = case.file.ends_with("plumbago-format")
                || case.file.to_string_lossy().contains("keyspaces/0/");
            if is_backup_needed {
                return Ok(());
            }
            let repaired = setup.run(&["repair", "store", "--all"]);
            if !repaired.status.success() {
                return Err(format!("repair store --all: {:?}\n{}", repaired.status, tail(&repaired.output)));
            }
        }
    }
    let again = launch(&case.title(), setup);
    again.map(Daemon::kill).map_err(|ended| format!("the next start failed\n{}", tail(&ended.output)))
}

/// Checks that the log and `/readyz` report what is missing.
fn check(case: &Case<'_>, daemon: &Daemon, known: &BTreeSet<String>, sound: u64) -> Result<(), String> {
    let (file, log) = (case.file.to_string_lossy().into_owned(), daemon.log());
    if log.contains("panicked") {
        return Err("a thread panicked".to_owned());
    }
    let shown: BTreeSet<String> = daemon.names().into_iter().collect();
    if let Some(other) = shown.difference(known).next() {
        return Err(format!("{other} was never sent"));
    }
    let (names, kept) = (known.difference(&shown).count(), kept(daemon));
    if names == 0 && 4 * kept >= 3 * sound {
        return Ok(());
    }
    let lost = format!("{names} names are missing, and {kept} of {sound} rows and points are left");
    let lines = log.lines().filter(|line| line.contains(&file)).count();
    if case.is_like_a_crash() {
        // If the file was cut exactly between two frames, nothing shows the damage.
        let is_said = lines > 0 || case.harm == Harm::Cut;
        return if is_said { Ok(()) } else { Err(format!("{lost}: no line of the log")) };
    }
    let ready = http::get(daemon.admin(), "/readyz").body;
    let is_said = ready.contains("damaged data") && ready.contains(&file);
    if is_said && (1..=LINES_MAX).contains(&lines) {
        return Ok(());
    }
    Err(format!("{lost}: {lines} lines of the log name the file, and /readyz says {ready}"))
}

/// A daemon that has lost its writer id reports that it uses a new one.
fn check_writer_id(base: &Base) {
    let setup = away();
    copy(&base.directory, &setup.data());
    fs::remove_file(setup.data().join("writer-id")).unwrap();
    let daemon = launch("a start without writer-id", &setup).unwrap();
    let log = daemon.log();
    assert!(
        log.lines().any(|line| line.contains(" WARN ") && line.contains("writer-id is missing")),
        "{log}"
    );
    daemon.kill();
}

#[test]
fn damage_while_cassandra_is_away_is_said_and_survived() {
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (known, bases) = fill(directory.path(), &server.contact_point());
    server.clean_up(KEYSPACE).unwrap();
    check_writer_id(&bases[1]);
    let sound: Vec<u64> = bases.iter().map(kept_by).collect();
    let count = number("PLUMBAGO_SPOOL_DAMAGE_CASES").unwrap_or(CASES);
    let cases = cases(&bases, count, seed());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let setup = away();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let sound = if case.base.name == bases[0].name { sound[0] } else { sound[1] };
                    if let Err(problem) = run(case, &setup, &known, sound) {
                        println!("FAILED {}: {problem}", case.title());
                        failed.lock().unwrap().push(case.title());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count} cases failed:\n{}", failed.len(), failed.join("\n"));
}
