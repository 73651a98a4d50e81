//! JSON for the Rickshaw library: `[{"target", "datapoints": [{"x": time, "y": value}, …]}, …]`.

use plumbago_render::{Points, TimeSeries};

use super::SeriesFormat;
use super::json::push_string;
use super::number::{push_integer, push_json_float};

/// Points at or after the end of a series are omitted. Unknown and infinite values are null.
#[derive(Debug, Default)]
pub(crate) struct Rickshaw {
    /// Whether a series has already been written.
    has_series: bool,
    /// Whether a point of the current series was written.
    has_points: bool,
}

impl SeriesFormat for Rickshaw {
    const THINS: bool = false;

    fn open(&mut self, out: &mut Vec<u8>) {
        out.push(b'[');
    }

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, _: &Points<'_>) -> bool {
        let begin: &[u8] = if self.has_series { b",{\"target\":" } else { b"{\"target\":" };
        (self.has_series, self.has_points) = (true, false);
        out.extend_from_slice(begin);
        push_string(out, &series.name);
        out.extend_from_slice(b",\"datapoints\":[");
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, series: &TimeSeries, start: i64, step: i64, values: &[f64]) {
        let mut time = start;
        for value in values {
            if time >= series.end {
                return;
            }
            let begin: &[u8] = if self.has_points { b",{\"x\":" } else { b"{\"x\":" };
            self.has_points = true;
            out.extend_from_slice(begin);
            push_integer(out, time);
            out.extend_from_slice(b",\"y\":");
            push_json_float(out, *value);
            out.push(b'}');
            time += step;
        }
    }

    fn tail(&mut self, out: &mut Vec<u8>, _: &TimeSeries) {
        out.extend_from_slice(b"]}");
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        out.push(b']');
    }
}
