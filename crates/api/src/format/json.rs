//! JSON of series, and of lists of other items.

use plumbago_render::{Points, TimeSeries};

use super::SeriesFormat;
use super::number::{push_integer, push_json_float};
use crate::stream::Pieces;

/// Appends a text as a JSON string.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    let is_plain = text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\');
    if is_plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if let Ok(quoted) = serde_json::to_vec(text) {
        out.extend_from_slice(&quoted);
    }
}

/// `[{"target", "tags", "datapoints": [[value, time], …]}, …]`.
///
/// Unknown and infinite values are null. JSON has no infinity, and Graphite's `1e9999` breaks clients.
#[derive(Debug, Default)]
pub(crate) struct Json {
    /// Whether to omit unknown points, and series without a known point.
    pub(crate) no_nulls: bool,
    /// Whether a series was written.
    has_series: bool,
    /// Whether a point of the current series was written.
    has_points: bool,
}

impl Json {
    pub(crate) fn new(no_nulls: bool) -> Self {
        Self { no_nulls, ..Self::default() }
    }
}

impl SeriesFormat for Json {
    const THINS: bool = true;

    fn open(&mut self, out: &mut Vec<u8>) {
        out.push(b'[');
    }

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool {
        if self.no_nulls && points.values.iter().all(|v| v.is_nan()) {
            return false;
        }
        let begin: &[u8] = if self.has_series { b",{\"target\":" } else { b"{\"target\":" };
        (self.has_series, self.has_points) = (true, false);
        out.extend_from_slice(begin);
        push_string(out, &series.name);
        out.extend_from_slice(b",\"tags\":{");
        for (index, (key, value)) in series.tags.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            push_string(out, key);
            out.push(b':');
            push_string(out, value);
        }
        out.extend_from_slice(b"},\"datapoints\":[");
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, _: &TimeSeries, start: i64, step: i64, values: &[f64]) {
        let mut time = start;
        for value in values {
            if !(self.no_nulls && value.is_nan()) {
                let begin: &[u8] = if self.has_points { b",[" } else { b"[" };
                self.has_points = true;
                out.extend_from_slice(begin);
                push_json_float(out, *value);
                out.push(b',');
                push_integer(out, time);
                out.push(b']');
            }
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

/// Items separated by commas, between an opening and a closing text.
pub(crate) struct List<I, W> {
    open: Option<&'static str>,
    items: I,
    write: W,
    close: &'static str,
    is_first: bool,
}

/// Returns a body of items separated by commas, between `open` and `close`. `write` appends one item.
pub(crate) fn list<I, W>(open: &'static str, items: I, close: &'static str, write: W) -> List<I, W>
where
    I: Iterator + Send + Unpin + 'static,
    W: FnMut(&mut Vec<u8>, I::Item) + Send + Unpin + 'static,
{
    List { open: Some(open), items, write, close, is_first: true }
}

impl<I, W> Pieces for List<I, W>
where
    I: Iterator + Send + Unpin + 'static,
    W: FnMut(&mut Vec<u8>, I::Item) + Send + Unpin + 'static,
{
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(open) = self.open.take() {
            out.extend_from_slice(open.as_bytes());
        }
        let Some(item) = self.items.next() else {
            out.extend_from_slice(self.close.as_bytes());
            return false;
        };
        if !std::mem::replace(&mut self.is_first, false) {
            out.push(b',');
        }
        (self.write)(out, item);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        for text in ["", "a.b", "a\"b", "a\\b", "a\nb", "é\u{1}", "\u{7f}"] {
            let mut out = Vec::new();
            push_string(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
