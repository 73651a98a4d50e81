//! The forms of an answer.
//!
//! A format of `/render` is one file with a [`SeriesFormat`]; [`series`] drives it over any number of
//! series in pieces.

mod csv;
mod dictionary;
mod dygraph;
mod indent;
pub(crate) mod json;
pub(crate) mod msgpack;
mod number;
pub(crate) mod pickle;
pub(crate) mod protobuf;
mod raw;
mod rickshaw;
pub(crate) mod wrap;

use plumbago_render::consolidate::{points, time_span};
use plumbago_render::{Points, TimeSeries};

use crate::stream::Pieces;

pub(crate) use csv::Csv;
pub(crate) use dygraph::Dygraph;
pub(crate) use json::Json;
pub(crate) use msgpack::MsgPack;
pub(crate) use pickle::Pickle;
pub(crate) use protobuf::Protobuf;
pub(crate) use raw::Raw;
pub(crate) use rickshaw::Rickshaw;

/// Points that are written at once.
const POINTS_PER_PIECE: usize = 512;

/// Writes series, each as a head, its points in order, and a tail.
pub(crate) trait SeriesFormat: Send + Unpin + 'static {
    /// Whether points are thinned to the width asked for, and none shown past a series' end.
    const THINS: bool;

    /// What stands before the first series.
    fn open(&mut self, out: &mut Vec<u8>);
    /// What stands before the points of a series; false leaves the series out.
    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool;
    /// Some points, the first at `start`.
    fn points(&mut self, out: &mut Vec<u8>, series: &TimeSeries, start: i64, step: i64, values: &[f64]);
    /// What stands after the points of a series.
    fn tail(&mut self, out: &mut Vec<u8>, series: &TimeSeries);
    /// What stands after the last series.
    fn close(&mut self, out: &mut Vec<u8>);
}

/// All series of an answer in a format.
pub(crate) fn series<F: SeriesFormat>(
    format: F,
    series: Vec<TimeSeries>,
    width: Option<usize>,
) -> impl Pieces {
    let span = time_span(&series);
    SeriesPieces { format, series: series.into_iter(), span, width, current: None, opened: false }
}

struct SeriesPieces<F> {
    format: F,
    series: std::vec::IntoIter<TimeSeries>,
    span: i64,
    width: Option<usize>,
    current: Option<Current>,
    opened: bool,
}

/// A series of which `written` points are out.
struct Current {
    series: TimeSeries,
    /// Present when the points are not the series' own values.
    thinned: Option<Vec<f64>>,
    start: i64,
    step: i64,
    count: usize,
    written: usize,
}

impl<F: SeriesFormat> SeriesPieces<F> {
    /// Writes the head of the next series that is not left out.
    fn start_next(&mut self, out: &mut Vec<u8>) -> Option<Current> {
        for series in self.series.by_ref() {
            let shown = if F::THINS {
                points(&series, self.span, self.width)
            } else {
                Points { start: series.start, step: series.step, values: series.values.as_slice().into() }
            };
            if self.format.head(out, &series, &shown) {
                let (start, step, count) = (shown.start, shown.step, shown.values.len());
                let thinned = match shown.values {
                    std::borrow::Cow::Owned(values) => Some(values),
                    std::borrow::Cow::Borrowed(_) => None,
                };
                return Some(Current { series, thinned, start, step, count, written: 0 });
            }
        }
        None
    }
}

impl<F: SeriesFormat> Pieces for SeriesPieces<F> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.opened {
            self.opened = true;
            self.format.open(out);
        }
        let Some(mut current) = self.current.take().or_else(|| self.start_next(out)) else {
            self.format.close(out);
            return false;
        };
        let until = current.count.min(current.written + POINTS_PER_PIECE);
        let values = current.thinned.as_ref().unwrap_or(&current.series.values);
        let start = current.start + current.written as i64 * current.step;
        self.format.points(out, &current.series, start, current.step, &values[current.written..until]);
        current.written = until;
        if until == current.count {
            self.format.tail(out, &current.series);
        } else {
            self.current = Some(current);
        }
        true
    }
}
