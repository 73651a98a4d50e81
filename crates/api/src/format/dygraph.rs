//! JSON for the Dygraphs library: `{"labels": ["Time", names…], "data": [[milliseconds, values…], …]}`.

use plumbago_render::TimeSeries;

use super::json::push_string;
use super::number::{push_integer, push_json_float};
use crate::stream::Pieces;

/// Writes a row for each point of the first series, with the values of all series at that time.
pub(crate) struct Dygraph {
    series: Vec<TimeSeries>,
    /// Time of the next row; `None` before the first.
    time: Option<i64>,
}

impl Dygraph {
    pub(crate) fn new(series: Vec<TimeSeries>) -> Self {
        Self { series, time: None }
    }

    /// Writes the labels and opens the list of rows.
    fn labels(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"labels\":[\"Time\"");
        for series in &self.series {
            out.push(b',');
            push_string(out, &series.name);
        }
        out.extend_from_slice(b"],\"data\":[");
    }

    fn row(&self, out: &mut Vec<u8>, time: i64) {
        out.push(b'[');
        push_integer(out, time.saturating_mul(1000));
        for series in &self.series {
            out.push(b',');
            push_json_float(out, value_at(series, time));
        }
        out.push(b']');
    }
}

/// The value of a series at a time; NaN if the series has none.
fn value_at(series: &TimeSeries, time: i64) -> f64 {
    let index = (time - series.start).div_euclid(series.step.max(1));
    usize::try_from(index).ok().and_then(|index| series.values.get(index)).copied().unwrap_or(f64::NAN)
}

impl Pieces for Dygraph {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(first) = self.series.first() else {
            out.extend_from_slice(b"{}");
            return false;
        };
        let time = self.time.unwrap_or_else(|| {
            self.labels(out);
            first.start
        });
        if time >= first.end {
            out.extend_from_slice(b"]}");
            return false;
        }
        if self.time.is_some() {
            out.push(b',');
        }
        self.row(out, time);
        self.time = Some(time + first.step.max(1));
        true
    }
}
