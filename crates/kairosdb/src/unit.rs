//! Units of time, which the two protocols name differently.

/// A unit of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// 1 ms.
    Milliseconds,
    /// 1000 ms.
    Seconds,
    /// 60 s.
    Minutes,
    /// 60 min.
    Hours,
    /// 24 h, or days of a calendar.
    Days,
    /// 7 days, or weeks of a calendar.
    Weeks,
    /// 30 days, or months of a calendar.
    Months,
    /// 365 days, or years of a calendar.
    Years,
}

impl Unit {
    /// All units, from the shortest to the longest.
    const ALL: [Self; 8] = [
        Self::Milliseconds,
        Self::Seconds,
        Self::Minutes,
        Self::Hours,
        Self::Days,
        Self::Weeks,
        Self::Months,
        Self::Years,
    ];

    /// The unit of this name in KairosDB's queries, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::among(["milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "years"], name)
    }

    /// The unit of this suffix in OpenTSDB's queries, in any case.
    pub(crate) fn of_suffix(suffix: &str) -> Option<Self> {
        Self::among(["ms", "s", "m", "h", "d", "w", "n", "y"], suffix)
    }

    /// The unit with a name, by the names of [`Self::ALL`].
    fn among(names: [&str; 8], name: &str) -> Option<Self> {
        names.iter().position(|known| known.eq_ignore_ascii_case(name)).map(|at| Self::ALL[at])
    }

    /// The length of one unit in milliseconds, if no calendar applies.
    pub fn millis(self) -> i64 {
        match self {
            Self::Milliseconds => 1,
            Self::Seconds => 1000,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
            Self::Days => 86_400_000,
            Self::Weeks => 7 * 86_400_000,
            Self::Months => 30 * 86_400_000,
            Self::Years => 365 * 86_400_000,
        }
    }
}
