//! Graphite's raw text: `name,start,end,step|value,value,None` per series.

use plumbago_render::{Points, TimeSeries};

use super::SeriesFormat;
use super::number::{push_integer, push_value};

/// Writes one line per series. Numbers are printed as Python prints them; names are not escaped.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    /// Whether a value of the current series was written.
    has_points: bool,
}

impl SeriesFormat for Raw {
    const THINS: bool = false;

    fn open(&mut self, _: &mut Vec<u8>) {}

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, _: &Points<'_>) -> bool {
        self.has_points = false;
        out.extend_from_slice(series.name.as_bytes());
        for number in [series.start, series.end, series.step] {
            out.push(b',');
            push_integer(out, number);
        }
        out.push(b'|');
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, series: &TimeSeries, _: i64, _: i64, values: &[f64]) {
        for value in values {
            if std::mem::replace(&mut self.has_points, true) {
                out.push(b',');
            }
            if value.is_nan() {
                out.extend_from_slice(b"None");
            } else {
                push_value(out, *value, series.is_whole);
            }
        }
    }

    fn tail(&mut self, out: &mut Vec<u8>, _: &TimeSeries) {
        out.push(b'\n');
    }

    fn close(&mut self, _: &mut Vec<u8>) {}
}
