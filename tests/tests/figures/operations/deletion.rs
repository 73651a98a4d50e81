//! Measures reads and ingest during deletions, on the embedded store.

use std::fmt::Write as _;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use super::super::reads::seconds_of;
use super::super::{amount, cpu_of};
use super::{PORTIONS, Paced, at_most, columns, figure, median};
use crate::senders::now;

const SCHEMAS: &str = "[paced]\npattern = ^paced\\.\nretentions = 1s:1h,1m:1d\n\
     [all]\npattern = .*\nretentions = 1m:2d,1h:30d\n";
/// Number of points of each metric that is deleted, one per minute.
const MINUTES: i64 = 30;
/// Number of metrics that are not deleted. In the second test each loses the points of a time range.
const KEPT: usize = 100;
/// Number of points of each metric that is not deleted, one per minute.
const DAY: i64 = 1440;
/// Number of measurements. Their median is the result.
const RENDERS: usize = 51;
/// Globs that delete 10, 40 and 40 percent of the metrics, and the percentage that is deleted after each.
const PARTS: [(&str, usize); 3] =
    [("pool.d0.*", 10), ("pool.{d1,d2,d3,d4}.*", 50), ("pool.{d5,d6,d7,d8}.*", 90)];

/// A value that is different for each metric and minute.
fn value(metric: usize, minute: i64) -> i64 {
    (metric as i64 * 31 + minute) % 1000
}

fn pool(metric: usize) -> String {
    format!("pool.d{}.m{metric}", metric % 10)
}

/// Sends the points of each minute up to `end`, in the order in which they would arrive. Waits until all are stored.
fn fill(daemon: &Daemon, names: &[String], minutes: i64, end: i64) {
    let (mut sender, before) = (daemon.sender(), daemon.ledger().received);
    let mut sent = before;
    for minute in 0..minutes {
        let (time, mut text) = (end - 60 * (minutes - minute), String::new());
        for (metric, name) in names.iter().enumerate() {
            let _ = writeln!(text, "{name} {} {time}", value(metric, minute));
        }
        sender.try_bytes(text.as_bytes()).unwrap();
        sent += names.len() as u64;
        daemon.ledger_at(sent);
    }
    daemon.applied_at(sent);
    daemon.flush();
}

/// The path of a `/render` request for the day that ends at `end`. The answer does not come from the cache.
fn query(target: &str, end: i64) -> String {
    let (from, until) = ((end - DAY * 60 - 60).to_string(), end.to_string());
    let time = [("from", from.as_str()), ("until", until.as_str()), ("now", until.as_str())];
    let query = [("target", target), ("format", "raw"), ("noCache", "1")];
    http::url("/render", &[&query[..], &time[..]].concat())
}

/// The answer to a query, and the median of its durations in seconds.
fn render(daemon: &Daemon, path: &str) -> (String, f64) {
    let answer = daemon.get(path);
    assert!(answer.status == 200 && !answer.body.is_empty(), "{path}: {answer:?}");
    let once = |_| seconds_of(daemon.api(), path);
    (answer.body, median((0..RENDERS).map(once).collect()))
}

/// Number of known slots in an answer.
fn known(answer: &str) -> usize {
    let series = plumbago_tests::answer::raw(answer).unwrap();
    series.iter().map(|series| series.known().len()).sum()
}

/// Measurements between two times.
struct Window {
    cpu: f64,
    seconds: f64,
    points: u64,
}

/// The daemon's processor time, and the points that it received, while `work` runs.
fn window(daemon: &Daemon, work: impl FnOnce()) -> Window {
    let (cpu, begun, received) = (cpu_of(daemon.id()), Instant::now(), daemon.ledger().received);
    work();
    let (cpu, seconds) = (cpu_of(daemon.id()) - cpu, begun.elapsed().as_secs_f64());
    Window { cpu, seconds, points: daemon.ledger().received - received }
}

fn delete(setup: &Setup, glob: &str, metrics: usize) {
    let mut command = setup.command(&["delete", "--yes", "--json", glob]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["metrics"], metrics, "{report}");
}

/// Starts a sender that sends one point a second to each metric. There are as many metrics as points per second.
fn ingest(daemon: &Daemon, portion: u64) -> Paced {
    let first = now() + 1;
    Paced::start(daemon.sender(), move |number, out| {
        let second = first + (number / PORTIONS).cast_signed();
        for at in number * portion..(number + 1) * portion {
            let metric = at % (portion * PORTIONS);
            let _ = writeln!(out, "paced.g{}.m{metric} {at} {second}", metric % 100);
        }
    })
}

/// No points were refused except those in memory that the deletion dropped.
fn assert_none_refused(daemon: &Daemon) {
    let ledger: Value = serde_json::from_str(&http::get(daemon.admin(), "/admin/ledger").body).unwrap();
    let reasons = ledger["rejected_by_reason"].as_object().unwrap();
    let others = |(reason, count): (&String, &Value)| reason == "deleted" || count.as_u64() == Some(0);
    assert!(reasons.iter().all(others), "{ledger}");
}

/// Compares the daemon's processor time for a million points without a job and during a job that deletes 40 % of the
/// metrics. The job's own processor time is subtracted; it is measured with a second job of the same size, without
/// ingest.
#[test]
#[ignore = "a figure"]
fn deletions_beside_reads_and_ingest() {
    let (metrics, rate) = (amount("DELETED", 100_000) / 10 * 10, amount("INGEST_RATE", 50_000));
    let mut setup = Setup::new();
    setup.schemas(SCHEMAS).set("log.level", "warn");
    let daemon = setup.start_for_commands();
    let end = now() / 60 * 60;
    let kept: Vec<String> = (0..KEPT).map(|n| format!("keep.whole.m{n}")).collect();
    let pooled: Vec<String> = (0..metrics).map(pool).collect();
    fill(&daemon, &kept, DAY, end);
    fill(&daemon, &pooled, MINUTES, end);
    daemon.wait_names(KEPT + metrics);
    let targets = [("sumSeries(keep.whole.*)", "100 others"), ("sumSeries(pool.d9.m*99)", "1 % of them")];
    let queries = targets.map(|(target, what)| (query(target, end), what));
    let before = queries.each_ref().map(|(path, _)| render(&daemon, path));

    let mut deleted = 0;
    let mut gone = |part: usize| {
        let (glob, percent) = PARTS[part];
        delete(&setup, glob, metrics * percent / 100 - deleted);
        deleted = metrics * percent / 100;
    };
    columns();
    let check = |percent: usize| {
        for ((path, what), (answer, seconds)) in queries.iter().zip(&before) {
            let (shown, after) = render(&daemon, path);
            assert_eq!(shown, *answer, "{what} after {percent} %");
            let what = format!("render of {what} after {percent} % of {metrics} metrics were deleted");
            at_most(&what, 1.2, after / seconds);
        }
    };
    gone(0);
    check(10);
    let received = daemon.ledger().received;
    let portion = rate as u64 / PORTIONS;
    let paced = ingest(&daemon, portion);
    // The names exist before anything is measured.
    thread::sleep(Duration::from_secs(5));
    let quiet = window(&daemon, || thread::sleep(Duration::from_secs(amount("QUIET_SECONDS", 20) as u64)));
    let busy = window(&daemon, || gone(1));
    let (times, behind) = paced.finish();
    let sent = times.len() as u64 * portion;
    daemon.applied_at(received + sent);
    assert_eq!(daemon.ledger().received, received + sent, "every point of the ingest was received");
    check(50);
    let alone = window(&daemon, || gone(2));
    check(90);

    let per_million = |cpu: f64, window: &Window| cpu / window.points as f64 * 1e6;
    let (calm, whole) = (per_million(quiet.cpu, &quiet), per_million(busy.cpu, &busy));
    let share = per_million((busy.cpu - alone.cpu).max(0.0), &busy);
    println!(
        "\nCPU s a million points at {rate} points/s (late by {behind:?} at most): {calm:.3} in {:.0} s without a job, \
         {whole:.3} in {:.1} s of one that deletes {} metrics; such a job alone takes {:.2} CPU s in {:.1} s",
        quiet.seconds,
        busy.seconds,
        metrics * 4 / 10,
        alone.cpu,
        alone.seconds
    );
    columns();
    figure("ingest beside a deletion, points lost", "0", &format!("0 of {sent}"), true);
    at_most("ingest CPU a point beside a deletion, without the job's own, to before", 1.2, share / calm);
    assert!(daemon.ledger().balances(), "{:?}", daemon.ledger());
    assert_none_refused(&daemon);
    wait_until("the deleted names to be gone", || {
        let names = daemon.names();
        names.iter().filter(|name| name.starts_with("pool.")).count() == metrics / 10
    });
    daemon.stop_well();
}

/// Reads the same metrics after 10, 50 and 90 % of their points were deleted.
#[test]
#[ignore = "a figure"]
fn ranges_deleted_beside_reads() {
    let mut setup = Setup::new();
    setup.schemas(SCHEMAS).set("log.level", "warn");
    let daemon = setup.start_for_commands();
    let end = now() / 60 * 60;
    let names: Vec<String> = (0..KEPT).map(|n| format!("keep.cut.m{n}")).collect();
    fill(&daemon, &names, DAY, end);
    daemon.wait_names(KEPT);
    let path = query("keep.cut.*", end);
    let (answer, before) = render(&daemon, &path);
    assert_eq!(known(&answer), KEPT * DAY as usize);
    columns();
    for percent in [10, 50, 90] {
        let until = end - DAY * 60 + DAY * 60 * percent / 100;
        setup.run_well(&["delete", "--until", &until.to_string(), "keep.cut.*"]);
        let (answer, after) = render(&daemon, &path);
        assert_eq!(known(&answer), KEPT * (DAY * (100 - percent) / 100) as usize, "{percent} %");
        let what = format!("render of {KEPT} metrics × 24 h after {percent} % of the time were deleted");
        at_most(&what, 1.2, after / before);
    }
    daemon.stop_well();
}
