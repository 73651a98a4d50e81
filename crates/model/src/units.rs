//! Amounts with a unit, as settings write them: [`Period`] (`"30s"`) and [`ByteSize`] (`"64MiB"`).
//!
//! Both can be parsed from text, also by serde ([`crate::setting`]). A number without a unit is refused,
//! because it would be unclear whether 30 means seconds or milliseconds.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

/// A length of time: a whole number and one of `ms`, `s`, `m` (or `min`), `h`, `d`, `w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Period(pub Duration);

/// A number of bytes: a whole number and one of `B`, `KiB`, `MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB`, `TB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// Why a text is not an amount with a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a length of time.
    #[error("{0:?} is not a period; write a whole number and a unit (ms, s, m, h, d, w), like \"30s\"")]
    Period(String),
    /// The text is not a number of bytes.
    #[error("{0:?} is not a size; write a whole number and a unit (B, KiB, MiB, GiB, TiB), like \"64MiB\"")]
    Size(String),
}

const PERIODS: [(&str, u64); 7] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("min", 60_000),
    ("s", 1000),
    ("ms", 1),
];

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

impl Period {
    /// A period of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A period of whole milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl ByteSize {
    /// A size of whole MiB.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The size as a length in memory, capped at the largest length of the machine.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Deref for Period {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match amount(text, &PERIODS) {
            Some(millis) => Ok(Self::millis(millis)),
            None => Err(UnitError::Period(text.to_owned())),
        }
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        amount(text, &SIZES).map(Self).ok_or_else(|| UnitError::Size(text.to_owned()))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        write_amount(f, millis, &PERIODS, "s")
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_amount(f, self.0, &SIZES, "B")
    }
}

fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Writes the amount in the largest unit that divides it. Zero is written in the unit `zero`.
fn write_amount(f: &mut fmt::Formatter<'_>, n: u64, units: &[(&str, u64)], zero: &str) -> fmt::Result {
    match units.iter().find(|(_, factor)| n > 0 && n.is_multiple_of(*factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", n / factor),
        None => write!(f, "0{zero}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_with_units() {
        for (text, millis, printed) in [
            ("30s", 30_000, "30s"),
            ("100ms", 100, "100ms"),
            ("90 m", 5_400_000, "90m"),
            ("5min", 300_000, "5m"),
            ("24h", 86_400_000, "1d"),
            ("0s", 0, "0s"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period, Period::millis(millis), "{text}");
            assert_eq!(period.to_string(), printed);
        }
        for (text, bytes, printed) in
            [("64MiB", 64 << 20, "64MiB"), ("1000B", 1000, "1kB"), ("3 GB", 3_000_000_000, "3GB")]
        {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size, ByteSize(bytes), "{text}");
            assert_eq!(size.to_string(), printed);
        }
    }

    #[test]
    fn what_is_no_amount() {
        for text in ["", "30", "s", "1.5h", "-1s", "30 sec", "99999999999999999999s", "18446744073709551615w"]
        {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
        for text in ["", "64", "64M", "64mib", "-1B"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_amounts_read_back(millis in 0u64..u64::MAX / 1000, bytes: u64) {
            let (period, size) = (Period::millis(millis), ByteSize(bytes));
            prop_assert_eq!(period.to_string().parse::<Period>(), Ok(period));
            prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }
    }
}
