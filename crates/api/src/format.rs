//! Response formats.
//!
//! Each format of `/render` is one file, most of them with a [`SeriesFormat`]. [`series`] calls its methods
//! for all series and produces the body piece by piece.

mod columns;
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

pub(crate) use columns::Columns;
pub(crate) use csv::Csv;
pub(crate) use dygraph::Dygraph;
pub(crate) use json::Json;
pub(crate) use msgpack::MsgPack;
pub(crate) use pickle::Pickle;
pub(crate) use protobuf::Protobuf;
pub(crate) use raw::Raw;
pub(crate) use rickshaw::Rickshaw;

/// Maximum number of points in one piece.
const POINTS_PER_PIECE: usize = 512;

/// Writes series. Each series consists of a head, its points in order, and a tail.
pub(crate) trait SeriesFormat: Send + Unpin + 'static {
    /// Whether the format consolidates points to the requested width, and omits points at or after the end of
    /// a series.
    const THINS: bool;

    /// Writes the text before the first series.
    fn open(&mut self, out: &mut Vec<u8>);
    /// Writes the text before the points of a series. Returns `false` to omit the series.
    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool;
    /// Writes consecutive points. The first is at time `start`, the next ones follow every `step` seconds.
    /// Unknown values are NaN.
    fn points(&mut self, out: &mut Vec<u8>, series: &TimeSeries, start: i64, step: i64, values: &[f64]);
    /// Writes the text after the points of a series.
    fn tail(&mut self, out: &mut Vec<u8>, series: &TimeSeries);
    /// Writes the text after the last series.
    fn close(&mut self, out: &mut Vec<u8>);
}

/// Returns a response body in a format. `width` is the maximum number of points per series, for formats
/// that consolidate.
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
    /// Seconds from the earliest start to the latest end of all series.
    span: i64,
    width: Option<usize>,
    current: Option<Current>,
    opened: bool,
}

/// The series whose points are being written.
struct Current {
    series: TimeSeries,
    /// Consolidated values; `None` if the series' own values are written.
    thinned: Option<Vec<f64>>,
    start: i64,
    step: i64,
    /// Number of points to write.
    count: usize,
    /// Number of points written so far.
    written: usize,
}

impl<F: SeriesFormat> SeriesPieces<F> {
    /// Writes the head of the next series that the format does not omit.
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
