//! The reference of a time, before its offset: `now`, or a time of day and a date.

use jiff::ToSpan;
use jiff::civil::{Date, Time, Weekday};

use super::TimeZone;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

const HOURS: [(&str, i8); 3] = [("noon", 12), ("midnight", 0), ("teatime", 16)];

/// Parses a reference, in seconds since the epoch.
pub(super) fn parse(text: &str, now: i64, zone: &TimeZone) -> Result<i64, String> {
    if text.is_empty() || text == "now" {
        return Ok(now);
    }
    let (time, rest) = time_of_day(text)?;
    let today = zone.civil(now).ok_or("now is outside of the calendar")?.date();
    let date = date(rest, today)?;
    zone.moment(date.to_datetime(time)).ok_or_else(|| "outside of the calendar".to_owned())
}

/// Parses `HH:MM`, `HH:MMam`, `6pm`, `noon` and the like. Without a time of day it is midnight.
fn time_of_day(text: &str) -> Result<(Time, &str), String> {
    let ((mut hour, mut minute), mut rest) = ((0, 0), text);
    if let Some(colon @ 1..=2) = rest.find(':') {
        let minutes_end = rest.len().min(colon + 3);
        let minutes = rest.get(colon + 1..minutes_end).ok_or("expected minutes after the colon")?;
        (hour, minute) = (clock_number(&rest[..colon])?, clock_number(minutes)?);
        rest = &rest[minutes_end..];
        for half in ["am", "pm"] {
            if let Some(behind) = rest.strip_prefix(half) {
                (hour, rest) = (in_half(hour, half), behind);
                break;
            }
        }
    }
    for half in ["am", "pm"] {
        if let Some(at @ 1..=2) = rest.find(half) {
            hour = in_half(clock_number(&rest[..at])?, half);
            rest = &rest[at + 2..];
        }
    }
    if let Some((name, named)) = HOURS.iter().find(|(name, _)| rest.starts_with(name)) {
        (hour, minute, rest) = (*named, 0, &rest[name.len()..]);
    }
    let time = Time::new(hour, minute, 0, 0).map_err(|_| format!("there is no {hour}:{minute:02}"))?;
    Ok((time, rest))
}

fn clock_number(text: &str) -> Result<i8, String> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().ok_or_else(|| format!("{text:?} is not an hour or minute"))
}

/// 12am is midnight and 12pm is noon. graphite-web has them reversed.
fn in_half(hour: i8, half: &str) -> i8 {
    match (hour, half) {
        (12, "am") => 0,
        (12, _) | (_, "am") => hour,
        _ => (hour + 12) % 24,
    }
}

fn date(text: &str, today: Date) -> Result<Date, String> {
    let shifted = match text {
        "" | "today" => Some(Ok(today)),
        "yesterday" => Some(today.yesterday()),
        "tomorrow" => Some(today.tomorrow()),
        _ => None,
    };
    if let Some(date) = shifted {
        return date.map_err(|_| "outside of the calendar".to_owned());
    }
    if text.matches('/').count() == 2 {
        return month_day_year(text);
    }
    if text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit()) {
        return calendar_day(number(&text[..4])?, number(&text[4..6])?, number(&text[6..])?);
    }
    let prefix = text.get(..3).unwrap_or_default();
    if let Some(month) = MONTHS.iter().position(|name| *name == prefix) {
        return calendar_day(i64::from(today.year()), month as i64 + 1, day_of_month(text)?);
    }
    match WEEKDAYS.iter().find(|(name, _)| *name == prefix) {
        Some((_, weekday)) => latest(*weekday, today),
        None => Err(format!("{text:?} is not a day")),
    }
}

/// Parses `MM/DD/YY` or `MM/DD/YYYY`. Two digits stand for the years 1970 to 2069.
fn month_day_year(text: &str) -> Result<Date, String> {
    let mut parts = text.split('/').map(number);
    let mut next = || parts.next().unwrap_or_else(|| Err("expected MM/DD/YY".to_owned()));
    let (month, day, mut year) = (next()?, next()?, next()?);
    if year < 1900 {
        year += 1900;
    }
    if year < 1970 {
        year += 100;
    }
    calendar_day(year, month, day)
}

/// Parses the one or two digits at the end of `january5`.
fn day_of_month(text: &str) -> Result<i64, String> {
    let digits = text.bytes().rev().take(2).take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err("a month must be followed by a day, like jan5".to_owned());
    }
    number(&text[text.len() - digits..])
}

fn latest(weekday: Weekday, today: Date) -> Result<Date, String> {
    let back = today.weekday().since(weekday);
    today.checked_sub(i64::from(back).days()).map_err(|_| "outside of the calendar".to_owned())
}

fn number(text: &str) -> Result<i64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().ok_or_else(|| format!("{text:?} is not a number"))
}

fn calendar_day(year: i64, month: i64, day: i64) -> Result<Date, String> {
    let error = || format!("there is no {year:04}-{month:02}-{day:02}");
    match (i16::try_from(year), i8::try_from(month), i8::try_from(day)) {
        (Ok(y), Ok(m), Ok(d)) if y > 0 => Date::new(y, m, d).map_err(|_| error()),
        _ => Err(error()),
    }
}
