//! Units of time and the ranges into which points fall.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Unit as JiffUnit, Zoned};

pub use crate::unit::Unit;

/// The zone of this name, from the time zone database or an offset like `+02:00`, `+0200` or `+02`. An empty name means
/// UTC.
pub(super) fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(name).ok().or_else(|| offset(name))
}

fn offset(text: &str) -> Option<TimeZone> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match (rest.split_once(':'), rest.len()) {
        (Some(parts), _) => parts,
        (None, 2) => (rest, "00"),
        (None, _) => rest.split_at_checked(2)?,
    };
    let part = |text: &str, most: i32| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i32>().ok().filter(|number| is_number && *number <= most)
    };
    let seconds = sign * (part(hours, 23)? * 3600 + part(minutes, 59)? * 60);
    Some(TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?))
}

impl Unit {
    fn span(self, count: i64) -> Option<Span> {
        let span = Span::new();
        match self {
            Self::Days => span.try_days(count),
            Self::Weeks => span.try_weeks(count),
            Self::Months => span.try_months(count),
            Self::Years => span.try_years(count),
            _ => span.try_milliseconds(count.checked_mul(self.millis())?),
        }
        .ok()
    }

    fn is_calendar(self) -> bool {
        matches!(self, Self::Days | Self::Weeks | Self::Months | Self::Years)
    }
}

/// A number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration {
    /// The number of units: at least 1, or 0 in a time relative to now.
    pub value: i64,
    /// The unit that is counted.
    pub unit: Unit,
}

impl Duration {
    /// The time this long before `now_ms`, by the calendar in UTC. `None` if the time is outside the range of
    /// calendars.
    pub fn before(self, now_ms: i64) -> Option<i64> {
        let then = zoned(now_ms, &TimeZone::UTC)?.checked_sub(self.unit.span(self.value)?).ok()?;
        Some(then.timestamp().as_millisecond())
    }

    /// The length in milliseconds of this duration if it begins at `ms`, by the calendar of a zone.
    pub fn length_from(self, ms: i64, zone: &TimeZone) -> f64 {
        let by_calendar = || {
            let then = zoned(ms, zone)?.checked_add(self.unit.span(self.value)?).ok()?;
            then.timestamp().as_millisecond().checked_sub(ms)
        };
        let by_clock = self.value as f64 * self.unit.millis() as f64;
        if self.unit.is_calendar() { by_calendar().map_or(by_clock, |ms| ms as f64) } else { by_clock }
    }
}

fn zoned(ms: i64, zone: &TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()))
}

/// Divides time into ranges of equal length beginning at a start.
#[derive(Debug)]
pub(super) struct Ranges {
    sampling: Duration,
    start: i64,
    zone: TimeZone,
    /// The range that was found last, because most points are in the same range as the previous one.
    last: (i64, i64),
}

impl Ranges {
    /// Ranges from `start` on, or with `align` from the beginning of the day, week, month or year before it.
    pub(super) fn new(sampling: Duration, align: bool, start: i64, zone: &TimeZone) -> Self {
        let start = if align { aligned(start, sampling.unit, zone).unwrap_or(start) } else { start };
        Self { sampling, start, zone: zone.clone(), last: (0, 0) }
    }

    /// The start and the end of the range that holds `ms`. The end is the start of the next range. Another aggregator
    /// may have made a point before the start of the query. As KairosDB divides towards zero, such a point falls into
    /// a later range.
    pub(super) fn of(&mut self, ms: i64) -> (i64, i64) {
        if !(self.last.0..self.last.1).contains(&ms) {
            self.last = self.find(ms);
        }
        self.last
    }

    fn find(&self, ms: i64) -> (i64, i64) {
        if self.sampling.unit.is_calendar()
            && let Some(range) = self.by_calendar(ms)
        {
            return range;
        }
        let length = self.sampling.value.saturating_mul(self.sampling.unit.millis()).max(1);
        let from = self.start + ms.saturating_sub(self.start) / length * length;
        (from, from.saturating_add(length))
    }

    fn by_calendar(&self, ms: i64) -> Option<(i64, i64)> {
        let start = zoned(self.start, &self.zone)?;
        let unit = match self.sampling.unit {
            Unit::Days => JiffUnit::Day,
            Unit::Weeks => JiffUnit::Week,
            Unit::Months => JiffUnit::Month,
            _ => JiffUnit::Year,
        };
        let between = start.until((unit, &zoned(ms, &self.zone)?)).ok()?;
        let units = match self.sampling.unit {
            Unit::Days => i64::from(between.get_days()),
            Unit::Weeks => i64::from(between.get_weeks()),
            Unit::Months => i64::from(between.get_months()),
            _ => i64::from(between.get_years()),
        };
        let past = units / self.sampling.value * self.sampling.value;
        let at = |units: i64| -> Option<i64> {
            let then = start.checked_add(self.sampling.unit.span(units)?).ok()?;
            Some(then.timestamp().as_millisecond())
        };
        Some((at(past)?, at(past.checked_add(self.sampling.value)?)?))
    }
}

/// The beginning of the second, day, week, month or year of a time.
fn aligned(ms: i64, unit: Unit, zone: &TimeZone) -> Option<i64> {
    if unit == Unit::Milliseconds {
        return Some(ms - ms.rem_euclid(1000));
    }
    let day = zoned(ms, zone)?.start_of_day().ok()?;
    let first = match unit {
        Unit::Weeks => {
            let past = day.weekday().since(Weekday::Monday);
            day.checked_sub(Span::new().try_days(past).ok()?).ok()?
        }
        Unit::Months => day.first_of_month().ok()?,
        Unit::Years => day.first_of_year().ok()?,
        _ => day,
    };
    Some(first.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_zones() {
        let seconds = |name: &str| Some(zone(name)?.to_offset(Timestamp::UNIX_EPOCH).seconds());
        for (name, expected) in [
            ("+02:00", Some(7200)),
            ("+0230", Some(9000)),
            ("-03", Some(-10_800)),
            ("", Some(0)),
            ("+2", None),
            ("+24", None),
            ("+02300", None),
            ("+02:", None),
        ] {
            assert_eq!(seconds(name), expected, "{name}");
        }
    }

    #[test]
    fn ranges_by_clock_and_calendar() {
        let zone = TimeZone::get("Europe/Rome").unwrap();
        let utc = TimeZone::UTC;
        let of = |value, unit, align, start, ms, zone: &TimeZone| {
            Ranges::new(Duration { value, unit }, align, start, zone).of(ms)
        };
        // 2023-11-14 22:13:20 UTC, a Tuesday.
        let now = 1_700_000_000_000;
        assert_eq!(of(10, Unit::Seconds, false, now, now + 25_000, &utc), (now + 20_000, now + 30_000));
        let day = 1_699_920_000_000;
        assert_eq!(of(1, Unit::Days, true, now, now, &utc), (day, day + 86_400_000));
        assert_eq!(of(7, Unit::Minutes, true, now, now, &utc).0, day + (now - day) / 420_000 * 420_000);
        assert_eq!(of(1, Unit::Weeks, true, now, now, &utc).0, day - 86_400_000);
        assert_eq!(of(1, Unit::Months, true, now, now, &utc).0, day - 13 * 86_400_000);
        assert_eq!(of(1, Unit::Years, true, now, now, &utc).0, 1_672_531_200_000);
        assert_eq!(of(1, Unit::Milliseconds, true, now + 5, now + 1007, &utc), (now + 1007, now + 1008));
        // 2023-10-29 has 25 hours in Rome.
        let autumn = 1_698_530_400_000;
        assert_eq!(of(1, Unit::Days, true, autumn + 1, autumn + 5, &zone), (autumn, autumn + 25 * 3_600_000));
        assert_eq!(Duration { value: 2, unit: Unit::Hours }.before(now), Some(now - 7_200_000));
        let length = |unit, zone: &TimeZone| Duration { value: 1, unit }.length_from(autumn, zone);
        assert_eq!((length(Unit::Days, &zone), length(Unit::Days, &utc)), (90_000_000.0, 86_400_000.0));
        assert_eq!(length(Unit::Months, &utc), 31.0 * 86_400_000.0);
    }
}
