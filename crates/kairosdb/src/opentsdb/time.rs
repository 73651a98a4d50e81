//! Times and durations as OpenTSDB's queries write them.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

pub(super) use crate::unit::Unit;

/// The latest time that a query may name, in milliseconds: 13 digits.
const TIME_MAX_MS: i64 = 9_999_999_999_999;

/// A number of units, such as `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Duration {
    /// The number of units; at least 1.
    pub(super) count: i64,
    /// The unit.
    pub(super) unit: Unit,
}

impl Duration {
    /// Reads a duration.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (count, unit) = text.split_at(digits);
        let count: i64 = count.parse().map_err(|_| format!("Invalid duration (number): {text}"))?;
        if count == 0 {
            return Err(format!("Zero or negative duration: {text}"));
        }
        let unit = Unit::of_suffix(unit).ok_or_else(|| format!("Invalid duration (suffix): {text}"))?;
        let duration = Self { count, unit };
        if duration.checked_millis().is_none() {
            return Err(format!("Duration is too long: {text}"));
        }
        Ok(duration)
    }

    fn checked_millis(self) -> Option<i64> {
        self.count.checked_mul(self.unit.millis())
    }

    /// The length in milliseconds, without a calendar.
    pub(super) fn millis(self) -> i64 {
        self.checked_millis().unwrap_or(i64::MAX)
    }
}

/// Reads a time as milliseconds: seconds, milliseconds, `…ms`, `seconds.fraction`, `now`, `…-ago` or a date in a zone.
pub(super) fn time(text: &str, zone: &TimeZone, now_ms: i64) -> Result<i64, String> {
    let lower = text.to_ascii_lowercase();
    let ms = if lower == "now" {
        now_ms
    } else if let Some(ago) = lower.strip_suffix("-ago") {
        now_ms.saturating_sub(Duration::parse(ago)?.millis()).max(0)
    } else if text.contains(['/', ':']) {
        date(text, zone).ok_or_else(|| format!("Invalid date: {text}"))?
    } else {
        number(&lower).ok_or_else(|| format!("Invalid time: {text}"))?
    };
    if (0..=TIME_MAX_MS).contains(&ms) { Ok(ms) } else { Err(format!("Invalid time: {text}")) }
}

/// A number with up to ten digits means seconds, a longer one milliseconds.
fn number(text: &str) -> Option<i64> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    if let Some(ms) = text.strip_suffix("ms") {
        return digits(ms);
    }
    if let Some((seconds, fraction)) = text.split_once('.') {
        if seconds.len() != 10 || !(1..=3).contains(&fraction.len()) {
            return None;
        }
        return digits(&format!("{seconds}{fraction:0<3}"));
    }
    let number: i64 = digits(text)?;
    if text.len() <= 10 { number.checked_mul(1000) } else { Some(number) }
}

/// `yyyy/MM/dd`, with `-` or a blank also `HH:mm` or `HH:mm:ss`.
fn date(text: &str, zone: &TimeZone) -> Option<i64> {
    let format = match (text.len(), text.contains('-')) {
        (10, _) => "%Y/%m/%d",
        (16, true) => "%Y/%m/%d-%H:%M",
        (16, false) => "%Y/%m/%d %H:%M",
        (19, true) => "%Y/%m/%d-%H:%M:%S",
        (19, false) => "%Y/%m/%d %H:%M:%S",
        _ => return None,
    };
    let date = if text.len() == 10 {
        jiff::civil::Date::strptime(format, text).ok()?.at(0, 0, 0, 0)
    } else {
        DateTime::strptime(format, text).ok()?
    };
    let meant = zone.to_ambiguous_zoned(date);
    // If a clock shows an hour twice, Java chooses the second one.
    let zoned =
        if let AmbiguousOffset::Fold { .. } = meant.offset() { meant.later() } else { meant.compatible() };
    Some(zoned.ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_all_spellings() {
        let zone = TimeZone::get("Europe/Rome").unwrap();
        let now = 1_700_000_000_000;
        for (text, ms) in [
            ("1500000000", 1_500_000_000_000),
            ("1500000000123", 1_500_000_000_123),
            ("1500000000123ms", 1_500_000_000_123),
            ("5ms", 5),
            ("1500000000.123", 1_500_000_000_123),
            ("1500000000.5", 1_500_000_000_500),
            ("now", now),
            ("1h-ago", now - 3_600_000),
            ("30S-AGO", now - 30_000),
            ("1n-ago", now - 30 * 86_400_000),
            ("0", 0),
        ] {
            assert_eq!(time(text, &TimeZone::UTC, now), Ok(ms), "{text}");
        }
        for (text, utc, rome) in [
            ("2017/07/14", 1_499_990_400_000, 1_499_983_200_000),
            ("2017/07/14-02:40", 1_500_000_000_000, 1_499_992_800_000),
            ("2017/07/14 02:40:01", 1_500_000_001_000, 1_499_992_801_000),
        ] {
            assert_eq!(time(text, &TimeZone::UTC, now), Ok(utc), "{text}");
            assert_eq!(time(text, &zone, now), Ok(rome), "{text}");
        }
        assert_eq!(
            time("2017/10/29-02:30", &zone, now),
            Ok(1_509_240_600_000),
            "the second time that clocks show it"
        );
        assert_eq!(time("2017/03/26-02:30", &zone, now), Ok(1_490_491_800_000), "no clock shows it");
        for text in [
            "",
            "x",
            "-5",
            "1x-ago",
            "0h-ago",
            "99999999999999",
            "2017/13/14",
            "2017/7/14",
            "1.5",
            "ms",
            "1:2",
        ] {
            assert!(time(text, &TimeZone::UTC, now).is_err(), "{text}");
        }
        assert!(time("9223372036854775y-ago", &TimeZone::UTC, now).is_err());
    }
}
