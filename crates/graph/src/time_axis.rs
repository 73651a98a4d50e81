//! The horizontal axis: the times that have lines and labels.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The lines and labels for graphs of a certain density.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ticks {
    /// The smallest density, in seconds per pixel, for which these ticks are used.
    density: f64,
    pub(crate) minor: i64,
    pub(crate) major: i64,
    pub(crate) label: i64,
    /// The `strftime` format of the labels.
    pub(crate) format: &'static str,
    /// The longest time range, in seconds, for which these ticks are used.
    longest: i64,
}

const fn ticks(density: f64, steps: [i64; 3], format: &'static str, longest: i64) -> Ticks {
    let [minor, major, label] = steps;
    Ticks { density, minor, major, label, format, longest }
}

/// All choices, from the densest to the widest. They are those of RRDtool and Graphite.
const ALL: [Ticks; 23] = [
    ticks(0.0, [5, MINUTE, 5], "%H:%M:%S", 10 * MINUTE),
    ticks(0.07, [10, MINUTE, 10], "%H:%M:%S", 20 * MINUTE),
    ticks(0.14, [15, MINUTE, 15], "%H:%M:%S", 30 * MINUTE),
    ticks(0.27, [30, 2 * MINUTE, MINUTE], "%H:%M", 2 * HOUR),
    ticks(0.5, [MINUTE, 2 * MINUTE, MINUTE], "%H:%M", 2 * HOUR),
    ticks(1.2, [MINUTE, 4 * MINUTE, 2 * MINUTE], "%H:%M", 3 * HOUR),
    ticks(2.0, [MINUTE, 10 * MINUTE, 5 * MINUTE], "%H:%M", 6 * HOUR),
    ticks(5.0, [2 * MINUTE, 10 * MINUTE, 10 * MINUTE], "%H:%M", 12 * HOUR),
    ticks(10.0, [5 * MINUTE, 20 * MINUTE, 20 * MINUTE], "%H:%M", DAY),
    ticks(30.0, [10 * MINUTE, HOUR, HOUR], "%H:%M", 2 * DAY),
    ticks(60.0, [30 * MINUTE, 2 * HOUR, 2 * HOUR], "%H:%M", 2 * DAY),
    ticks(100.0, [2 * HOUR, 4 * HOUR, 4 * HOUR], "%a %H:%M", 6 * DAY),
    ticks(255.0, [6 * HOUR, 12 * HOUR, 12 * HOUR], "%m/%d %H:%M", 10 * DAY),
    ticks(600.0, [6 * HOUR, DAY, DAY], "%m/%d", 14 * DAY),
    ticks(1000.0, [12 * HOUR, DAY, DAY], "%m/%d", 365 * DAY),
    ticks(2000.0, [DAY, 2 * DAY, 2 * DAY], "%m/%d", 365 * DAY),
    ticks(4000.0, [2 * DAY, 4 * DAY, 4 * DAY], "%m/%d", 365 * DAY),
    ticks(8000.0, [7 * DAY / 2, 7 * DAY, 7 * DAY], "%m/%d", 365 * DAY),
    ticks(16_000.0, [7 * DAY, 14 * DAY, 14 * DAY], "%m/%d", 365 * DAY),
    ticks(32_000.0, [15 * DAY, 30 * DAY, 30 * DAY], "%m/%d", 365 * DAY),
    ticks(64_000.0, [30 * DAY, 60 * DAY, 60 * DAY], "%m/%d %Y", i64::MAX),
    ticks(100_000.0, [60 * DAY, 120 * DAY, 120 * DAY], "%m/%d %Y", i64::MAX),
    ticks(120_000.0, [120 * DAY, 240 * DAY, 240 * DAY], "%m/%d %Y", i64::MAX),
];

impl Ticks {
    /// The ticks for a range of `span` seconds on `pixels` pixels.
    pub(crate) fn new(span: i64, pixels: f64) -> Self {
        let density = span as f64 / pixels.max(1.0);
        let fits = |ticks: &&Self| ticks.density <= density && ticks.longest >= span;
        let ticks = ALL.iter().rev().find(fits).copied().unwrap_or(ALL[ALL.len() - 1]);
        // If the graph is wider than the last choice allows, the steps grow with the range.
        let times = (density / ALL[ALL.len() - 1].density).max(1.0) as i64;
        let [minor, major, label] = [ticks.minor, ticks.major, ticks.label].map(|step| step * times);
        Self { minor, major, label, ..ticks }
    }
}

/// Times from `start` up to `end` (exclusive), `step` seconds apart by the clock of the zone.
pub(crate) fn times(start: i64, end: i64, step: i64, zone: &TimeZone) -> Vec<i64> {
    /// Maximum number of times. No picture has room for more.
    const TIMES_MAX: usize = 1 << 14;
    let Some(first) = local(start, zone).and_then(|shown| beginning(shown, step)) else { return Vec::new() };
    let mut times = Vec::new();
    let mut shown = first;
    while times.len() < TIMES_MAX {
        let Some(time) = moment(shown, zone).filter(|time| *time < end) else { break };
        // The hour that is repeated when clocks go back counts once. The hour that is skipped does not count.
        if time >= start && times.last().is_none_or(|last| *last < time) {
            times.push(time);
        }
        let Ok(next) = shown.checked_add(SignedDuration::from_secs(step.max(1))) else { break };
        shown = next;
    }
    times
}

/// Formats a time. If the format cannot be used, returns the format itself.
pub(crate) fn text(time: i64, format: &str, zone: &TimeZone) -> String {
    let Ok(time) = Timestamp::from_second(time) else { return String::new() };
    let shown = time.to_zoned(zone.clone());
    jiff::fmt::strtime::format(format, &shown).unwrap_or_else(|_| format.to_owned())
}

fn local(time: i64, zone: &TimeZone) -> Option<DateTime> {
    Some(zone.to_datetime(Timestamp::from_second(time).ok()?))
}

fn moment(shown: DateTime, zone: &TimeZone) -> Option<i64> {
    zone.to_ambiguous_timestamp(shown).compatible().ok().map(Timestamp::as_second)
}

/// The start of the step that a time is in, counted within the next larger unit. Days are counted from the
/// day of the time.
fn beginning(shown: DateTime, step: i64) -> Option<DateTime> {
    let (hour, minute, second) =
        (i64::from(shown.hour()), i64::from(shown.minute()), i64::from(shown.second()));
    let back = if step < MINUTE {
        second % step
    } else if step < HOUR {
        (minute * MINUTE + second) % step
    } else {
        (hour * HOUR + minute * MINUTE + second) % step.min(DAY)
    };
    let shown = shown.with().subsec_nanosecond(0).build().ok()?;
    shown.checked_sub(SignedDuration::from_secs(back)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(start: i64, end: i64, step: i64, zone: &str) -> Vec<String> {
        let zone = TimeZone::get(zone).unwrap();
        times(start, end, step, &zone).into_iter().map(|time| text(time, "%d %H:%M:%S", &zone)).collect()
    }

    #[test]
    fn times_are_round_in_their_zone() {
        assert_eq!(shown(1_700_000_100, 1_700_000_220, MINUTE, "UTC"), ["14 22:15:00", "14 22:16:00"]);
        assert_eq!(shown(1_700_000_101, 1_700_007_300, HOUR, "Asia/Kolkata"), ["15 04:00:00", "15 05:00:00"]);
        assert_eq!(
            shown(1_700_000_100, 1_700_200_000, DAY, "Europe/Rome"),
            ["15 00:00:00", "16 00:00:00", "17 00:00:00"]
        );
    }

    #[test]
    fn days_stay_at_midnight_when_clocks_change() {
        // In Rome clocks went back from 3:00 to 2:00 on 27 October 2024, and forward on 31 March.
        assert_eq!(
            shown(1_729_893_600, 1_730_156_400, DAY, "Europe/Rome"),
            ["26 00:00:00", "27 00:00:00", "28 00:00:00"]
        );
        assert_eq!(
            shown(1_711_836_000, 1_711_850_400, HOUR, "Europe/Rome"),
            ["30 23:00:00", "31 00:00:00", "31 01:00:00", "31 03:00:00"]
        );
    }

    #[test]
    fn labels_fit_the_width() {
        assert_eq!(Ticks::new(DAY, 260.0).format, "%m/%d %H:%M");
        assert_eq!(Ticks::new(DAY, 500.0).format, "%a %H:%M");
        assert_eq!(Ticks::new(HOUR, 1000.0).label, 5 * MINUTE);
        assert_eq!(Ticks::new(50 * 365 * DAY, 300.0).label, 43 * 240 * DAY);
        assert_eq!(Ticks::new(1 << 40, 300.0).label, 30_541 * 240 * DAY);
        assert_eq!(times(i64::MAX / 2, i64::MAX, DAY, &TimeZone::UTC), []);
        assert_eq!(text(0, "%Q%!", &TimeZone::UTC), "%Q%!");
    }
}
