//! Python pickles (protocol 2) for a graphite-web in front of this server. This module only writes them.

use plumbago_render::{Points, TimeSeries};

use super::SeriesFormat;
use super::dictionary::{self, Encoding};
use crate::stream::Pieces;

const EMPTY_LIST: u8 = b']';
const EMPTY_DICT: u8 = b'}';
const MARK: u8 = b'(';
const APPENDS: u8 = b'e';
const SETITEMS: u8 = b'u';
const NONE: u8 = b'N';
const TUPLE2: u8 = 0x86;
const STOP: u8 = b'.';

/// Begins a pickle that is a list.
pub(crate) fn open_list(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x80, 2, EMPTY_LIST, MARK]);
}

/// Ends the list and the pickle.
pub(crate) fn close_list(out: &mut Vec<u8>) {
    out.extend_from_slice(&[APPENDS, STOP]);
}

/// Writes pickled values.
enum Pickled {}

impl Encoding for Pickled {
    fn string(out: &mut Vec<u8>, text: &str) {
        out.push(b'X');
        out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    fn integer(out: &mut Vec<u8>, value: i64) {
        match i32::try_from(value) {
            Ok(small) => {
                out.push(b'J');
                out.extend_from_slice(&small.to_le_bytes());
            }
            Err(_) => {
                out.extend_from_slice(&[0x8a, 8]);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn float(out: &mut Vec<u8>, value: f64) {
        out.push(b'G');
        out.extend_from_slice(&value.to_be_bytes());
    }

    fn nothing(out: &mut Vec<u8>) {
        out.push(NONE);
    }
}

fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { 0x88 } else { 0x89 });
}

/// Writes series as dictionaries with graphite-web's keys.
#[derive(Debug, Default)]
pub(crate) struct Pickle;

impl SeriesFormat for Pickle {
    const THINS: bool = false;

    fn open(&mut self, out: &mut Vec<u8>) {
        open_list(out);
    }

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, _: &Points<'_>) -> bool {
        out.extend_from_slice(&[EMPTY_DICT, MARK]);
        dictionary::fields::<Pickled>(out, series);
        out.extend_from_slice(&[EMPTY_LIST, MARK]);
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, _: &TimeSeries, _: i64, _: i64, values: &[f64]) {
        dictionary::values::<Pickled>(out, values);
    }

    fn tail(&mut self, out: &mut Vec<u8>, _: &TimeSeries) {
        out.extend_from_slice(&[APPENDS, SETITEMS]);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        close_list(out);
    }
}

/// Nodes of a find as dictionaries, with the path and whether the node is a metric. A metric also has one
/// interval, from 0 to `until`.
pub(crate) struct Nodes<I> {
    nodes: I,
    until: i64,
    opened: bool,
}

/// Returns the body of a find. Each node is a path and whether it is a metric.
pub(crate) fn nodes<I>(nodes: I, until: i64) -> Nodes<I>
where
    I: Iterator<Item = (String, bool)> + Send + Unpin + 'static,
{
    Nodes { nodes, until, opened: false }
}

impl<I: Iterator<Item = (String, bool)> + Send + Unpin + 'static> Pieces for Nodes<I> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.opened, true) {
            open_list(out);
        }
        let Some((path, is_leaf)) = self.nodes.next() else {
            close_list(out);
            return false;
        };
        out.extend_from_slice(&[EMPTY_DICT, MARK]);
        Pickled::string(out, "path");
        Pickled::string(out, &path);
        Pickled::string(out, "is_leaf");
        boolean(out, is_leaf);
        if is_leaf {
            Pickled::string(out, "intervals");
            out.extend_from_slice(&[EMPTY_LIST, MARK]);
            Pickled::integer(out, 0);
            Pickled::integer(out, self.until);
            out.extend_from_slice(&[TUPLE2, APPENDS]);
        }
        out.push(SETITEMS);
        true
    }
}
