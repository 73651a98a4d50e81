//! H17 to H19: sums after a kill, the same names from several senders, and directories after a deletion.

use std::io::{self, Write};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::site::{CREATED, Running, Site, send_lines};
use super::{Figure, Setup, wall_clock};
use crate::BenchError;
use crate::http::encode;

const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d\n";
const HOURLY: &str = "[all]\npattern = .*\nretentions = 1m:1d,1h:1y\n";
const NAMES: &str = "plumbago_index_names";
const DIRECTORIES: &str = "plumbago_index_directories";
const HOUR: i64 = 3600;
const SENDERS: u64 = 8;

/// Measures H17.
pub(super) fn a_kill(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let metrics = setup.scaled(10_000, 20);
    let hour = wall_clock() / HOUR * HOUR - HOUR;
    let site = Site::new(setup, "kill", HOURLY)?;
    let running = site.start(hour + HOUR / 2)?;
    running.send(|out| write_minutes(out, metrics, hour, 0..30))?;
    running.wait_created(metrics)?;
    running.wait_journaled()?;
    running.kill()?;
    let running = site.start(hour + HOUR / 2)?;
    running.set_clock(hour + HOUR)?;
    running.send(|out| write_minutes(out, metrics, hour, 30..60))?;
    let sums = sums(&running, hour)?;
    running.stop()?;
    let exact = sums.iter().filter(|sum| **sum == sum_of_hour()).count() as u64;
    let mut figure = Figure::new(17);
    figure.read("sums of an hour", sums.len() as f64, "");
    figure.read("of them exact", exact as f64, "");
    figure.judge(exact == metrics);
    Ok(vec![figure])
}

/// Writes a point of each metric for some minutes of an hour; the value is the number of the minute.
fn write_minutes(
    out: &mut dyn Write,
    metrics: u64,
    hour: i64,
    minutes: std::ops::Range<i64>,
) -> io::Result<u64> {
    let count = minutes.end - minutes.start;
    for minute in minutes {
        for number in 0..metrics {
            writeln!(out, "kill.m{number} {minute} {}", hour + 60 * minute)?;
        }
    }
    Ok(metrics * count.unsigned_abs())
}

/// The sum of the values of one hour.
fn sum_of_hour() -> f64 {
    (0..60).map(f64::from).sum()
}

/// The hour's aggregate of each metric. The range begins before the raw stage does, so that the stage with
/// one-hour slots answers.
fn sums(running: &Running, hour: i64) -> Result<Vec<f64>, BenchError> {
    let (from, until) = (hour - 48 * HOUR, hour + HOUR - 1);
    let path = format!("/render?target={}&from={from}&until={until}&format=json", encode("kill.*"));
    Ok(values_at(&running.get(&path)?, hour))
}

/// The value of each series at a time, from an answer of `/render`.
fn values_at(answer: &Value, time: i64) -> Vec<f64> {
    let slots = answer
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|series| series["datapoints"].as_array())
        .flatten();
    slots.filter(|slot| slot[1].as_i64() == Some(time)).filter_map(|slot| slot[0].as_f64()).collect()
}

/// Measures H18 and H19.
pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let now = wall_clock();
    let site = Site::new(setup, "creation", SCHEMAS)?;
    let running = site.start(now)?;
    let mut figures = Vec::new();
    if setup.wants(18) {
        figures.push(same_names(setup, &running, now)?);
    }
    if setup.wants(19) {
        figures.push(directories(setup, &running, now)?);
    }
    running.stop()?;
    Ok(figures)
}

fn same_names(setup: &Setup<'_>, running: &Running, now: i64) -> Result<Figure, BenchError> {
    let count = setup.scaled(1_000_000, 100);
    let begun = Instant::now();
    running.send(|out| write_names(out, "one", count, now))?;
    running.wait_created(count)?;
    let one = count as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let line = running.line();
    let send = move || send_lines(line, move |out| write_names(out, "all", count, now));
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        senders.into_iter().try_for_each(|sender| match sender.join() {
            Ok(sent) => sent.map(drop),
            Err(_) => Err(BenchError::io("send names")(io::Error::other("a sending thread panicked"))),
        })
    })?;
    running.expect(SENDERS * count)?;
    running.wait_created(2 * count)?;
    let all = count as f64 / begun.elapsed().as_secs_f64();
    let (created, names) = (running.metric(CREATED)? - count as f64, running.metric(NAMES)? - count as f64);
    let mut figure = Figure::new(18);
    figure.read("names", count as f64, "");
    figure.read("created by 8 senders of the same names", created, "");
    figure.read("in the index", names, "");
    figure.read("one sender", one, "names/s");
    figure.read("8 senders of the same names", all, "names/s");
    figure.judge(created == count as f64 && names == count as f64);
    Ok(figure)
}

fn write_names(out: &mut dyn Write, prefix: &str, count: u64, time: i64) -> io::Result<u64> {
    for number in 0..count {
        writeln!(out, "{prefix}.g{}.m{number} 1 {time}", number / 100)?;
    }
    Ok(count)
}

fn directories(setup: &Setup<'_>, running: &Running, now: i64) -> Result<Figure, BenchError> {
    let count = setup.scaled(1_000_000, 100);
    let (live, old) = (count / 100, count - count / 100);
    let (names, others) = (running.metric(NAMES)?, running.metric(DIRECTORIES)?);
    running.send(|out| write_directories(out, "live", live, now))?;
    running.send(|out| write_directories(out, "old", old, now))?;
    running.wait_for(NAMES, names + count as f64)?;
    let parameters = json!({"which": {"glob": "old.**"}, "confirmed": true});
    let (answer, took) = running.job("delete", &parameters)?;
    // `live` is itself a directory, in addition to those inside it.
    let left = running.metric(DIRECTORIES)? - others - live as f64 - 1.0;
    let kept = running.metric(NAMES)? - names;
    let mut figure = Figure::new(19);
    figure.read("directories with a metric each", count as f64, "");
    figure.read("metrics deleted", answer["metrics"].as_f64().unwrap_or(f64::NAN), "");
    figure.read("deletion took", took / 1000.0, "s");
    figure.read("empty directories left", left, "");
    figure.read("live metrics harmed", live as f64 - kept, "");
    figure.judge(left == 0.0 && kept == live as f64);
    Ok(figure)
}

fn write_directories(out: &mut dyn Write, prefix: &str, count: u64, time: i64) -> io::Result<u64> {
    for number in 0..count {
        writeln!(out, "{prefix}.d{number}.m 1 {time}")?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_of_an_hour_add_up() {
        let mut lines = Vec::new();
        assert_eq!(write_minutes(&mut lines, 2, 7200, 58..60).unwrap(), 4);
        assert!(String::from_utf8(lines).unwrap().ends_with("kill.m0 59 10740\nkill.m1 59 10740\n"));
        assert_eq!(sum_of_hour(), 1770.0);
    }

    #[test]
    fn the_value_of_a_time_is_taken_from_each_series() {
        let answer = json!([{"datapoints": [[1.0, 60], [2.0, 120]]}, {"datapoints": [[null, 60], [3, 120]]}]);
        assert_eq!(values_at(&answer, 120), [2.0, 3.0]);
        assert_eq!(values_at(&answer, 60), [1.0]);
    }
}
