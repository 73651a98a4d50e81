//! `timeShiftByMetric`: shifts the series of older versions of a program to the newest one.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "timeShiftByMetric",
    Group::Transform,
    &[SERIES, Param::new("markSource", Kind::Series), Param::new("versionRankIndex", Kind::Integer)],
    shift,
)
.about(
    "Moves the series of older versions in time, so that all versions begin together. Marks are series with a point where a version begins; the last component of their names is the version (major_minor). The newest mark of each major version is used.",
    "timeShiftByMetric(apps.*.errors, apps.mark.*, 1)",
)];

/// A version, and how many seconds after its start the newest one started.
type Offset = (String, i64);

fn shift(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let rank =
        usize::try_from(args.int(2)).map_err(|_| "the argument versionRankIndex must not be negative")?;
    let (series, marks) = (args.series(0), args.series(1));
    if series.is_empty() || marks.is_empty() {
        return Ok(Vec::new().into());
    }
    let shape = |series: &TimeSeries| (series.step, series.values.len());
    if let Some(other) = series.iter().chain(&marks).find(|other| shape(other) != shape(&series[0])) {
        return Err(format!("{} and {} have different numbers of points", series[0].name, other.name).into());
    }
    let offsets = offsets(&marks);
    if offsets.len() < 2 {
        return Err(format!("needs marks of two major versions, but got {}", offsets.len()).into());
    }
    let mut results = Vec::new();
    for mut series in series {
        let path = series.tags.get("name").unwrap_or_default();
        let Some(offset) = path.split('.').nth(rank).and_then(|version| offset_of(version, &offsets)) else {
            continue;
        };
        series.start += offset;
        series.end += offset;
        series.rename(format!("timeShiftByMetric({})", series.name));
        results.push(series);
    }
    Ok(results.into())
}

/// The newest version of each major version, with the newest major version first.
fn offsets(marks: &[TimeSeries]) -> Vec<Offset> {
    let mut newest: BTreeMap<u64, (u64, &str, usize)> = BTreeMap::new();
    for mark in marks {
        let text = mark.tags.get("name").unwrap_or_default().rsplit('.').next().unwrap_or_default();
        let last = mark.values.iter().rposition(|value| !value.is_nan());
        let (Some((major, minor)), Some(last)) = (version(text), last) else { continue };
        if newest.get(&major).is_none_or(|(known, ..)| minor > *known) {
            newest.insert(major, (minor, text, last));
        }
    }
    let top = newest.last_key_value().map_or(0, |(_, (.., last))| *last as i64);
    let step = marks.first().map_or(1, |mark| mark.step);
    let offset = |(_, text, last): (u64, &str, usize)| (text.to_owned(), (top - last as i64) * step);
    newest.into_values().rev().map(offset).collect()
}

/// Reads the first two numbers of a version, which `_` separates.
fn version(text: &str) -> Option<(u64, u64)> {
    let is_digit = |c: char| c.is_ascii_digit();
    text.match_indices('_').find_map(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + 1..]);
        let major = &before[before.trim_end_matches(is_digit).len()..];
        let minor = &behind[..behind.len() - behind.trim_start_matches(is_digit).len()];
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

/// The offset of the entry with exactly this version. Otherwise that of the first entry with this major version, or else
/// with this prefix.
fn offset_of(version: &str, offsets: &[Offset]) -> Option<i64> {
    let behind = |(mark, _): &&Offset| mark.strip_prefix(version).map(str::to_owned);
    let by =
        |fits: fn(&str) -> bool| offsets.iter().find(|offset| behind(offset).is_some_and(|rest| fits(&rest)));
    let found = by(str::is_empty).or_else(|| by(|rest| rest.starts_with('_'))).or_else(|| by(|_| true));
    found.map(|(_, offset)| *offset)
}
