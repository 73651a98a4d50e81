//! Time zones. These types hide the time library from the interface of this crate.

use jiff::civil::DateTime;
use jiff::tz;

/// A time zone.
#[derive(Debug, Clone)]
pub struct TimeZone(tz::TimeZone);

impl Default for TimeZone {
    fn default() -> Self {
        Self::utc()
    }
}

/// A moment as a clock shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year, month, day.
    pub date: (i16, i8, i8),
    /// Hour, minute, second.
    pub time: (i8, i8, i8),
}

/// A unit of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    /// A week. The number is the day it begins with, where Monday is 1.
    Week(i64),
    Month,
    Year,
}

impl TimeZone {
    /// UTC.
    pub fn utc() -> Self {
        Self(tz::TimeZone::UTC)
    }

    /// The zone with this name in the time-zone database, such as `Europe/Rome`.
    pub fn named(name: &str) -> Option<Self> {
        tz::TimeZone::get(name).ok().map(Self)
    }

    /// The local time `seconds` after the epoch; `None` outside of the years of the calendar.
    pub fn local(&self, seconds: i64) -> Option<LocalTime> {
        let shown = self.civil(seconds)?;
        Some(LocalTime {
            date: (shown.year(), shown.month(), shown.day()),
            time: (shown.hour(), shown.minute(), shown.second()),
        })
    }

    /// The start of the unit that a moment is in. As in Graphite it has the zone's offset of the moment, even
    /// if clocks changed in between.
    pub(crate) fn beginning(&self, seconds: i64, unit: Unit) -> Option<i64> {
        let shown = self.civil(seconds)?;
        let day = shown.date();
        let beginning = match unit {
            Unit::Second => return Some(seconds),
            Unit::Minute => shown.with().second(0).build().ok()?,
            Unit::Hour => shown.with().minute(0).second(0).build().ok()?,
            Unit::Day => day.to_datetime(jiff::civil::Time::midnight()),
            Unit::Week(first) => {
                let back = (i64::from(day.weekday().to_monday_one_offset()) - first).rem_euclid(7);
                let first = day.checked_sub(jiff::Span::new().try_days(back).ok()?).ok()?;
                first.to_datetime(jiff::civil::Time::midnight())
            }
            Unit::Month => day.first_of_month().to_datetime(jiff::civil::Time::midnight()),
            Unit::Year => day.first_of_year().to_datetime(jiff::civil::Time::midnight()),
        };
        let utc = |shown: DateTime| Some(shown.to_zoned(tz::TimeZone::UTC).ok()?.timestamp().as_second());
        Some(seconds - (utc(shown)? - utc(beginning)?))
    }

    /// Whether summer time is in effect.
    pub(crate) fn is_summer_time(&self, seconds: i64) -> bool {
        jiff::Timestamp::from_second(seconds).is_ok_and(|moment| self.0.to_offset_info(moment).dst().is_dst())
    }

    pub(super) fn civil(&self, seconds: i64) -> Option<DateTime> {
        let timestamp = jiff::Timestamp::from_second(seconds).ok()?;
        Some(self.0.to_datetime(timestamp))
    }

    /// The moment of a local time. As in Graphite, standard time applies: if an hour occurs twice, the second
    /// one is meant, and a skipped hour is counted from the time before the change.
    pub(super) fn moment(&self, shown: DateTime) -> Option<i64> {
        let moment = self.0.to_ambiguous_timestamp(shown).later().ok()?;
        Some(moment.as_second())
    }
}
