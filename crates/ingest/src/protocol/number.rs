//! Parses values and timestamps.

use crate::reject::Reject;

/// Parses a number as Python's `float()` does, which all senders comply with: sign, decimals, exponent,
/// `inf`, `infinity` and `nan` in any case. Unlike Python, it does not allow `_` between digits.
#[inline]
pub(crate) fn value(text: &[u8]) -> Option<f64> {
    fast_float2::parse(text).ok()
}

/// Parses seconds since the epoch.
#[inline]
pub(crate) fn timestamp(text: &[u8], now: u32) -> Result<u32, Reject> {
    // Nearly every timestamp up to the year 2286 has ten digits.
    if let Ok(ten) = text.try_into()
        && let Some(seconds) = ten_digits(ten)
    {
        return u32::try_from(seconds).map_err(|_| Reject::Future);
    }
    timestamp_of(value(text).ok_or(Reject::Timestamp)?, now)
}

/// Parses ten digits. Eight of them are converted at once, one in each byte of a word.
#[inline]
fn ten_digits(text: &[u8; 10]) -> Option<u64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (high, low) = text.split_first_chunk::<8>()?;
    let [tens, ones] = [low.first()?.wrapping_sub(b'0'), low.get(1)?.wrapping_sub(b'0')];
    let word = u64::from_le_bytes(*high);
    // A digit has 3 in the upper half of its byte, and still has it after 6 is added.
    let upper = (word | word.wrapping_add(6 * ONES)) & (0xf0 * ONES);
    if upper != 0x30 * ONES || word & (0xf0 * ONES) != upper || tens > 9 || ones > 9 {
        return None;
    }
    // Join neighbours: digits into pairs, pairs into fours, fours into all eight.
    let digits = word & (0x0f * ONES);
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff;
    Some(eight * 100 + u64::from(tens) * 10 + u64::from(ones))
}

/// Converts a number to seconds since the epoch. As in carbon the fraction is cut off, and then −1 means
/// `now`.
pub(crate) fn timestamp_of(seconds: f64, now: u32) -> Result<u32, Reject> {
    if !seconds.is_finite() {
        return Err(Reject::Timestamp);
    }
    let whole = seconds.trunc();
    if whole == -1.0 {
        Ok(now)
    } else if whole < 0.0 {
        Err(Reject::Timestamp)
    } else if whole > f64::from(u32::MAX) {
        Err(Reject::Future)
    } else {
        Ok(whole as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_in_pythons_spelling() {
        // The results of Python's float(). `None` means that it raises an error.
        for (text, expected) in [
            ("1", Some(1.0)),
            ("+1", Some(1.0)),
            ("-0", Some(-0.0)),
            ("1e3", Some(1000.0)),
            ("1E+3", Some(1000.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("00012", Some(12.0)),
            ("1e999", Some(f64::INFINITY)),
            ("-1e-999", Some(-0.0)),
            ("inf", Some(f64::INFINITY)),
            ("+Inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("iNfInItY", Some(f64::INFINITY)),
            ("9007199254740993", Some(9_007_199_254_740_992.0)),
            ("4.9406564584124654e-324", Some(5e-324)),
            ("", None),
            (".", None),
            ("+", None),
            ("-", None),
            ("e5", None),
            (".e5", None),
            ("1e", None),
            ("1e+", None),
            ("--1", None),
            ("+-1", None),
            ("1.2.3", None),
            ("0x10", None),
            ("1,5", None),
            ("N", None),
            ("in", None),
            ("infi", None),
            ("1_000", None),
            ("1f", None),
            ("true", None),
            ("\u{664}", None),
        ] {
            let got = value(text.as_bytes());
            assert_eq!(got.map(f64::to_bits), expected.map(f64::to_bits), "{text:?}");
        }
        for text in ["nan", "NaN", "-nan", "+NAN"] {
            assert!(value(text.as_bytes()).is_some_and(f64::is_nan), "{text}");
        }
    }

    #[test]
    fn timestamps_as_carbon_reads_them() {
        const NOW: u32 = 1_700_000_000;
        for (text, expected) in [
            ("0", Ok(0)),
            ("1234567890", Ok(1_234_567_890)),
            ("4294967295", Ok(u32::MAX)),
            ("4294967295.9", Ok(u32::MAX)),
            ("0001234567890", Ok(1_234_567_890)),
            ("1234567890.999", Ok(1_234_567_890)),
            ("1.23456789e9", Ok(1_234_567_890)),
            ("+5", Ok(5)),
            ("-0.5", Ok(0)),
            ("-1", Ok(NOW)),
            ("-1.0", Ok(NOW)),
            ("-1.9", Ok(NOW)),
            ("-2", Err(Reject::Timestamp)),
            ("-1234567890", Err(Reject::Timestamp)),
            ("4294967296", Err(Reject::Future)),
            ("1700000000000", Err(Reject::Future)),
            ("99999999999999999999999999", Err(Reject::Future)),
            ("nan", Err(Reject::Timestamp)),
            ("inf", Err(Reject::Timestamp)),
            ("-inf", Err(Reject::Timestamp)),
            ("", Err(Reject::Timestamp)),
            ("N", Err(Reject::Timestamp)),
            ("12a", Err(Reject::Timestamp)),
            ("1_700", Err(Reject::Timestamp)),
        ] {
            assert_eq!(timestamp(text.as_bytes(), NOW), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn ten_bytes_are_a_number_when_all_are_digits(text in prop_oneof!["[0-9]{10}", "[/-:0-9 -~]{10}"]) {
            let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let expected = all_digits.then(|| text.parse::<u64>().unwrap());
            prop_assert_eq!(ten_digits(text.as_bytes().try_into().unwrap()), expected);
        }

        #[test]
        fn values_are_what_the_standard_parser_reads(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,20})?([eE][-+]?[0-9]{0,3})?") {
            prop_assert_eq!(value(text.as_bytes()).map(f64::to_bits), text.parse::<f64>().ok().map(f64::to_bits));
        }
    }
}
