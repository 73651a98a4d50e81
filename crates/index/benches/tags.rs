//! Tagged series: their memory, and the time of searches.
//!
//! `cargo bench -p plumbago-index --bench tags` takes a million series with ten tags each, and KairosDB's own
//! case: temperature, humidity and wind of 300,000 cities. `PLUMBAGO_BENCH_SERIES=10000000` sets another
//! number. Percentiles and sizes are measured once and printed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use plumbago_index::{FindLimits, Index, TagExpression};
use plumbago_telemetry::Registry;

const CITIES: usize = 300_000;

/// The name of a host metric with ten tags. Two of the tags have as many values as there are hosts.
fn series(number: usize) -> String {
    let (metric, host) = (number % 1000, number / 1000);
    let dc = (b'a' + (host % 20 / 4) as u8) as char;
    format!(
        "metric{metric:03};app=app{:02};arch=x{};cluster=c{};dc={dc}{};env={};host=host{host:06};\
         instance=10.{}.{}.{}:9100;os=linux;rack=r{:03};team=team{}",
        metric % 50,
        host % 2,
        host % 40,
        host % 4,
        ["prod", "test", "dev"][host % 3],
        host >> 16,
        host >> 8 & 255,
        host & 255,
        host % 400,
        metric % 17,
    )
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Fills an index with the names, and prints its memory.
fn load(label: &str, names: impl Iterator<Item = String>) -> Index {
    let (before, index) = (resident_bytes(), Index::new(&Registry::new()));
    let (mut text, mut busy, mut part) = (0, Duration::ZERO, Vec::new());
    let mut names = names.peekable();
    while names.peek().is_some() {
        part.clear();
        part.extend(names.by_ref().take(1000));
        text += part.iter().map(String::len).sum::<usize>();
        let start = Instant::now();
        index.load(part.iter().map(String::as_str));
        busy += start.elapsed();
    }
    let per_series = |bytes: usize| bytes as f64 / index.len() as f64;
    println!(
        "{label}: {} series of {:.0} bytes in {:.2} s; {:.1} B each by count, {:.1} by resident memory",
        index.len(),
        per_series(text),
        busy.as_secs_f64(),
        per_series(index.memory_bytes()),
        per_series(resident_bytes().saturating_sub(before)),
    );
    index
}

fn find(index: &Index, texts: &[&str]) -> usize {
    let limits = FindLimits { results_max: usize::MAX, visited_max: usize::MAX };
    let expressions = texts.iter().map(|text| TagExpression::parse(text)).collect::<Result<Vec<_>, _>>();
    expressions
        .and_then(|expressions| index.find_series(&expressions, &limits))
        .map_or(0, |found| found.len())
}

/// Prints the percentiles of many searches, each for other values.
fn measure<T: AsRef<str>>(label: &str, index: &Index, rounds: usize, texts: impl Fn(usize) -> Vec<T>) {
    let (mut times, mut hits) = (Vec::new(), 0);
    for round in 0..rounds {
        let texts = texts(round);
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let start = Instant::now();
        hits += black_box(find(index, &texts));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "  {label}: {:.0} hits, p50 {:?}, p99 {:?}, slowest {:?}",
        hits as f64 / rounds as f64,
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn hosts(criterion: &mut Criterion) {
    let count = std::env::var("PLUMBAGO_BENCH_SERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let index = load("hosts", (0..count).map(series));
    let metric = |round: usize| format!("name=metric{:03}", round * 7 % 1000);
    measure("name=x, dc=~a.*", &index, 2000, |round| vec![metric(round), "dc=~a.*".to_owned()]);
    measure("name=x, host=y", &index, 2000, |round| {
        vec![metric(round), format!("host=host{:06}", round % (count / 1000))]
    });
    measure("name=x, env!=prod, rack=~.*[02468]", &index, 2000, |round| {
        vec![metric(round), "env!=prod".to_owned(), "rack=~.*[02468]$".to_owned()]
    });
    measure("name=~metric0.*, dc=a1, app=app07", &index, 500, |_| {
        vec!["name=~metric0.*", "dc=a1", "app=app07"]
    });
    measure("host=~.*7 (all hosts tried)", &index, 50, |_| vec!["host=~.*7$", "name=metric001"]);
    measure("dc=~a.* alone", &index, 5, |_| vec!["dc=~a.*"]);
    let mut group = criterion.benchmark_group("hosts");
    group.bench_function("name=x, dc=~a.*", |b| {
        b.iter(|| find(&index, &[black_box("name=metric123"), "dc=~a.*"]));
    });
    let limits = FindLimits::default();
    let expressions =
        [TagExpression::parse("dc=~a.*")].map(|e| e.ok()).into_iter().flatten().collect::<Vec<_>>();
    group.bench_function("complete tags", |b| {
        b.iter(|| index.complete_tags(&expressions, "", 100, &limits));
    });
    group.bench_function("complete values", |b| {
        b.iter(|| index.complete_values(&expressions, "host", "host0001", 100, &limits));
    });
    group.bench_function("insert and remove", |b| {
        let name = series(count + 1234);
        b.iter(|| index.insert([name.as_str()]) + usize::from(index.remove(&name)));
    });
    group.finish();
}

fn cities(criterion: &mut Criterion) {
    let names = ["Temperature", "Humidity", "Wind"];
    let series = names.iter().flat_map(|name| (0..CITIES).map(move |city| format!("{name};city=city{city}")));
    let index = load("cities", series);
    let city = |round: usize| (round * 7919) % CITIES;
    measure("one city of all three", &index, 5000, |round| vec![format!("city=city{}", city(round))]);
    measure("one city of one", &index, 5000, |round| {
        vec!["name=Wind".to_owned(), format!("city=city{}", city(round))]
    });
    measure("100 cities in one pass", &index, 500, |round| {
        let cities: Vec<String> = (0..100).map(|n| format!("city{}", city(100 * round + n))).collect();
        vec!["name=Wind".to_owned(), format!("city=~({})$", cities.join("|"))]
    });
    measure("cities that begin with city12345", &index, 500, |_| vec!["name=Wind", "city=~city12345"]);
    measure("all 300,000 tried", &index, 20, |_| vec!["name=Wind", "city=~.*9999$"]);
    criterion.bench_function("cities/one of all three", |b| {
        b.iter(|| find(&index, &[black_box("city=city123456")]));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = hosts, cities
}
criterion_main!(benches);
