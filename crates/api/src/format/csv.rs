//! CSV: `name,YYYY-MM-DD HH:MM:SS,value` per point, in the request's time zone.

use plumbago_render::{Points, TimeSeries, TimeZone};

use super::SeriesFormat;
use super::number::push_value;

/// Quotes names and ends lines (CRLF) like Python's `csv` module and spreadsheets.
#[derive(Debug)]
pub(crate) struct Csv {
    /// The name of the current series, quoted if necessary, and a comma.
    name: Vec<u8>,
    stamps: Stamps,
}

impl Csv {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { name: Vec::new(), stamps: Stamps { zone, grid: (0, 0), texts: Vec::new() } }
    }
}

impl SeriesFormat for Csv {
    const THINS: bool = false;

    fn open(&mut self, _: &mut Vec<u8>) {}

    fn head(&mut self, _: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool {
        self.name = quoted(&series.name);
        self.name.push(b',');
        self.stamps.start(points.start, points.step);
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, series: &TimeSeries, start: i64, step: i64, values: &[f64]) {
        let mut time = start;
        for value in values {
            out.extend_from_slice(&self.name);
            out.extend_from_slice(&self.stamps.text(time));
            out.push(b',');
            if !value.is_nan() {
                push_value(out, *value, series.is_whole);
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

/// A time as `YYYY-MM-DD HH:MM:SS`.
type Stamp = [u8; 19];

/// Caches times as text, because most series of a response share the same times.
#[derive(Debug)]
struct Stamps {
    zone: TimeZone,
    /// Start and step of the cached times.
    grid: (i64, i64),
    /// Texts of `start`, `start + step`, and so on.
    texts: Vec<Stamp>,
}

impl Stamps {
    /// Maximum number of times to cache.
    const KEPT: usize = 1 << 16;

    /// Prepares for a series. Keeps the cached texts if its times are the same.
    fn start(&mut self, start: i64, step: i64) {
        if self.grid != (start, step) {
            self.grid = (start, step);
            self.texts.clear();
        }
    }

    /// Returns the text of a time. The cache grows only if times are requested in order.
    fn text(&mut self, time: i64) -> Stamp {
        let (start, step) = self.grid;
        let index = usize::try_from((time - start) / step.max(1)).unwrap_or(usize::MAX);
        if let Some(text) = self.texts.get(index) {
            return *text;
        }
        let text = stamp(&self.zone, time);
        if index == self.texts.len() && index < Self::KEPT {
            self.texts.push(text);
        }
        text
    }
}

fn stamp(zone: &TimeZone, time: i64) -> Stamp {
    let mut text = *b"0000-00-00 00:00:00";
    if let Some(local) = zone.local(time) {
        let year = local.date.0.clamp(0, 9999);
        let mut two = |at: usize, number: i8| {
            text[at] = b'0' + (number / 10).unsigned_abs();
            text[at + 1] = b'0' + (number % 10).unsigned_abs();
        };
        two(0, (year / 100) as i8);
        two(2, (year % 100) as i8);
        for (at, number) in [(5, local.date.1), (8, local.date.2), (11, local.time.0), (14, local.time.1)] {
            two(at, number);
        }
        two(17, local.time.2);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names_as_text() {
        let rome = TimeZone::named("Europe/Rome").unwrap();
        assert_eq!(&stamp(&rome, 1_711_846_799), b"2024-03-31 01:59:59");
        assert_eq!(&stamp(&rome, 1_711_846_800), b"2024-03-31 03:00:00");
        assert_eq!(&stamp(&TimeZone::utc(), 0), b"1970-01-01 00:00:00");
        assert_eq!(quoted("a.b"), b"a.b");
        assert_eq!(quoted("f(a,\"b\")"), b"\"f(a,\"\"b\"\")\"");
    }

    #[test]
    fn kept_texts_belong_to_their_grid() {
        let mut stamps = Stamps { zone: TimeZone::utc(), grid: (0, 0), texts: Vec::new() };
        for (start, step) in [(0, 60), (0, 60), (60, 60), (0, 1)] {
            stamps.start(start, step);
            for index in 0..100 {
                let time = start + index * step;
                assert_eq!(stamps.text(time), stamp(&TimeZone::utc(), time));
            }
        }
    }
}
