//! Time zones, so that no type of the time library shows in this crate's interface.

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

/// A moment as clocks in a zone show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year, month, day.
    pub date: (i16, i8, i8),
    /// Hour, minute, second.
    pub time: (i8, i8, i8),
}

impl TimeZone {
    /// UTC.
    pub fn utc() -> Self {
        Self(tz::TimeZone::UTC)
    }

    /// A zone of the time-zone database, like `Europe/Rome`.
    pub fn named(name: &str) -> Option<Self> {
        tz::TimeZone::get(name).ok().map(Self)
    }

    /// What clocks show `seconds` after the epoch; `None` beyond the years of the calendar.
    pub fn local(&self, seconds: i64) -> Option<LocalTime> {
        let shown = self.civil(seconds)?;
        Some(LocalTime {
            date: (shown.year(), shown.month(), shown.day()),
            time: (shown.hour(), shown.minute(), shown.second()),
        })
    }

    pub(super) fn civil(&self, seconds: i64) -> Option<DateTime> {
        let timestamp = jiff::Timestamp::from_second(seconds).ok()?;
        Some(self.0.to_datetime(timestamp))
    }

    /// The moment at which clocks show `shown`. An hour that comes twice is the second one, an hour
    /// that is left out counts on from before the change: Graphite takes standard time in both.
    pub(super) fn moment(&self, shown: DateTime) -> Option<i64> {
        let moment = self.0.to_ambiguous_timestamp(shown).later().ok()?;
        Some(moment.as_second())
    }
}
