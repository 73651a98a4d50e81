//! Points as bytes on a connection.

use crate::destination::Protocol;
use crate::frame::{Point, Points};

/// Number of points in one pickle, as carbon's `MAX_DATAPOINTS_PER_MESSAGE`.
const PICKLE_POINTS_MAX: usize = 500;
/// A pickle is ended before it reaches this many bytes, unless a single name is longer. Carbon refuses more than
/// 1 MiB.
const PICKLE_BYTES_MAX: usize = 512 << 10;

/// Whole numbers up to this size are written without a fraction; each is exact.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Adds the points of a frame.
pub(crate) fn write(protocol: Protocol, points: Points<'_>, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Line => points.for_each(|point| line(point, out)),
        Protocol::Pickle => pickles(points, out),
    }
}

fn line(point: Point<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(point.name);
    out.push(b' ');
    number(point.value, out);
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(point.timestamp).as_bytes());
    out.push(b'\n');
}

/// Writes the shortest text that reads as the same number.
fn number(value: f64, out: &mut Vec<u8>) {
    let is_negative_zero = value == 0.0 && value.is_sign_negative();
    if value.abs() < WHOLE_MAX && value.trunc() == value && !is_negative_zero {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        out.extend_from_slice(zmij::Buffer::new().format(value).as_bytes());
    }
}

/// Writes pickles of protocol 2, as carbon's relay does: lists of `(name, (timestamp, value))`.
fn pickles(points: Points<'_>, out: &mut Vec<u8>) {
    let mut points = points.peekable();
    while points.peek().is_some() {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        // PROTO 2, EMPTY_LIST, MARK.
        out.extend_from_slice(b"\x80\x02](");
        let mut count = 0;
        while count < PICKLE_POINTS_MAX
            && let Some(point) =
                points.next_if(|point| count == 0 || out.len() - begin + point.name.len() < PICKLE_BYTES_MAX)
        {
            entry(point, out);
            count += 1;
        }
        // APPENDS, STOP.
        out.extend_from_slice(b"e.");
        let length = (out.len() - begin - 4) as u32;
        out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn entry(point: Point<'_>, out: &mut Vec<u8>) {
    // BINUNICODE with its length.
    out.push(b'X');
    out.extend_from_slice(&(point.name.len() as u32).to_le_bytes());
    out.extend_from_slice(point.name);
    match i32::try_from(point.timestamp) {
        // BININT.
        Ok(timestamp) => {
            out.push(b'J');
            out.extend_from_slice(&timestamp.to_le_bytes());
        }
        // LONG1 of five bytes: the fifth keeps the number positive.
        Err(_) => {
            out.extend_from_slice(b"\x8a\x05");
            out.extend_from_slice(&point.timestamp.to_le_bytes());
            out.push(0);
        }
    }
    // BINFLOAT, then TUPLE2 twice.
    out.push(b'G');
    out.extend_from_slice(&point.value.to_be_bytes());
    out.extend_from_slice(b"\x86\x86");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame;

    fn lines(value: f64) -> String {
        let mut points = Vec::new();
        frame::push(&mut points, Point { name: b"a.b;c=d", timestamp: 4_000_000_000, value });
        let mut out = Vec::new();
        write(Protocol::Line, Points(&points), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (1.0, "1"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e300, "1e+300"),
            (-12345678901234.0, "-12345678901234"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(lines(value), format!("a.b;c=d {text} 4000000000\n"));
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<f64>().prop_filter("no point is NaN", |value| !value.is_nan())) {
            let line = lines(value);
            let read: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
            prop_assert_eq!(read.to_bits(), value.to_bits());
        }
    }

    #[test]
    fn a_pickle_has_a_bounded_number_of_points() {
        let mut points = Vec::new();
        for n in 0..1201 {
            frame::push(&mut points, Point { name: b"m", timestamp: n, value: 0.5 });
        }
        let mut out = Vec::new();
        write(Protocol::Pickle, Points(&points), &mut out);
        let mut rest = &out[..];
        let mut sizes = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let pickle = &rest[4..4 + length];
            assert!(pickle.starts_with(b"\x80\x02](") && pickle.ends_with(b"\x86\x86e."));
            sizes.push((length - 6) / (1 + 4 + 1 + 5 + 9 + 2));
            rest = &rest[4 + length..];
        }
        assert_eq!(sizes, [500, 500, 201]);
    }
}
