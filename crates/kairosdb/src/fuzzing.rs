//! Entry points for fuzzers. They accept any bytes and assert what must always hold.

use crate::point::Points;
use crate::{kairos, opentsdb};

/// Reads the bytes as bodies of points.
pub fn bodies(data: &[u8]) {
    check(&kairos::datapoints(data));
    check(&opentsdb::put(data));
}

/// Reads the bytes as lines of port 4242.
pub fn lines(data: &[u8]) {
    let mut lines = opentsdb::Lines::default();
    for line in String::from_utf8_lossy(data).lines() {
        if let Ok(opentsdb::Line::Put(put)) = lines.read(line) {
            assert!(put.value.is_finite());
            assert_eq!(plumbago_model::sanitize(lines.name()).as_deref(), Ok(lines.name()), "{line}");
        }
    }
}

fn check(points: &Points) {
    for point in points.points() {
        assert!(point.value.is_finite());
        let name = points.name(point.series);
        assert_eq!(plumbago_model::sanitize(name).as_deref(), Ok(name));
    }
    assert!(points.refused().len() as u64 <= points.refused_len() * 11);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Texts that are nearly bodies.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::sample::select(vec![
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "\"name\":",
            "\"m\"",
            "\"tags\":",
            "{\"a\":\"1\"}",
            "\"datapoints\":",
            "[[0,1]]",
            "[0,\"x\"]",
            "\"value\":",
            "\"metric\":",
            "\"timestamp\":",
            "1",
            "-1",
            "1e999",
            "null",
            "true",
            "\"\\ud800\"",
            "\u{e9}",
        ]);
        prop_oneof![
            prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..200),
        ]
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(data in body()) {
            super::bodies(&data);
        }

        #[test]
        fn any_line_is_read_or_refused(line in "put[m]? [\\PC;=~. ]{0,20} [0-9.-]{0,15} [0-9.e-]{0,8}( [\\PC=;~.]{0,9}){0,4}") {
            super::lines(line.as_bytes());
        }
    }
}
