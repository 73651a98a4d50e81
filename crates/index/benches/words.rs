//! Searches by words, and listing pages of directories, with many names. Percentiles are measured and
//! printed.
//!
//! `cargo bench -p plumbago-index --bench words` takes a million names; `PLUMBAGO_BENCH_NAMES=10000000` sets
//! another number. `-- alike` at the end measures only that kind; the kinds are `hosts`, `alike`, `own`, `flat`,
//! `tagged`, `cities` and `wide`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use plumbago_index::Index;
use plumbago_telemetry::Registry;

const METRICS: [&str; 10] =
    ["user", "system", "idle", "wait", "nice", "interrupt", "softirq", "steal", "used", "free"];
const GROUPS: [&str; 7] =
    ["cpu", "memory", "disk-sda", "disk-sdb", "interface-eth0", "tcpconns", "processes"];
const REGIONS: [&str; 4] = ["eu-west-1", "eu-east-1", "us-west-1", "ap-south-1"];
const RESULTS: usize = 100;

/// Hosts with 70 metrics each.
fn names(count: usize) -> Vec<String> {
    let name = |number: usize| {
        let (host, group, metric) = (number / 70, number / 10 % 7, number % 10);
        let region = REGIONS[host % REGIONS.len()];
        format!("servers.{region}.frontend-Host-{host:06}.{}.{}", GROUPS[group], METRICS[metric])
    };
    (0..count).map(name).collect()
}

fn percentiles(label: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{label}: p50 {:?}, p99 {:?}, slowest {:?}", at(0.5), at(0.99), at(1.0));
}

fn measure(index: &Index, label: &str, queries: &[String]) {
    let mut times = Vec::new();
    for query in queries.iter().cycle().take(300) {
        let start = Instant::now();
        black_box(index.search_words(query, RESULTS, usize::MAX)).ok();
        times.push(start.elapsed());
    }
    percentiles(label, &mut times);
}

/// Names as in the page's benchmark: hosts that have the same metrics. One name in ten is a tagged series.
fn hosts_with_tags(count: usize) -> Vec<String> {
    let name = |n: usize| {
        if n % 10 == 9 {
            let (host, code) = (n / 40, ["200", "404", "500", "503"][n / 10 % 4]);
            return format!("http.requests;dc=dc{};host=host{host:05};code={code}", host % 4);
        }
        let (host, kind) = (n / 100, ["cpu", "disk", "net", "mem", "load"][n % 100 / 20]);
        let (number, value) = (n / 5 % 4, n % 5);
        format!("dc{}.rack{:02}.host{host:05}.{kind}.{number}.m{value}", host % 4, host / 4 % 20)
    };
    (0..count).map(name).collect()
}

/// Whether a kind of names is selected: all are, unless the command line names some.
fn is_wanted(kind: &str) -> bool {
    let mut named = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| name == kind)
}

fn index_of(names: &[String]) -> Index {
    let index = Index::new(&Registry::new());
    index.insert(names.iter().map(String::as_str));
    index
}

fn hosts(count: usize) {
    let mut names = names(count);
    for order in ["sorted", "as they come"] {
        if order == "sorted" {
            names.sort_unstable();
        } else {
            // Sorted by metric, so that every directory grows all the time.
            names.sort_unstable_by_key(|name| name.bytes().rev().collect::<Vec<u8>>());
        }
        let index = index_of(&names);
        println!("{count} names, inserted {order}");
        let hosts: Vec<String> = (0..50).map(|n| format!("host-{:06}", n * count / 3500)).collect();
        let pairs: Vec<String> = hosts.iter().map(|host| format!("CPU {host} user")).collect();
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        measure(&index, "one word that is rare", &hosts);
        measure(&index, "three words", &pairs);
        measure(&index, "one word that is everywhere", &all(&["s", "cpu", "user", "eu"]));
        measure(&index, "words with dots and globs", &all(&["cpu.us*", "host-0000?1 us", "eu-*.*.cpu"]));
        measure(&index, "nothing found", &all(&["zzz", "cpu zzz"]));
        let mut times = Vec::new();
        for _ in 0..100 {
            let start = Instant::now();
            black_box(index.list_children("", "", (0, 200), usize::MAX)).ok();
            times.push(start.elapsed());
        }
        percentiles("the root with its count", &mut times);
    }
}

/// Measures the names and some search texts of the page's benchmark.
fn alike(count: usize) {
    let index = index_of(&hosts_with_tags(count));
    println!("{count} names of hosts that are alike, one in ten tagged");
    let texts = [
        "host00",
        "cpu",
        "cpu host00123",
        "M3 Rack07 CPU",
        "host012*7",
        "rack?3 net",
        "host00123.disk",
        "zzz",
        "dc=dc1 code=404",
        "host=host00123",
        "77",
        "h",
    ];
    for text in texts {
        measure(&index, &format!("  {text}"), &[text.to_owned()]);
    }
    measure(&index, "  all of them", &texts.map(str::to_owned));
}

/// A function from a number to a name.
type Name = fn(usize) -> String;

/// Trees of other kinds: each name has a unique component, or the series are tagged.
fn other_kinds(count: usize) {
    let kinds: [(&str, &str, Name); 4] = [
        ("own", "in 1000 directories, each with a text of its own", |n| {
            format!("team{:03}.request-{:08x}", n % 1000, n.wrapping_mul(0x9E37_79B1) as u32)
        }),
        ("flat", "in one directory", |n| format!("flat.request-{:08x}", n.wrapping_mul(0x9E37_79B1) as u32)),
        ("tagged", "tagged, one in ten with another tag", |n| {
            let more = if n % 10 == 0 { ";rack=r7" } else { "" };
            let (host, code) = (n / 40, n / 8 % 5);
            format!("http.requests;dc=dc{};host=host{host:05};code=20{code};path=/p{}{more}", host % 4, n % 8)
        }),
        ("cities", "tagged, three series of each city", |n| {
            format!("{};city=city{:06}", ["temperature", "humidity", "wind"][n % 3], n / 3)
        }),
    ];
    for (_, label, name) in kinds.iter().filter(|(kind, ..)| is_wanted(kind)) {
        let mut names: Vec<String> = (0..count).map(name).collect();
        names.sort_unstable();
        let index = index_of(&names);
        println!("{count} names {label}");
        for text in [
            "zzz",
            "request",
            "re 7f",
            "team007 a",
            "host012",
            "code=203 host00",
            "dc=dc1 path",
            "city0123",
            "h*7",
        ] {
            measure(&index, &format!("  {text}"), &[text.to_owned()]);
        }
    }
}

fn wide() {
    let children: Vec<String> = (0..100_000).map(|n| format!("wide.child-{n:06}.value")).collect();
    let wide = index_of(&children);
    let mut times = Vec::new();
    for page in 0..200 {
        let start = Instant::now();
        black_box(wide.list_children("wide", "", (page * 500, 500), usize::MAX)).ok();
        times.push(start.elapsed());
    }
    percentiles("a page of a directory of 100,000", &mut times);
}

fn main() {
    let count = std::env::var("PLUMBAGO_BENCH_NAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    if is_wanted("hosts") {
        hosts(count);
    }
    if is_wanted("alike") {
        alike(count);
    }
    other_kinds(count);
    if is_wanted("wide") {
        wide();
    }
}
