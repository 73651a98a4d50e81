//! Graphite's times (`-6h`, `noon+2h`, `04:00_20240115`, epoch seconds) and time zones.
//!
//! The current time is a parameter; the clock is not read here. As in Graphite, a month is 30 days, a year is
//! 365 days, and an offset is a number of seconds even across a clock change.

mod offset;
mod reference;
#[cfg(test)]
mod tests;
mod zone;

pub(crate) use offset::parse_interval;
pub use offset::parse_offset;
pub(crate) use zone::Unit;
pub use zone::{LocalTime, TimeZone};

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time: {reason}")]
pub struct TimeError {
    /// The text that was given as a time.
    pub text: String,
    /// The problem of the text.
    pub reason: String,
}

/// The longest text that is parsed, in bytes.
const TIME_BYTES_MAX: usize = 256;

/// The first and the last second of the years 1 to 9999.
const EARLIEST: i64 = -62_135_596_800;
const LATEST: i64 = 253_402_300_799;

/// Parses a time, in seconds since the epoch. Days begin in `zone`; relative times count from `now` (seconds
/// since the epoch).
///
/// # Errors
///
/// Returns [`TimeError`] if the text is not a time, or if the time is outside of the years 1 to 9999.
pub fn parse(text: &str, now: i64, zone: &TimeZone) -> Result<i64, TimeError> {
    let error = |reason: String| TimeError { text: text.chars().take(64).collect(), reason };
    if text.len() > TIME_BYTES_MAX {
        return Err(error("too long".to_owned()));
    }
    let time: String = text.trim().to_lowercase().chars().filter(|c| !matches!(c, '_' | ',' | ' ')).collect();
    let seconds = match epoch(&time) {
        Some(seconds) => seconds,
        None => {
            let (reference, offset) = split(&time);
            let reference = reference::parse(reference, now, zone).map_err(error)?;
            reference.checked_add(parse_offset(offset).map_err(error)?).unwrap_or(i64::MAX)
        }
    };
    if (EARLIEST..=LATEST).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(error("outside of the years 1 to 9999".to_owned()))
    }
}

/// Digits are epoch seconds, unless they are a date of eight digits.
fn epoch(time: &str) -> Option<i64> {
    if time.is_empty() || !time.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i64 = time.parse().unwrap_or(i64::MAX);
    let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
    let is_date = time.len() == 8 && year > 1900 && month < 13 && day < 32;
    (!is_date).then_some(number)
}

/// Splits a time into its reference and its offset, which begins at the first plus, or else at the first minus.
fn split(time: &str) -> (&str, &str) {
    match time.find('+').or_else(|| time.find('-')) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    }
}
