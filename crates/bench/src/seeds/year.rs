//! The simulated year: its weeks, its cities, and how many rows KairosDB's index would get.

use std::io::{self, Write};

pub(super) const DAY: i64 = 86_400;
pub(super) const WEEK: i64 = 7 * DAY;
/// KairosDB begins a new row, and writes its index again, every three weeks.
pub(super) const PERIOD: i64 = 3 * WEEK;
const WEEKS: i64 = 52;
/// The metrics of each city.
pub(super) const METRICS: [&str; 3] = ["Temperature", "Humidity", "Wind"];
/// The cities with a point every [`FINE_STEP`]; the other cities have one a week.
pub(super) const FINE: [&str; 2] = ["Antalya", "Izmir"];
pub(super) const FINE_STEP: i64 = 600;
/// Storage rules for the points of the year.
pub(super) const SCHEMAS: &str = "[fine]\npattern = city=(Antalya|Izmir)$\nretentions = 10m:2y\n\
     [all]\npattern = .*\nretentions = 1d:2y\n";

/// A year that ends with the last whole week.
#[derive(Debug, Clone, Copy)]
pub(super) struct Year {
    pub(super) start: i64,
    /// The number of cities besides those of [`FINE`].
    pub(super) cities: u64,
}

impl Year {
    pub(super) fn before(now: i64, cities: u64) -> Self {
        Self { start: now / WEEK * WEEK - WEEKS * WEEK, cities }
    }

    pub(super) fn end(&self) -> i64 {
        self.week(WEEKS)
    }

    /// The start of a week.
    pub(super) fn week(&self, number: i64) -> i64 {
        self.start + number * WEEK
    }

    /// The weeks of the first period, or with `later` those after it.
    pub(super) fn weeks(later: bool) -> std::ops::Range<i64> {
        if later { PERIOD / WEEK..WEEKS } else { 0..PERIOD / WEEK }
    }

    /// The number of series of all cities.
    pub(super) fn series(&self) -> u64 {
        METRICS.len() as u64 * (self.cities + FINE.len() as u64)
    }

    /// The number of periods in the year. The last one is not complete.
    pub(super) fn periods() -> f64 {
        WEEKS as f64 / (PERIOD / WEEK) as f64
    }

    /// The number of rows that KairosDB's index would get in the year: one for each series and period.
    pub(super) fn kairosdb_rows(&self) -> u64 {
        (self.series() as f64 * Self::periods().ceil()) as u64
    }

    /// Writes the lines of a week, ordered by time. Returns their number.
    pub(super) fn write_week(&self, week: i64, out: &mut dyn Write) -> io::Result<u64> {
        let (from, until) = (self.week(week), self.week(week + 1));
        let mut points = 0;
        for time in (from..until).step_by(FINE_STEP as usize) {
            for city in FINE {
                points += write_city(out, city, time)?;
            }
        }
        for number in 0..self.cities {
            points += write_city(out, &city(number), from)?;
        }
        Ok(points)
    }
}

/// The name of one of the other cities.
pub(super) fn city(number: u64) -> String {
    format!("c{number:06}")
}

/// Writes a point for each metric of a city.
fn write_city(out: &mut dyn Write, city: &str, time: i64) -> io::Result<u64> {
    for (metric, base) in METRICS.iter().zip([15, 60, 5]) {
        writeln!(out, "{metric};city={city} {} {time}", base + time / FINE_STEP % 20)?;
    }
    Ok(METRICS.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_has_whole_weeks() {
        let year = Year::before(1_700_000_000, 300_000);
        assert_eq!((year.start % WEEK, year.end() - year.start), (0, 364 * DAY));
        assert!(year.end() <= 1_700_000_000 && year.end() + WEEK > 1_700_000_000);
        assert_eq!((Year::weeks(false), Year::weeks(true)), (0..3, 3..52));
    }

    #[test]
    fn kairosdb_writes_its_index_each_period() {
        let year = Year::before(1_700_000_000, 299_998);
        assert_eq!((year.series(), year.kairosdb_rows()), (900_000, 16_200_000));
    }

    #[test]
    fn a_week_has_many_points_of_two_cities() {
        let mut lines = Vec::new();
        let year = Year::before(1_700_000_000, 5);
        let points = year.write_week(7, &mut lines).unwrap();
        assert_eq!(points, 3 * (2 * 7 * 144 + 5));
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(lines.lines().count() as u64, points);
        assert_eq!(lines.matches("Wind;city=c000004 ").count(), 1);
    }
}
