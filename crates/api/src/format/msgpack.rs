//! MessagePack for graphite-web and carbonapi, which request it from their nodes. This module only writes it.

use plumbago_render::{Points, TimeSeries};

use super::SeriesFormat;
use super::dictionary::{self, ENTRIES, Encoding};
use crate::stream::Pieces;

const NIL: u8 = 0xc0;
const FALSE: u8 = 0xc2;
const TRUE: u8 = 0xc3;

/// Appends the header of a list.
fn array(out: &mut Vec<u8>, length: usize) {
    sized(out, 0xdd, length);
}

/// Appends the header of a map with fewer than 16 entries.
fn small_map(out: &mut Vec<u8>, entries: u8) {
    out.push(0x80 | entries);
}

/// Appends a type byte and a length in 32 bits.
fn sized(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { TRUE } else { FALSE });
}

/// Writes MessagePack values.
enum Packed {}

impl Encoding for Packed {
    fn string(out: &mut Vec<u8>, text: &str) {
        match text.len() {
            length @ 0..32 => out.push(0xa0 | length as u8),
            length => sized(out, 0xdb, length),
        }
        out.extend_from_slice(text.as_bytes());
    }

    fn integer(out: &mut Vec<u8>, value: i64) {
        if let Ok(small) = u32::try_from(value) {
            out.push(0xce);
            out.extend_from_slice(&small.to_be_bytes());
        } else {
            out.push(0xd3);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }

    fn float(out: &mut Vec<u8>, value: f64) {
        out.push(0xcb);
        out.extend_from_slice(&value.to_be_bytes());
    }

    fn nothing(out: &mut Vec<u8>) {
        out.push(NIL);
    }
}

/// Writes series as maps with the keys of graphite-web's own nodes.
#[derive(Debug)]
pub(crate) struct MsgPack {
    /// Number of series, which the header of the list contains.
    pub(crate) count: usize,
}

impl SeriesFormat for MsgPack {
    const THINS: bool = false;

    fn open(&mut self, out: &mut Vec<u8>) {
        array(out, self.count);
    }

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool {
        small_map(out, ENTRIES);
        dictionary::fields::<Packed>(out, series);
        array(out, points.values.len());
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, _: &TimeSeries, _: i64, _: i64, values: &[f64]) {
        dictionary::values::<Packed>(out, values);
    }

    fn tail(&mut self, _: &mut Vec<u8>, _: &TimeSeries) {}

    fn close(&mut self, _: &mut Vec<u8>) {}
}

/// Nodes of a find as maps. Each map has the path and whether the node is a metric, under the keys of
/// graphite-web and of carbonapi. A metric also has one interval, from 0 to `until`.
pub(crate) struct Nodes<I> {
    nodes: I,
    /// Number of nodes, for the header; `None` once the header is written.
    count: Option<usize>,
    until: i64,
}

/// Returns the body of a find. `count` must be the number of `nodes`, each a path and whether it is a metric.
pub(crate) fn nodes<I>(nodes: I, count: usize, until: i64) -> Nodes<I>
where
    I: Iterator<Item = (String, bool)> + Send + Unpin + 'static,
{
    Nodes { nodes, count: Some(count), until }
}

impl<I: Iterator<Item = (String, bool)> + Send + Unpin + 'static> Pieces for Nodes<I> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(count) = self.count.take() {
            array(out, count);
        }
        let Some((path, is_leaf)) = self.nodes.next() else { return false };
        small_map(out, if is_leaf { 4 } else { 3 });
        Packed::string(out, "path");
        Packed::string(out, &path);
        for key in ["is_leaf", "isLeaf"] {
            Packed::string(out, key);
            boolean(out, is_leaf);
        }
        if is_leaf {
            Packed::string(out, "intervals");
            array(out, 1);
            array(out, 2);
            Packed::integer(out, 0);
            Packed::integer(out, self.until);
        }
        true
    }
}
