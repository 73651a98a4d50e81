//! Measures the search in a million names or more: in the daemon, and until its result is on the screen.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use plumbago_tests::browser::Browser;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use super::super::amount;
use super::{NOW, feed, figure, in_page, open, percentile, print_table, remark, sorted};

/// Number of metrics of a host. One in ten of them is a tagged series.
const PER_HOST: usize = 100;
const KINDS: [&str; 5] = ["cpu", "disk", "net", "mem", "load"];
/// Number of queries, and how often each is sent.
const QUERIES: usize = 480;
const ROUNDS: usize = 5;
/// Number of results that the page requests.
const RESULTS: usize = 60;

/// The texts that are typed, key by key.
const TYPED: [&str; 6] = ["host00", "code=404", "cpu", "disk", "rack1", "load"];

/// A script that records the milliseconds from each key to the frame after the one that paints the names for
/// the typed text.
const SHOWN: &str = "
  window.shown = [];
  addEventListener('keydown', (event) => {
    const input = document.getElementById('search');
    const before = input.value;
    if (event.key.length !== 1) return;
    const look = () => {
      const mark = document.querySelector('#found li mark');
      const is = input.value !== before && mark !== null && mark.textContent.toLowerCase() === input.value;
      if (!is) requestAnimationFrame(look);
      else requestAnimationFrame(() => window.shown.push(performance.now() - event.timeStamp));
    };
    requestAnimationFrame(look);
  }, true);
  document.getElementById('search').focus();
";

fn name(n: usize) -> String {
    if n % 10 == 9 {
        let (host, code) = (n / 40, ["200", "404", "500", "503"][n / 10 % 4]);
        return format!("http.requests;dc=dc{};host=host{host:05};code={code}", host % 4);
    }
    let (host, n) = (n / PER_HOST, n % PER_HOST);
    let (kind, number, value) = (KINDS[n / 20], n / 5 % 4, n % 5);
    format!("dc{}.rack{:02}.host{host:05}.{kind}.{number}.m{value}", host % 4, host / 4 % 20)
}

/// Queries of every kind: one word, several words, the beginning of a word, globs, parts with dots, tags, and texts
/// that match nothing.
fn query(n: usize, hosts: usize) -> String {
    let host = n * 7919 % hosts;
    let whole = format!("host{host:05}");
    match n % 12 {
        0 => whole,
        1 => KINDS[n / 12 % KINDS.len()].to_owned(),
        2 => format!("cpu {whole}"),
        3 => format!("M3 Rack{:02} CPU", host % 20),
        4 => format!("host{:03}*7", host / 100),
        5 => format!("rack?{} net", host % 10),
        6 => format!("{whole}.disk"),
        7 => format!("dc=dc{} code=404", host % 4),
        8 => format!("host={whole}"),
        9 => (host % 100).to_string(),
        10 => whole[..=n / 12 % 9].to_owned(),
        _ => format!("nothing{n}"),
    }
}

#[test]
#[ignore = "a figure"]
fn the_search() {
    let Some(browser) = Browser::start() else { return };
    let names = amount("SEARCH", 1_000_000);
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1m:1d\n").set("log.level", "warn");
    let daemon = setup.clock(NOW).start();
    feed(&daemon, (0..names).map(|n| Point::new(name(n), NOW, 1.0)));
    wait_until("the names to be indexed", || {
        let counters = daemon.counters();
        let sum = counters.sum("plumbago_index_names") + counters.sum("plumbago_index_tagged");
        sum >= names as u64
    });
    daemon.flush();
    by_http(&daemon, names);
    by_key(&browser, &daemon, names);
    print_table();
}

/// Sends the queries over one connection, as a browser does, and measures the daemon's memory meanwhile.
fn by_http(daemon: &Daemon, names: usize) {
    let hosts = names / PER_HOST;
    let mut connection = TcpStream::connect(daemon.api()).unwrap();
    connection.set_nodelay(true).unwrap();
    // Resets the memory peak that the kernel has recorded so far.
    std::fs::write(format!("/proc/{}/clear_refs", daemon.id()), "5").unwrap();
    let before = daemon.memory("VmRSS");
    let (mut times, mut cut) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        for n in 0..QUERIES {
            // The order is different in each round.
            let text = query((n * 7 + round) % QUERIES, hosts);
            let (time, is_complete) = ask(&mut connection, &text);
            cut += usize::from(!is_complete);
            times.push((time, text));
        }
    }
    let more = daemon.memory("VmHWM").saturating_sub(before) as f64 / names as f64;
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: Vec<f64> = times.iter().map(|(time, _)| *time).collect();
    let (p50, p99, (worst, slowest)) = (percentile(&all, 50), percentile(&all, 99), &times[times.len() - 1]);
    let (target, limit) = if names > 1_000_000 { ("50 ms", 50.0) } else { ("5 ms", 5.0) };
    let text = format!("{p99:.1} ms; p50 {p50:.2} ms; {cut} cut by a limit");
    let is_met = p99 <= limit && cut == 0;
    figure(&format!("search among {names} names, p99 over HTTP"), target, &text, is_met);
    remark("the slowest search", &format!("{worst:.1} ms for {slowest:?}"));
    figure(
        "memory for the search, at its peak",
        "10 bytes a name",
        &format!("{more:.1} bytes"),
        more <= 10.0,
    );
    let index = daemon.counters().sum("plumbago_index_memory_bytes") as f64 / names as f64;
    remark("the index itself, which the search adds nothing to", &format!("{index:.1} bytes a name"));
}

/// Sends a query. Returns the milliseconds until the last byte of the answer, and whether the search ended
/// without reaching a limit.
fn ask(connection: &mut TcpStream, text: &str) -> (f64, bool) {
    let path = http::url("/plumbago/search", &[("query", text), ("limit", &RESULTS.to_string())]);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let begun = Instant::now();
    connection.write_all(request.as_bytes()).unwrap();
    let answer = http::read_response(connection).unwrap();
    let time = begun.elapsed().as_secs_f64() * 1e3;
    assert_eq!(answer.status, 200, "{text:?}: {answer:?}");
    let found: Value = serde_json::from_str(&answer.body).unwrap();
    assert!(found["total"] != 0 || !text.starts_with("cpu"), "{text:?} finds nothing");
    (time, found["complete"] == true)
}

/// Types with the keyboard, and waits for each result before the next key.
fn by_key(browser: &Browser, daemon: &Daemon, names: usize) {
    open(browser, daemon, "");
    browser.wait_text(".tree .row", "dc0");
    browser.script(SHOWN);
    let mut keys = 0;
    for _ in 0..2 {
        for word in TYPED {
            browser.script("document.getElementById('search').select()");
            for key in word.chars() {
                browser.press(&key.to_string());
                keys += 1;
                in_page(browser, &format!("while (window.shown.length < {keys}) await frame()"));
            }
        }
    }
    let times = sorted(&browser.script("return window.shown"));
    let (median, p95) = (percentile(&times, 50), percentile(&times, 95));
    let text = format!("{median:.0} ms; p95 of {keys} keys {p95:.0} ms");
    figure(&format!("key to result on screen, {names} names"), "60 ms", &text, median <= 60.0);
}
