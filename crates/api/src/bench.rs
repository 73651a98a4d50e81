//! Entry points for the benchmarks.

use plumbago_render::{TimeSeries, TimeZone};

use crate::format::{self, Csv, Json, Pickle, Raw};
use crate::stream::Pieces;

/// Writes the series as JSON, as for a client, and returns the number of bytes written.
pub fn json(series: Vec<TimeSeries>) -> usize {
    written(format::series(Json::new(false), series, None))
}

/// Like [`json`], with each series consolidated to at most `width` points.
pub fn thinned_json(series: Vec<TimeSeries>, width: usize) -> usize {
    written(format::series(Json::new(false), series, Some(width)))
}

/// Like [`json`], in CSV.
pub fn csv(series: Vec<TimeSeries>, zone: TimeZone) -> usize {
    written(format::series(Csv::new(zone), series, None))
}

/// Like [`json`], in Graphite's raw text.
pub fn raw(series: Vec<TimeSeries>) -> usize {
    written(format::series(Raw::default(), series, None))
}

/// Like [`json`], as a pickle.
pub fn pickle(series: Vec<TimeSeries>) -> usize {
    written(format::series(Pickle, series, None))
}

fn written(mut pieces: impl Pieces) -> usize {
    let (mut chunk, mut total) = (Vec::new(), 0);
    while pieces.next(&mut chunk) {
        if chunk.len() > 128 << 10 {
            total += chunk.len();
            chunk.clear();
        }
    }
    total + chunk.len()
}
