//! H1, H2 and H4: names of many components, growing numbers of names, and globs that fix the start and end of
//! a component.

use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

use super::site::{Running, Site};
use super::{Figure, Setup, wall_clock};
use crate::BenchError;
use crate::load::names::{self, Shape};
use crate::query::{Query, Timing};

const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d\n";
const NAMES: &str = "plumbago_index_names";
const INDEX_BYTES: &str = "plumbago_index_memory_bytes";
const VISITED: &str = "plumbago_index_visited_total";
const DEPTHS: [usize; 4] = [3, 10, 32, 63];
const TOO_DEEP: [usize; 2] = [64, 70];
/// Numbers of names, in millions. The 50 million of the article are left out: they need more memory than a small
/// machine has.
const MILLIONS: [u64; 4] = [1, 5, 10, 20];

/// How soon after its acceptance a name must be in the index.
const CREATION: Duration = Duration::from_millis(500);

/// Measures H1.
pub(super) fn depths(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let (now, count) = (wall_clock(), setup.scaled(100_000, 100));
    let site = Site::new(setup, "depths", SCHEMAS)?;
    let running = site.start(now)?;
    let mut figure = Figure::new(1);
    let (mut sent, mut times) = (0, Vec::new());
    for depth in DEPTHS {
        let before = running.metric(INDEX_BYTES)?;
        running.send(|out| write_deep(out, depth, count, now))?;
        sent += count;
        running.wait_for(NAMES, sent as f64)?;
        let bytes = (running.metric(INDEX_BYTES)? - before) / count as f64;
        let timing = running.time(Query::find(&deep(depth, 0)))?;
        figure.read(format!("{depth} components: p50"), timing.p50_ms, "ms");
        figure.read(format!("{depth} components: index for each name"), bytes, "B");
        times.push(timing.p50_ms);
    }
    let mut visible = true;
    for depth in TOO_DEEP {
        visible &= too_deep(&running, depth, now, &mut figure)?;
    }
    running.stop()?;
    figure.judge(visible && times[DEPTHS.len() - 1] <= 2.0 * times[0]);
    Ok(vec![figure])
}

/// Sends a name that BigGraphite cannot create. Returns whether the name is found, or was refused and
/// counted.
fn too_deep(running: &Running, depth: usize, now: i64, figure: &mut Figure) -> Result<bool, BenchError> {
    let rejected = || running.metric("plumbago_rejected_points_total");
    let before = rejected()?;
    running.send(|out| write_deep(out, depth, 1, now))?;
    let refused = rejected()? - before;
    if refused == 0.0 {
        sleep(CREATION);
    }
    let found = running.time(Query::find(&deep(depth, 0)))?.results as f64;
    figure.read(format!("{depth} components: names found"), found, "");
    figure.read(format!("{depth} components: points refused"), refused, "");
    Ok(found + refused > 0.0)
}

/// A name of this many components, at least two.
fn deep(depth: usize, number: u64) -> String {
    format!("depth{depth}.{}m{number}", "part.".repeat(depth - 2))
}

fn write_deep(out: &mut dyn Write, depth: usize, count: u64, time: i64) -> io::Result<u64> {
    for number in 0..count {
        writeln!(out, "{} 1 {time}", deep(depth, number))?;
    }
    Ok(count)
}

/// Measures H2 and H4.
pub(super) fn globs(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let now = wall_clock();
    let site = Site::new(setup, "globs", SCHEMAS)?;
    let running = site.start(now)?;
    let mut figures = Vec::new();
    if setup.wants(4) {
        figures.push(ends(setup, &running, now)?);
    }
    if setup.wants(2) {
        figures.push(more_names(setup, &running, now)?);
    }
    running.stop()?;
    Ok(figures)
}

fn ends(setup: &Setup<'_>, running: &Running, now: i64) -> Result<Figure, BenchError> {
    let count = setup.scaled(1_000_000, 1000);
    running.send(|out| write_ends(out, count, now))?;
    running.wait_for(NAMES, count as f64)?;
    let path = Query::expand("a.x*z.c");
    let before = running.metric(VISITED)?;
    let timing = running.time(path)?;
    // The request that opens the connection is not timed, but it visits nodes too.
    let visited = (running.metric(VISITED)? - before) / (timing.requests + 1) as f64;
    let mut figure = Figure::new(4);
    figure.read("names below `a`", count as f64, "");
    figure.read("names returned", timing.results as f64, "");
    figure.read("nodes visited for each", visited / timing.results as f64, "");
    figure.read("p50", timing.p50_ms, "ms");
    figure.judge(visited <= 2.0 * timing.results as f64);
    Ok(figure)
}

/// Of 100 names, one has a second component that begins with x and ends with z; of 10 names, one has a second
/// component that begins with x.
fn write_ends(out: &mut dyn Write, count: u64, time: i64) -> io::Result<u64> {
    for number in 0..count {
        let first = if number % 10 == 0 { 'x' } else { 'k' };
        let last = if number % 100 == 0 { 'z' } else { 'q' };
        writeln!(out, "a.{first}{number}{last}.c 1 {time}")?;
    }
    Ok(count)
}

fn more_names(setup: &Setup<'_>, running: &Running, now: i64) -> Result<Figure, BenchError> {
    let queries: Vec<Query> = Query::defaults(Shape::Hosts)
        .into_iter()
        // At the full size this query finds more names than one search may return.
        .filter(|query| query.label != "expand dc1.*.*.*.*.*")
        .collect();
    let (mut figure, mut sent) = (Figure::new(2), 0);
    let mut rounds: Vec<Vec<Timing>> = Vec::new();
    let others = running.metric(NAMES)?;
    for million in MILLIONS {
        let count = setup.scaled(million * 1_000_000, million * 100);
        running.send(|out| write_hosts(out, sent, count, now))?;
        running.wait_for(NAMES, others + count as f64)?;
        sent = count;
        let round = running.time_all(&queries)?;
        for timing in &round {
            figure.read(format!("{count} names, {}: p50", timing.label), timing.p50_ms, "ms");
            figure.read(format!("{count} names, {}: p99", timing.label), timing.p99_ms, "ms");
        }
        rounds.push(round);
    }
    let growth = growth(&rounds);
    figure.read("largest growth of a p50 in the last step", growth, "times");
    figure.judge(growth <= 3.0);
    Ok(figure)
}

/// The time of the last round divided by that of the round before, for the query whose time grew most; NaN
/// for one round.
fn growth(rounds: &[Vec<Timing>]) -> f64 {
    let [.., before, last] = rounds else { return f64::NAN };
    last.iter().zip(before).map(|(last, before)| last.p50_ms / before.p50_ms).fold(f64::NAN, f64::max)
}

fn write_hosts(out: &mut dyn Write, from: u64, until: u64, time: i64) -> io::Result<u64> {
    let mut line = Vec::new();
    for number in from..until {
        line.clear();
        names::write(&mut line, Shape::Hosts, "", number as usize);
        out.write_all(&line)?;
        writeln!(out, " 1 {time}")?;
    }
    Ok(until - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_as_many_components_as_asked() {
        for depth in DEPTHS.into_iter().chain(TOO_DEEP) {
            assert_eq!(deep(depth, 7).split('.').count(), depth);
        }
    }

    #[test]
    fn one_name_in_a_hundred_has_both_ends() {
        let mut lines = Vec::new();
        assert_eq!(write_ends(&mut lines, 1000, 60).unwrap(), 1000);
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(lines.lines().filter(|l| l.starts_with("a.x") && l.contains("z.c ")).count(), 10);
    }

    #[test]
    fn growth_is_that_of_the_last_step() {
        let round = |p50_ms| {
            let label = String::new();
            vec![Timing { label, requests: 1, p50_ms, p99_ms: p50_ms, results: 0, bytes: 0 }]
        };
        assert_eq!(growth(&[round(9.0), round(1.0), round(2.5)]), 2.5);
        assert!(growth(&[round(1.0)]).is_nan());
    }
}
