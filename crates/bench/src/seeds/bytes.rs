//! H5 and H6: the bytes of keys and of points on the disk.

use std::io::{self, Write};

use super::site::Site;
use super::{Disk, Figure, Setup, wall_clock};
use crate::BenchError;
use crate::load::values::Walk;

/// Bytes of the key of a row of the embedded store: the metric's id and the number of the block.
const KEY_BYTES: f64 = 20.0;
/// Bytes of BigGraphite's keys for each point, as its documentation states.
const BIGGRAPHITE: f64 = 0.012;
const SEED: u64 = 1;
const DAY: i64 = 86_400;

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let metrics = setup.scaled(10_000, 20);
    let minutes = Series { metrics, step: 60, seconds: 21 * DAY };
    let of_minutes = fill(setup, "minutes", "[all]\npattern = .*\nretentions = 1m:60d\n", minutes)?;
    let mut figures = Vec::new();
    if setup.wants(5) {
        let hours = Series { metrics: setup.scaled(10_000, 20), step: 3600, seconds: 364 * DAY };
        let of_hours = fill(setup, "hours", "[all]\npattern = .*\nretentions = 1h:2y\n", hours)?;
        figures.push(keys(of_minutes, of_hours));
    }
    if setup.wants(6) {
        figures.push(points(of_minutes));
    }
    Ok(figures)
}

/// Metrics with a point at each step, up to now.
#[derive(Debug, Clone, Copy)]
struct Series {
    metrics: u64,
    step: i64,
    seconds: i64,
}

/// Sends the points to a daemon, stops it, and measures its disk use.
fn fill(setup: &Setup<'_>, name: &str, schemas: &str, series: Series) -> Result<Disk, BenchError> {
    let site = Site::new(setup, name, schemas)?;
    let now = wall_clock() / DAY * DAY;
    let running = site.start(now)?;
    running.send(|out| series.write(now, out))?;
    // Points that arrived just before the stop may still be in state rows.
    running.flush()?;
    running.stop()?;
    (setup.disk)(&site.data(), true)
}

impl Series {
    fn write(self, now: i64, out: &mut dyn Write) -> io::Result<u64> {
        let mut walks: Vec<Walk> = (0..self.metrics).map(|n| Walk::new(SEED, n as usize)).collect();
        let (mut points, mut line) = (0, Vec::new());
        for time in (now - self.seconds..now).step_by(self.step as usize) {
            for (number, walk) in walks.iter_mut().enumerate() {
                line.clear();
                walk.write(&mut line);
                write!(out, "bytes.m{number} ")?;
                out.write_all(&line)?;
                writeln!(out, " {time}")?;
                points += 1;
            }
        }
        Ok(points)
    }
}

/// The bytes of keys per point; NaN if there are no points.
fn key_bytes(disk: Disk) -> f64 {
    KEY_BYTES * disk.rows as f64 / disk.points as f64
}

fn keys(minutes: Disk, hours: Disk) -> Figure {
    let mut figure = Figure::new(5);
    for (name, disk) in [("60 s", minutes), ("1 h", hours)] {
        figure.read(format!("{name}: points of a row"), disk.points as f64 / disk.rows as f64, "");
        figure.read(format!("{name}: key bytes for each point"), key_bytes(disk), "B");
    }
    figure.judge(key_bytes(minutes) <= BIGGRAPHITE && key_bytes(hours) <= BIGGRAPHITE);
    figure
}

fn points(disk: Disk) -> Figure {
    let mut figure = Figure::new(6);
    let each = disk.bytes as f64 / disk.points as f64;
    figure.read("points", disk.points as f64, "");
    figure.read("with keys, in the files of the stage", each, "B/point");
    figure.judge(each <= 1.3);
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_keys_are_shared_by_the_points_of_a_row() {
        let disk = Disk { rows: 2, points: 4000, bytes: 4800, names_bytes: 1 };
        assert_eq!(key_bytes(disk), 0.01);
        assert!(super::super::text(&[keys(disk, disk)]).ends_with("     met\n"));
        assert!(super::super::text(&[points(disk)]).contains("1.200 B/point"));
        assert!(super::super::text(&[points(Disk::default())]).contains("not measured"));
    }

    #[test]
    fn each_step_has_a_line_of_each_metric() {
        let mut lines = Vec::new();
        let series = Series { metrics: 3, step: 60, seconds: 300 };
        assert_eq!(series.write(6000, &mut lines).unwrap(), 15);
        let lines = String::from_utf8(lines).unwrap();
        assert!(lines.starts_with("bytes.m0 ") && lines.ends_with(" 5940\n"), "{lines}");
    }
}
