//! CSV: `name,YYYY-MM-DD HH:MM:SS,value` per point, in the request's time zone.

use std::io::Write as _;

use plumbago_render::{Points, TimeSeries, TimeZone};

use super::SeriesFormat;
use super::number::push_float;

/// Rows as spreadsheets and Python's `csv` write them.
#[derive(Debug)]
pub(crate) struct Csv {
    zone: TimeZone,
    /// The current series' name, quoted where it needs it.
    name: Vec<u8>,
}

impl Csv {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, name: Vec::new() }
    }
}

impl SeriesFormat for Csv {
    const THINS: bool = false;

    fn open(&mut self, _: &mut Vec<u8>) {}

    fn head(&mut self, _: &mut Vec<u8>, series: &TimeSeries, _: &Points<'_>) -> bool {
        self.name = quoted(&series.name);
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, _: &TimeSeries, start: i64, step: i64, values: &[f64]) {
        let mut time = start;
        for value in values {
            out.extend_from_slice(&self.name);
            out.push(b',');
            if let Some(local) = self.zone.local(time) {
                let ((year, month, day), (hour, minute, second)) = (local.date, local.time);
                // Writing to a vector does not fail.
                let _ = write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
            }
            out.push(b',');
            if !value.is_nan() {
                push_float(out, *value);
            }
            out.extend_from_slice(b"\r\n");
            time += step;
        }
    }

    fn tail(&mut self, _: &mut Vec<u8>, _: &TimeSeries) {}

    fn close(&mut self, _: &mut Vec<u8>) {}
}

fn quoted(name: &str) -> Vec<u8> {
    if name.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\"")).into_bytes()
    } else {
        name.as_bytes().to_vec()
    }
}
