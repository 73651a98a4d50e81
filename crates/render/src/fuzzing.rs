//! Entry points for fuzzers: they must return, whatever the bytes are.
//!
//! Hidden from the interface's reader, public so that the fuzz targets and the property tests share
//! them.

use crate::{Fetched, Plan, Request, TimeRange, TimeZone, attime, evaluate, parse};

/// Parses a target, plans and evaluates it over nothing.
pub fn target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(target) = parse(text) else { return };
    let request = Request {
        range: TimeRange { from: 0, until: 60 },
        now: 60,
        zone: TimeZone::utc(),
        x_files_factor: 0.0,
        templates: vec![("1".to_owned(), "x".to_owned())],
    };
    let targets = [target];
    if Plan::new(&targets, &request).is_ok() {
        let _ = evaluate(&targets, &request, &Fetched::default());
    }
}

/// Reads a time, at two nows and in a zone with summer time.
pub fn time(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let zone = TimeZone::named("Europe/Rome").unwrap_or_default();
    for now in [0, 1_700_000_000] {
        let _ = attime::parse(text, now, &zone);
    }
    let _ = attime::parse_offset(text);
}
