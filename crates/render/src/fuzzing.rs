//! Entry points for fuzzers: they must return, whatever the bytes are.
//!
//! Public so that the fuzz targets and the property tests share them.

use plumbago_model::Series;

use crate::{Fetched, Limits, Request, Step, TimeRange, TimeSeries, TimeZone, attime, evaluate, parse};

/// Parses a target and evaluates it over a few series, in as many rounds as needed.
pub fn target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(target) = parse(text) else { return };
    let request = Request {
        range: TimeRange { from: 0, until: 600 },
        now: 600,
        zone: TimeZone::utc(),
        x_files_factor: 0.0,
        templates: vec![("1".to_owned(), "x".to_owned())],
        limits: Limits { calls: 2_000, points: 1_000_000, fetches: 500 },
    };
    let targets = [target];
    let mut fetched = Fetched::default();
    for _ in 0..ROUNDS_MAX {
        let Ok(Step::Fetch(plan)) = evaluate(&targets, &request, &fetched) else { return };
        for fetch in plan.fetches {
            let series = few().map(|series| TimeSeries::fetched(series, &fetch.expression, 0.0)).collect();
            fetched.insert(fetch, series);
        }
    }
}

/// Maximum number of rounds. A round may need the results of the previous one, but no deeper than targets are
/// nested.
const ROUNDS_MAX: usize = 80;

/// Series for any expression: known and unknown values, extremes, no values, another step, tags.
fn few() -> impl Iterator<Item = Series> {
    let series = |(name, step, values): (&str, u32, &[f64])| Series {
        name: name.into(),
        start: 60,
        step,
        values: values.to_vec(),
    };
    let all: [(&str, u32, &[f64]); 4] = [
        ("a.b;dc=x", 60, &[1.0, f64::NAN, -0.5, f64::MAX, 0.0]),
        ("a.c", 10, &[f64::INFINITY, 2.0, f64::NAN, 3.0, f64::NEG_INFINITY, 1e-300]),
        ("a.d.e", 60, &[f64::NAN, f64::NAN]),
        ("x", 300, &[]),
    ];
    all.into_iter().map(series)
}

/// Parses a time, with two values for now, and in a zone with summer time.
pub fn time(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let zone = TimeZone::named("Europe/Rome").unwrap_or_default();
    for now in [0, 1_700_000_000] {
        let _ = attime::parse(text, now, &zone);
    }
    let _ = attime::parse_offset(text);
}
