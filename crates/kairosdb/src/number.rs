//! A number as it was sent, and the nearest double.

/// Every whole number up to this one can be a double exactly.
const EXACT_MAX: u128 = 1 << 53;

/// Whether a double in a body may stand for a whole number beyond 64 bits. A whole number of up to 64 bits is
/// not read as a double.
pub(crate) fn is_beyond_64_bits(real: f64) -> bool {
    real >= 18_446_744_073_709_551_616.0 || real <= -9_223_372_036_854_775_808.0
}

/// A number as it was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    /// The nearest double, and whether it differs from the number, as it may for whole numbers beyond 2⁵³.
    #[inline]
    pub(crate) fn to_double(self) -> (f64, bool) {
        match self {
            Self::Whole(whole) if whole.unsigned_abs() <= EXACT_MAX => (whole as i64 as f64, false),
            Self::Whole(whole) => (whole as f64, (whole as f64) as i128 != whole),
            Self::Real(real) => (real, false),
        }
    }

    /// The number in a text. `None` for any other text, including "NaN" and "Infinity".
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            return None;
        }
        if let Ok(whole) = text.parse::<i64>() {
            return Some(Self::Whole(whole.into()));
        }
        // Integers that no double can hold exactly are counted, also those of more than 64 bits.
        if let Ok(whole) = text.parse::<i128>() {
            return Some(Self::Whole(whole));
        }
        text.parse().ok().map(Self::Real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts() {
        for (text, number) in [
            ("3", Some(Number::Whole(3))),
            ("-4.5", Some(Number::Real(-4.5))),
            ("1e3", Some(Number::Real(1000.0))),
            ("9223372036854775809", Some(Number::Whole(9_223_372_036_854_775_809))),
            ("-18446744073709551617", Some(Number::Whole(-18_446_744_073_709_551_617))),
            (".5", Some(Number::Real(0.5))),
            ("NaN", None),
            ("inf", None),
            ("0x10", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(Number::parse(text), number, "{text}");
        }
    }
}
