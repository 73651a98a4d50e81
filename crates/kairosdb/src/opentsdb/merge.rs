//! Merges several series into one. It has the union of their times, and at each time a value is taken from every
//! series.

use super::aggregate::Aggregator;
use super::downsample::Points;

/// A series during the merge.
struct Cursor<'a> {
    points: &'a [(i64, f64)],
    /// The point at or before the current time. `None` before the series begins and after it ends.
    last: Option<(i64, f64)>,
    /// The number of the next point.
    next: usize,
}

impl Cursor<'_> {
    fn upcoming(&self) -> Option<(i64, f64)> {
        self.points.get(self.next).copied()
    }

    fn step(&mut self) {
        self.last = self.upcoming();
        self.next += 1;
    }

    /// The value at a time at which at least one series has a point.
    fn value(&self, ms: i64, aggregator: Aggregator, holds: bool) -> Option<f64> {
        let last = self.last?;
        if holds || last.0 == ms {
            return Some(last.1);
        }
        Some(self.upcoming().map_or(last.1, |next| aggregator.between(ms, last, next)))
    }
}

/// Aggregates series up to a time in milliseconds. Between the points of a series, the aggregator determines
/// its value. Before its first and after its last point, the series is ignored. A rate (`of_rates`) holds
/// until the next one, and the first rate of a series adds no time to the result. `steps` is the number of
/// values that the request may still read.
pub(super) fn merge(
    series: &[Points],
    aggregator: Aggregator,
    of_rates: bool,
    until: i64,
    steps: &mut u64,
) -> Result<Points, String> {
    let mut cursors: Vec<Cursor<'_>> =
        series.iter().map(|points| Cursor { points, last: None, next: 0 }).collect();
    if of_rates {
        cursors.retain(|cursor| cursor.points.len() > 1);
        cursors.iter_mut().for_each(Cursor::step);
    }
    let mut merged = Vec::new();
    let mut values = Vec::with_capacity(cursors.len());
    loop {
        // A series has ended when its last point was used.
        cursors.retain(|cursor| cursor.next < cursor.points.len());
        let times = cursors.iter().filter_map(Cursor::upcoming).map(|(ms, _)| ms);
        let Some(ms) = times.min().filter(|ms| *ms <= until) else { return Ok(merged) };
        *steps = steps.checked_sub(cursors.len() as u64).ok_or(TOO_MUCH)?;
        values.clear();
        for cursor in &mut cursors {
            if cursor.upcoming().is_some_and(|(next, _)| next == ms) {
                cursor.step();
            }
            values.extend(cursor.value(ms, aggregator, of_rates));
        }
        merged.push((ms, aggregator.fold(&mut values)));
    }
}

const TOO_MUCH: &str = "the series have too many different times to be aggregated: use a downsample";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, of_rates: bool, series: &[&[(i64, f64)]]) -> Points {
        let series: Vec<Points> = series.iter().map(|points| points.to_vec()).collect();
        merge(&series, Aggregator::named(name).unwrap(), of_rates, 100, &mut 1000).unwrap()
    }

    #[test]
    fn missing_points_are_interpolated() {
        let a: &[_] = &[(10, 1.0), (30, 3.0), (40, 4.0)];
        let b: &[_] = &[(20, 10.0), (30, 20.0)];
        assert_eq!(of("sum", false, &[a, b]), [(10, 1.0), (20, 12.0), (30, 23.0), (40, 4.0)]);
        assert_eq!(of("zimsum", false, &[a, b]), [(10, 1.0), (20, 10.0), (30, 23.0), (40, 4.0)]);
        assert_eq!(of("mimmin", false, &[a, b]), [(10, 1.0), (20, 10.0), (30, 3.0), (40, 4.0)]);
        assert_eq!(of("count", false, &[a, b]), [(10, 1.0), (20, 2.0), (30, 2.0), (40, 1.0)]);
        assert_eq!(of("first", false, &[a, b]), [(10, 1.0), (20, 0.0), (30, 3.0), (40, 4.0)]);
        assert_eq!(of("sum", false, &[]), []);
        assert_eq!(of("sum", false, &[&[(10, 1.0), (200, 3.0)]]), [(10, 1.0)]);
    }

    #[test]
    fn rates_hold_until_the_next_one() {
        let a: &[_] = &[(10, 0.5), (30, 3.0), (40, 4.0)];
        let b: &[_] = &[(20, 0.25), (40, 20.0)];
        assert_eq!(of("sum", true, &[a, b, &[(10, 7.0)]]), [(30, 3.25), (40, 24.0)]);
    }

    #[test]
    fn work_is_limited() {
        let points: Points = (0..100).map(|at| (at, 1.0)).collect();
        assert!(merge(&[points.clone(), points], Aggregator::Sum, false, 1000, &mut 100).is_err());
    }
}
