//! Points of a series folded into buckets of time.

use jiff::tz::TimeZone;

use super::aggregate::Aggregator;
use super::calendar::Calendar;
use super::time::Duration;
use crate::kairos::Amount;

/// The point that stands for an empty bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// No point.
    None,
    /// A point that is not a number.
    Nan,
    /// A point without value.
    Null,
    /// A point of 0.
    Zero,
}

/// How time is divided into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// One bucket for the whole query.
    All,
    /// At multiples of a length since 1970.
    Clock,
    /// By a calendar.
    Calendar,
}

/// A downsampling, such as `10m-avg-nan`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Downsample {
    cut: Cut,
    every: Duration,
    fold: Aggregator,
    /// The point that stands for an empty bucket.
    pub fill: Fill,
}

/// The times of a query, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range<'a> {
    /// The start of the query.
    pub(super) start: i64,
    /// The end of the query (inclusive).
    pub(super) end: i64,
    /// The start of the time that is read: the start of an hour and of a bucket.
    pub(super) scan_start: i64,
    /// The end of the time that is read.
    pub(super) scan_end: i64,
    /// The zone of calendars.
    pub(super) zone: &'a TimeZone,
}

/// Points of a series, in ascending order of time: milliseconds and values.
pub(super) type Points = Vec<(i64, f64)>;

impl Downsample {
    /// Reads a downsampling. `by_calendar` says whether all downsamplings of the query use the calendar.
    pub(super) fn parse(text: &str, by_calendar: bool) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('-').collect();
        let [every, fold, fill @ ..] = &parts[..] else {
            return Err(format!("Invalid downsampling specifier '{text}': interval and function are needed"));
        };
        let (cut, every) = if every.contains("all") {
            (Cut::All, "1ms")
        } else if let Some(every) = every.strip_suffix('c') {
            (Cut::Calendar, every)
        } else {
            (if by_calendar { Cut::Calendar } else { Cut::Clock }, *every)
        };
        let unknown = || format!("No such downsampling function: {fold}");
        let fold = Aggregator::named(fold).ok_or_else(unknown)?;
        if fold == Aggregator::None {
            return Err("cannot use the NONE aggregator for downsampling".to_owned());
        }
        let fill = match fill.iter().map(|fill| fill.to_ascii_lowercase()).collect::<Vec<_>>().as_slice() {
            [] => Fill::None,
            [fill] => fill_named(fill).ok_or_else(|| format!("Unrecognized fill policy: {fill}"))?,
            _ => return Err(format!("Invalid downsampling specifier '{text}': too many parts")),
        };
        Ok(Self { cut, every: Duration::parse(every)?, fold, fill })
    }

    /// The approximate length of a bucket in milliseconds; 0 if there is only one bucket.
    pub(super) fn millis(&self) -> i64 {
        if self.cut == Cut::All { 0 } else { self.every.millis() }
    }

    /// Folds the points of a series. `buckets` is the number of buckets that the request may still make; this call
    /// subtracts those that it makes.
    pub(super) fn apply(
        &self,
        points: &[(i64, Amount)],
        range: Range<'_>,
        buckets: &mut usize,
    ) -> Result<Points, String> {
        let folded = match self.cut {
            Cut::All => return Ok(self.whole(points, range)),
            Cut::Clock => self.by_clock(points, range),
            Cut::Calendar => self.by_calendar(points, range)?,
        };
        if self.fill == Fill::None {
            return Ok(folded);
        }
        let starts = self.starts(range, buckets)?;
        Ok(self.filled(folded, &starts))
    }

    /// One bucket for all points of the query. The last time of the query is not part of it.
    fn whole(&self, points: &[(i64, Amount)], range: Range<'_>) -> Points {
        let within = points.iter().filter(|(ms, _)| (range.start..range.end).contains(ms));
        let values: Vec<Amount> = within.map(|(_, value)| *value).collect();
        if values.is_empty() { Vec::new() } else { vec![(range.start, self.fold.fold_slots(&values))] }
    }

    /// Only complete buckets: points before the first bucket that begins within the time that is read are
    /// ignored.
    fn by_clock(&self, points: &[(i64, Amount)], range: Range<'_>) -> Points {
        let length = self.every.millis();
        let first = range.scan_start.saturating_add(length - 1).div_euclid(length).saturating_mul(length);
        self.fold_buckets(points, first, |ms| Some(ms.div_euclid(length) * length)).unwrap_or_default()
    }

    fn by_calendar(&self, points: &[(i64, Amount)], range: Range<'_>) -> Result<Points, String> {
        let calendar = Calendar { every: self.every, zone: range.zone };
        let first = calendar.floor(range.scan_start).and_then(|start| {
            let is_before = start.timestamp().as_millisecond() < range.scan_start;
            if is_before { calendar.next(&start) } else { Some(start) }
        });
        let Some(first) = first else { return Err(BEYOND.to_owned()) };
        let mut bucket = None;
        let folded = self.fold_buckets(points, first.timestamp().as_millisecond(), |ms| {
            let (mut start, mut end) = match bucket.take() {
                Some(bucket) => bucket,
                None => {
                    let start = calendar.floor(ms)?;
                    let end = calendar.next(&start)?;
                    (start, end)
                }
            };
            // Between two points there may be very many short buckets.
            if end.timestamp().as_millisecond() <= ms
                && let Some(ahead) = calendar.ahead(&start, ms)
            {
                end = calendar.next(&ahead)?;
                start = ahead;
            }
            while end.timestamp().as_millisecond() <= ms {
                let next = calendar.next(&end)?;
                start = std::mem::replace(&mut end, next);
            }
            let at = start.timestamp().as_millisecond();
            bucket = Some((start, end));
            Some(at)
        });
        folded.ok_or_else(|| BEYOND.to_owned())
    }

    /// Folds points into buckets, starting with point `first`. Points whose buckets have the same start are
    /// folded together.
    fn fold_buckets(
        &self,
        points: &[(i64, Amount)],
        first: i64,
        mut start_of: impl FnMut(i64) -> Option<i64>,
    ) -> Option<Points> {
        let mut folded = Vec::new();
        let (mut open, mut values) = (i64::MIN, Vec::new());
        for (ms, value) in points.iter().filter(|(ms, _)| *ms >= first) {
            let start = start_of(*ms)?;
            if start != open && !values.is_empty() {
                folded.push((open, self.fold.fold_slots(&values)));
                values.clear();
            }
            open = start;
            values.push(*value);
        }
        if !values.is_empty() {
            folded.push((open, self.fold.fold_slots(&values)));
        }
        Some(folded)
    }

    /// The starts of all buckets of a range, including empty ones.
    fn starts(&self, range: Range<'_>, buckets: &mut usize) -> Result<Vec<i64>, String> {
        let too_many =
            || "empty buckets are more than the points that a request may have (api.limits.points)";
        let mut starts = Vec::new();
        let mut take = |start: i64| {
            *buckets = buckets.checked_sub(1).ok_or_else(too_many)?;
            starts.push(start);
            Ok::<(), String>(())
        };
        if self.cut == Cut::Clock {
            let length = self.every.millis();
            let aligned = |ms: i64| ms.div_euclid(length) * length;
            let mut start = aligned(range.scan_start);
            while start < aligned(range.scan_end) {
                take(start)?;
                start += length;
            }
            return Ok(starts);
        }
        let calendar = Calendar { every: self.every, zone: range.zone };
        let mut start = calendar.floor(range.scan_start).ok_or(BEYOND)?;
        let mut end = calendar.floor(range.scan_end).ok_or(BEYOND)?;
        if start == end {
            end = calendar.next(&end).ok_or(BEYOND)?;
        }
        while start < end {
            take(start.timestamp().as_millisecond())?;
            start = calendar.next(&start).ok_or(BEYOND)?;
        }
        Ok(starts)
    }

    fn filled(&self, folded: Points, starts: &[i64]) -> Points {
        let empty = if self.fill == Fill::Zero { 0.0 } else { f64::NAN };
        let mut folded = folded.into_iter().peekable();
        let value_at = |start: &i64| {
            while folded.next_if(|(ms, _)| ms < start).is_some() {}
            (*start, folded.next_if(|(ms, _)| ms == start).map_or(empty, |(_, value)| value))
        };
        starts.iter().map(value_at).collect()
    }
}

const BEYOND: &str = "the times of the query are outside of the calendar";

fn fill_named(name: &str) -> Option<Fill> {
    Some(match name {
        "none" => Fill::None,
        "nan" => Fill::Nan,
        "null" => Fill::Null,
        "zero" => Fill::Zero,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// Points of a raw stage.
    fn raw(points: &[(i64, f64)]) -> Vec<(i64, Amount)> {
        points.iter().map(|(ms, value)| (*ms, Amount::from(*value))).collect()
    }

    #[test]
    fn slots_of_coarse_stages_have_weights() {
        let slot = |mean: f64, count: u32| Amount { value: mean, sum: mean * f64::from(count), count };
        let points = [(0, slot(1.0, 9)), (60_000, slot(5.0, 1)), (120_000, slot(2.0, 3))];
        let range = Range { start: 0, end: HOUR, scan_start: 0, scan_end: HOUR, zone: &TimeZone::UTC };
        for (text, expected) in [("2m-avg", [1.4, 2.0]), ("2mc-count", [10.0, 3.0]), ("2m-sum", [14.0, 6.0])]
        {
            let made = Downsample::parse(text, false).unwrap().apply(&points, range, &mut 100).unwrap();
            assert_eq!(made, [(0, expected[0]), (120_000, expected[1])], "{text}");
        }
        let all = Downsample::parse("0all-avg", false).unwrap().apply(&points, range, &mut 100).unwrap();
        assert_eq!(all, [(0, 20.0 / 13.0)]);
    }

    fn apply(text: &str, points: &[(i64, f64)]) -> Points {
        let range =
            Range { start: 90_000, end: 200_000, scan_start: 0, scan_end: HOUR, zone: &TimeZone::UTC };
        Downsample::parse(text, false).unwrap().apply(&raw(points), range, &mut 10_000).unwrap()
    }

    #[test]
    fn buckets_are_folded() {
        let points = [(60_000, 1.0), (90_000, 2.0), (100_000, 4.0), (200_000, 8.0)];
        assert_eq!(apply("1m-sum", &points), [(60_000, 7.0), (180_000, 8.0)]);
        assert_eq!(apply("1m-max-none", &points), [(60_000, 4.0), (180_000, 8.0)]);
        assert_eq!(apply("1mc-count", &points), [(60_000, 3.0), (180_000, 1.0)]);
        // The last time of the query is not part of the one bucket.
        assert_eq!(apply("0all-sum", &points), [(90_000, 6.0)]);
        assert_eq!(apply("0all-sum", &points[..1]), []);
        let zero = apply("20m-sum-zero", &points);
        assert_eq!(zero, [(0, 15.0), (1_200_000, 0.0), (2_400_000, 0.0)]);
        let nan = apply("20mc-avg-NaN", &points);
        assert!(nan.len() == 3 && nan[0] == (0, 3.75) && nan[2].1.is_nan());
    }

    /// The work depends on the points and not on the number of empty buckets between them.
    #[test]
    fn short_buckets_of_a_calendar_are_skipped() {
        let day = 24 * HOUR;
        let points: Points = (0..20_000).map(|at| (at * day + at, 1.0)).collect();
        let range = Range {
            start: 0,
            end: 20_001 * day,
            scan_start: 0,
            scan_end: 20_001 * day,
            zone: &TimeZone::get("Europe/Rome").unwrap(),
        };
        let read = raw(&points);
        let apply =
            |text: &str| Downsample::parse(text, false).unwrap().apply(&read, range, &mut 1_000_000).unwrap();
        assert_eq!(apply("1msc-sum"), points);
        let hours = apply("1hc-count");
        let floored = points.iter().map(|(ms, value)| (ms / HOUR * HOUR, *value));
        assert_eq!(hours, floored.collect::<Points>());
        // Minutes that do not divide an hour are counted from the first bucket, which begins after the first point.
        let sevens = apply("7mc-sum");
        assert_eq!(sevens.len(), points.len() - 1);
        assert!(sevens.iter().all(|(ms, _)| (ms - sevens[0].0) % 420_000 == 0));
    }

    #[test]
    fn buckets_have_limits_and_names() {
        let range = Range { start: 0, end: 1, scan_start: 0, scan_end: HOUR, zone: &TimeZone::UTC };
        let small = Downsample::parse("1ms-sum-zero", false).unwrap();
        assert!(small.apply(&raw(&[(0, 1.0)]), range, &mut 100).unwrap_err().contains("api.limits.points"));
        for wrong in [
            "",
            "1m",
            "1m-x",
            "1m-none",
            "1m-sum-x",
            "1m-sum-nan-nan",
            "0m-sum",
            "m-sum",
            "1x-sum",
            "1m-sum-scalar",
            "c-sum",
        ] {
            assert!(Downsample::parse(wrong, false).is_err(), "{wrong}");
        }
        assert_eq!(Downsample::parse("1d-sum", true), Downsample::parse("1dc-sum", false));
        assert_eq!(Downsample::parse("0all-sum", false).unwrap().millis(), 0);
    }
}
