//! H8 to H12: three metrics of very many cities over a simulated year.

use serde_json::{Value, json};

use super::site::{CREATED, Running, Site};
use super::year::{METRICS, SCHEMAS, Year, city};
use super::{Disk, Figure, Setup, wall_clock};
use crate::BenchError;
use crate::http::encode;
use crate::query::{Query, Timing};

/// Weeks of Antalya that are deleted one by one.
const DELETED_WEEKS: [i64; 5] = [5, 14, 23, 32, 41];
const ALL_METRICS: &str = "name=~^(Temperature|Humidity|Wind)$";
const TAGGED: &str = "plumbago_index_tagged";
const INDEX_BYTES: &str = "plumbago_index_memory_bytes";

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let year = Year::before(wall_clock(), setup.scaled(300_000, 3).saturating_sub(2));
    let site = Site::new(setup, "cities", SCHEMAS)?;
    let first = first_period(setup, &site, year)?;
    let running = site.start(year.week(Year::weeks(true).start))?;
    let later = send_weeks(&running, year, true)?;
    let mut figures = Vec::new();
    if setup.wants(9) {
        figures.push(one_city(&running)?);
    }
    if setup.wants(10) {
        figures.push(targets(&running, year)?);
    }
    if setup.wants(11) {
        figures.push(delete_weeks(setup, &running, year)?);
    }
    if setup.wants(12) {
        figures.push(delete_parts(&running, year)?);
    }
    running.stop()?;
    if setup.wants(8) {
        let disk = (setup.disk)(&site.data(), false)?;
        figures.insert(0, names_written(year, &first, &later, disk));
    }
    Ok(figures)
}

/// How the index grew while some weeks were written.
#[derive(Debug)]
struct Written {
    names: f64,
    memory_before: f64,
    memory_after: f64,
    disk: Disk,
}

/// Sends the first three weeks, and stops the daemon to measure its disk use.
fn first_period(setup: &Setup<'_>, site: &Site<'_>, year: Year) -> Result<Written, BenchError> {
    let running = site.start(year.start)?;
    let written = send_weeks(&running, year, false)?;
    running.stop()?;
    Ok(Written { disk: (setup.disk)(&site.data(), false)?, ..written })
}

fn send_weeks(running: &Running, year: Year, later: bool) -> Result<Written, BenchError> {
    let memory_before = running.metric(INDEX_BYTES)?;
    for week in Year::weeks(later) {
        running.set_clock(year.week(week + 1))?;
        running.send(|out| year.write_week(week, out))?;
        running.wait_for(TAGGED, year.series() as f64)?;
    }
    if !later {
        running.wait_created(year.series())?;
    }
    let (names, memory_after) = (running.metric(CREATED)?, running.metric(INDEX_BYTES)?);
    Ok(Written { names, memory_before, memory_after, disk: Disk::default() })
}

fn names_written(year: Year, first: &Written, later: &Written, disk: Disk) -> Figure {
    let mut figure = Figure::new(8);
    let grown = disk.names_bytes as f64 - first.disk.names_bytes as f64;
    let later_periods = Year::periods() - 1.0;
    figure.read("series", year.series() as f64, "");
    figure.read("names written in the first three weeks", first.names, "");
    figure.read("names written in the 49 weeks after", later.names, "");
    figure.read("index rows of KairosDB's model in the year", year.kairosdb_rows() as f64, "");
    figure.read("index in memory after three weeks", first.memory_after, "B");
    figure.read("index in memory, growth in the 49 weeks", later.memory_after - later.memory_before, "B");
    figure.read("names on disk after three weeks", first.disk.names_bytes as f64, "B");
    figure.read("names on disk, growth per three weeks after", grown / later_periods, "B");
    figure.judge(first.names == year.series() as f64 && later.names == 0.0);
    figure
}

/// A search for tagged series.
fn find(label: &str, expressions: &[&str]) -> Query {
    let pairs: Vec<String> = expressions.iter().map(|e| format!("expr={}", encode(e))).collect();
    Query::path(label, format!("/tags/findSeries?{}", pairs.join("&")))
}

/// Times the search right after the load, while the daemon still writes and merges tables, and again once it is idle.
fn one_city(running: &Running) -> Result<Figure, BenchError> {
    let busy = running.time(find("one city, right after the load", &[ALL_METRICS, "city=Antalya"]))?;
    running.wait_until_idle()?;
    let queries = [
        find("one city", &[ALL_METRICS, "city=Antalya"]),
        find("one city by regex", &[ALL_METRICS, "city=~^Anta"]),
        find("all but one city", &[ALL_METRICS, "city!=Antalya"]),
    ];
    let timings = running.time_all(&queries)?;
    let mut figure = Figure::new(9);
    for timing in timings.iter().chain([&busy]) {
        figure.read(format!("{}: found", timing.label), timing.results as f64, "series");
        figure.read(format!("{}: p50", timing.label), timing.p50_ms, "ms");
        figure.read(format!("{}: p99", timing.label), timing.p99_ms, "ms");
    }
    figure.judge(timings.first().is_some_and(|t| t.results == METRICS.len() && t.p99_ms < 1.0));
    Ok(figure)
}

/// A request for one metric of several cities, with one target for each city. It covers few weeks, so that most of
/// its time is the search.
fn render(cities: u64, year: Year) -> Query {
    let target = |number| encode(&format!("seriesByTag('name=Wind','city={}')", city(number)));
    let targets: Vec<String> = (0..cities).map(|number| format!("target={}", target(number))).collect();
    let range = format!("from={}&until={}&format=json", year.week(48), year.end());
    Query::path(format!("{cities}"), format!("/render?{}&{range}", targets.join("&")))
}

fn targets(running: &Running, year: Year) -> Result<Figure, BenchError> {
    let counts = [1, 2, 10, 100].map(|count: u64| count.min(year.cities));
    let mut figure = Figure::new(10);
    let mut times = Vec::new();
    for count in counts {
        let timing = running.time(render(count, year))?;
        figure.read(format!("{count} targets: found"), timing.results as f64, "series");
        figure.read(format!("{count} targets: p50"), timing.p50_ms, "ms");
        times.push((count as f64, timing));
    }
    let found = times.iter().all(|(count, timing)| timing.results as f64 == *count);
    let each = |(count, timing): &(f64, Timing)| timing.p50_ms / count;
    let (first, last) = (times.first().map_or(f64::NAN, each), times.last().map_or(f64::NAN, each));
    figure.judge(found && last <= first);
    Ok(figure)
}

fn delete_weeks(setup: &Setup<'_>, running: &Running, year: Year) -> Result<Figure, BenchError> {
    let mut figure = Figure::new(11);
    let before = running.time(year_of("Antalya", year))?.p50_ms;
    let among_all = deletions(running, year)?;
    let after = running.time(year_of("Antalya", year))?.p50_ms;
    let mut left = 0;
    for week in DELETED_WEEKS {
        left += points_of(running, year, week)?;
    }
    let neighbours = points_of(running, year, DELETED_WEEKS[0] + 1)?;
    let site = Site::new(setup, "one-city", SCHEMAS)?;
    let few = Year { cities: 0, ..year };
    let alone = site.start(year.start)?;
    send_weeks(&alone, few, false)?;
    send_weeks(&alone, few, true)?;
    let without_others = deletions(&alone, few)?;
    alone.stop()?;
    figure.read("a week of one city among all, median of 5", among_all, "ms");
    figure.read("the same without other cities", without_others, "ms");
    figure.read("points left in the deleted weeks", left as f64, "");
    figure.read("points in the week after one of them", neighbours as f64, "");
    figure.read("drawing a year of the city before, p50", before, "ms");
    figure.read("drawing it after, p50", after, "ms");
    figure.judge(left == 0 && neighbours > 0 && among_all <= 2.0 * without_others);
    Ok(figure)
}

/// The median time that it takes to delete one week of Antalya, in milliseconds.
fn deletions(running: &Running, year: Year) -> Result<f64, BenchError> {
    let mut times = Vec::new();
    for week in DELETED_WEEKS {
        let range = (year.week(week), year.week(week + 1));
        times.push(delete(running, &[ALL_METRICS, "city=Antalya"], range)?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn delete(running: &Running, tags: &[&str], (from, until): (i64, i64)) -> Result<f64, BenchError> {
    let parameters = json!({"which": {"tags": tags}, "from": from, "until": until, "confirmed": true});
    running.job("delete", &parameters).map(|(_, took)| took)
}

/// The `/render` path for the metric `Wind` of a city.
fn wind(city: &str, from: i64, until: i64) -> String {
    let target = encode(&format!("seriesByTag('name=Wind','city={city}')"));
    format!("/render?target={target}&from={from}&until={until}&format=json")
}

fn year_of(city: &str, year: Year) -> Query {
    Query::path(format!("a year of {city}"), wind(city, year.start, year.end()))
}

/// The number of points of the metric `Wind` that Antalya has in a week.
fn points_of(running: &Running, year: Year, week: i64) -> Result<usize, BenchError> {
    let path = wind("Antalya", year.week(week) - 1, year.week(week + 1) - 1);
    Ok(points(&running.get(&path)?))
}

/// The number of known values in an answer of `/render`.
fn points(answer: &Value) -> usize {
    let series = answer.as_array().into_iter().flatten();
    let slots = series.filter_map(|series| series["datapoints"].as_array()).flatten();
    slots.filter(|slot| slot[0].is_number()).count()
}

fn delete_parts(running: &Running, year: Year) -> Result<Figure, BenchError> {
    let mut figure = Figure::new(12);
    let whole = running.time(year_of("Izmir", year))?.p50_ms;
    figure.read("whole: p50", whole, "ms");
    let mut slowest: f64 = 0.0;
    for percent in [10, 50, 90] {
        let until = year.start + (year.end() - year.start) / 100 * percent;
        delete(running, &["name=Wind", "city=Izmir"], (year.start, until))?;
        let left = points(&running.get(&wind("Izmir", year.start - 1, year.end()))?);
        let timing = running.time(year_of("Izmir", year))?;
        figure.read(format!("{percent} % deleted: points left"), left as f64, "");
        figure.read(format!("{percent} % deleted: p50"), timing.p50_ms, "ms");
        slowest = slowest.max(timing.p50_ms);
    }
    figure.judge(slowest <= 1.2 * whole);
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_counted() {
        let answer = json!([{"target": "a", "datapoints": [[1.0, 60], [null, 120], [2, 180]]}]);
        assert_eq!(points(&answer), 2);
        assert_eq!(points(&json!([])), 0);
    }

    #[test]
    fn names_are_written_once() {
        let year = Year { start: 0, cities: 8 };
        let of = |names| Written { names, memory_before: 1.0, memory_after: 1.0, disk: Disk::default() };
        let text =
            |later: f64| super::super::text(&[names_written(year, &of(30.0), &of(later), Disk::default())]);
        assert!(text(0.0).ends_with("     met\n"), "{}", text(0.0));
        assert!(text(1.0).ends_with("     not met\n"), "{}", text(1.0));
    }
}
