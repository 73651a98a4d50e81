//! The buckets of a downsampling by calendar, with the same boundaries as OpenTSDB's.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use super::time::{Duration, Unit};

/// Divides time into buckets of `every` units of a calendar.
///
/// A bucket of hours or less has a fixed length. It is counted from the beginning of the next larger unit. If its
/// length does not divide that unit, it is counted from the unit above that. Days are counted from the first of the
/// month. Several days, months and years are counted from the first of January, weeks from Sunday.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calendar<'a> {
    pub(super) every: Duration,
    pub(super) zone: &'a TimeZone,
}

impl Calendar<'_> {
    /// The start of the bucket that holds a time in milliseconds. `None` if the time is outside the range of
    /// calendars.
    pub(super) fn floor(&self, ms: i64) -> Option<Zoned> {
        let at = Timestamp::from_millisecond(ms).ok()?.to_zoned(self.zone.clone());
        let base = self.base(&at)?;
        if !self.is_of_days() {
            let start = base.timestamp().as_millisecond();
            let length = self.every.millis();
            let ms = start + (ms - start).div_euclid(length) * length;
            return Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(self.zone.clone()));
        }
        if self.every.unit == Unit::Weeks {
            return Some(base);
        }
        let mut start = base;
        loop {
            let next = self.next(&start)?;
            if next > at {
                return Some(start);
            }
            start = next;
        }
    }

    /// The start of the bucket that holds `ms`, counted from the start of an earlier bucket. `None` if buckets have no
    /// fixed length (days and longer), or if the time is beyond the calendar.
    pub(super) fn ahead(&self, start: &Zoned, ms: i64) -> Option<Zoned> {
        if self.is_of_days() {
            return None;
        }
        let (from, length) = (start.timestamp().as_millisecond(), self.every.millis());
        let at = Timestamp::from_millisecond(from + (ms - from).div_euclid(length) * length).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }

    /// The start of the bucket after the one that starts here.
    pub(super) fn next(&self, start: &Zoned) -> Option<Zoned> {
        let count = self.every.count;
        let span = match self.every.unit {
            Unit::Days => Span::new().try_days(count),
            Unit::Weeks => Span::new().try_days(count.checked_mul(7)?),
            Unit::Months => Span::new().try_months(count),
            Unit::Years => Span::new().try_years(count),
            _ => Span::new().try_milliseconds(self.every.millis()),
        };
        start.checked_add(span.ok()?).ok()
    }

    fn is_of_days(&self) -> bool {
        matches!(self.every.unit, Unit::Days | Unit::Weeks | Unit::Months | Unit::Years)
    }

    /// The time before `at` from which buckets are counted.
    fn base(&self, at: &Zoned) -> Option<Zoned> {
        let count = self.every.count;
        let day = || at.start_of_day().ok();
        match self.every.unit {
            Unit::Milliseconds if 1000 % count == 0 => self.clock(at, 1000),
            Unit::Milliseconds => self.clock(at, 60_000),
            Unit::Seconds if 60 % count == 0 => self.clock(at, 60_000),
            Unit::Seconds => self.clock(at, 3_600_000),
            Unit::Minutes if 60 % count == 0 => self.clock(at, 3_600_000),
            Unit::Minutes => day(),
            Unit::Hours if 24 % count == 0 => day(),
            Unit::Hours => day()?.first_of_month().ok(),
            Unit::Days if count == 1 => day()?.first_of_month().ok(),
            Unit::Days | Unit::Months | Unit::Years => day()?.first_of_year().ok(),
            Unit::Weeks => {
                let past = i64::from(at.weekday().to_sunday_zero_offset());
                day()?.checked_sub(Span::new().try_days(past).ok()?).ok()
            }
        }
    }

    /// The last time on the zone's clock that is a multiple of a length.
    fn clock(&self, at: &Zoned, length_ms: i64) -> Option<Zoned> {
        let local = at.timestamp().as_millisecond() + i64::from(at.offset().seconds()) * 1000;
        let past = local.rem_euclid(length_ms);
        let start = Timestamp::from_millisecond(at.timestamp().as_millisecond() - past).ok()?;
        Some(start.to_zoned(self.zone.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_begin_where_calendars_say() {
        let rome = TimeZone::get("Europe/Rome").unwrap();
        let start = |count, unit, zone: &TimeZone, ms| {
            let calendar = Calendar { every: Duration { count, unit }, zone };
            let start = calendar.floor(ms).unwrap();
            (start.timestamp().as_millisecond(), calendar.next(&start).unwrap().timestamp().as_millisecond())
        };
        // 2017-07-14 02:40:00 UTC, a Friday; 04:40 in Rome.
        let at = 1_500_000_000_000;
        let utc = TimeZone::UTC;
        let hour = 3_600_000;
        let day = 1_499_990_400_000;
        assert_eq!(start(1, Unit::Days, &utc, at), (day, day + 24 * hour));
        assert_eq!(start(1, Unit::Days, &rome, at), (day - 2 * hour, day + 22 * hour));
        assert_eq!(start(1, Unit::Days, &rome, day - 2 * hour), (day - 2 * hour, day + 22 * hour));
        assert_eq!(start(6, Unit::Hours, &rome, at), (day - 2 * hour, day + 4 * hour));
        // 7 minutes do not divide an hour, so they are counted from midnight.
        assert_eq!(start(7, Unit::Minutes, &utc, at).0, day + 22 * 420_000);
        assert_eq!(start(1, Unit::Weeks, &utc, at), (day - 5 * 24 * hour, day + 2 * 24 * hour));
        assert_eq!(start(1, Unit::Months, &utc, at), (day - 13 * 24 * hour, day + 18 * 24 * hour));
        assert_eq!(start(1, Unit::Years, &utc, at), (1_483_228_800_000, 1_514_764_800_000));
        // Three days from the first of January: July 14th is the 195th day, so the bucket begins with it.
        assert_eq!(start(3, Unit::Days, &utc, at).0, day - 2 * 24 * hour);
        // The 26th of March has 23 hours in Rome.
        let spring = 1_490_482_800_000;
        assert_eq!(start(1, Unit::Days, &rome, spring + 5), (spring, spring + 23 * hour));
    }
}
