//! Fast formatting of numbers.

use plumbago_render::python_float;

/// Appends a value as Python's `repr` and `json` print floats: `1.0`, `0.1`, `1e-05`, `inf`.
#[inline]
pub(super) fn push_float(out: &mut Vec<u8>, value: f64) {
    /// Whole numbers below this have at most 15 digits, and a float represents them exactly.
    const WHOLE_MAX: f64 = 1e15;
    let magnitude = value.abs();
    let whole = value as i64;
    if magnitude < WHOLE_MAX && (whole as f64).to_bits() == value.to_bits() {
        push_integer(out, whole);
        out.extend_from_slice(b".0");
    } else if (1e-4..1e16).contains(&magnitude) || magnitude == 0.0 {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        out.extend_from_slice(python_float(value).as_bytes());
    }
}

/// Appends a value as Python's `repr` and `csv` print it: as an integer if the series has integers in Graphite.
#[inline]
pub(super) fn push_value(out: &mut Vec<u8>, value: f64, is_whole: bool) {
    /// Whole numbers below this are exact.
    const EXACT_BELOW: f64 = (1_u64 << 53) as f64;
    if is_whole && value.abs() < EXACT_BELOW && value.fract() == 0.0 {
        push_integer(out, value as i64);
    } else {
        push_float(out, value);
    }
}

/// Appends a value as a JSON number, or null if it is NaN (unknown) or infinite.
pub(super) fn push_json_float(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        push_float(out, value);
    } else {
        out.extend_from_slice(b"null");
    }
}

/// Appends a whole number.
#[inline]
pub(super) fn push_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        push_float(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_corners_of_the_ranges() {
        for value in
            [0.0, -0.0, 1.0, -1.0, 1e15, 1e15 - 1.0, 1e16, -1e16, 9_007_199_254_740_993.0, 1e-4, 9.9e-5]
        {
            assert_eq!(text(value), python_float(value));
        }
        assert_eq!(text(f64::NEG_INFINITY), "-inf");
        assert_eq!(text(1e16), "1e+16");
        assert_eq!(text(0.1 + 0.2), "0.30000000000000004");
    }

    #[test]
    fn counts_print_as_integers() {
        for (value, is_whole, wanted) in [
            (3.0, true, "3"),
            (3.0, false, "3.0"),
            (-0.0, true, "0"),
            (0.5, true, "0.5"),
            (1e16, true, "1e+16"),
            (f64::INFINITY, true, "inf"),
        ] {
            let mut out = Vec::new();
            push_value(&mut out, value, is_whole);
            assert_eq!(out, wanted.as_bytes(), "{value} {is_whole}");
        }
    }

    proptest! {
        #[test]
        fn floats_print_as_python_prints_them(value: f64, scale in -12i32..20, whole: i64) {
            prop_assert_eq!(text(value), python_float(value));
            let near = f64::from((whole % 1_000_000) as i32) * 10f64.powi(scale);
            prop_assert_eq!(text(near), python_float(near));
            prop_assert_eq!(text(whole as f64), python_float(whole as f64));
            prop_assert_eq!(text(near).parse::<f64>().unwrap().to_bits(), near.to_bits());
        }
    }
}
