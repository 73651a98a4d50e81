//! Formats numbers as labels of the vertical axis.

/// The letters that stand for large numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Units {
    Si,
    Binary,
    Seconds,
    Milliseconds,
    None,
}

impl Units {
    /// The units of Graphite's option `yUnitSystem`. Unknown names mean `si`.
    pub(crate) fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "binary" => Self::Binary,
            "sec" => Self::Seconds,
            "msec" => Self::Milliseconds,
            "none" => Self::None,
            _ => Self::Si,
        }
    }

    /// The letters and their values, the largest first.
    fn table(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Si => &[("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)],
            Self::Binary => &[
                ("Pi", 1_125_899_906_842_624.0),
                ("Ti", 1_099_511_627_776.0),
                ("Gi", 1_073_741_824.0),
                ("Mi", 1_048_576.0),
                ("Ki", 1024.0),
            ],
            Self::Seconds => {
                &[("Y", 31_536_000.0), ("M", 2_592_000.0), ("D", 86_400.0), ("H", 3600.0), ("m", 60.0)]
            }
            Self::Milliseconds => &[
                ("Y", 31_536_000_000.0),
                ("M", 2_592_000_000.0),
                ("D", 86_400_000.0),
                ("H", 3_600_000.0),
                ("m", 60_000.0),
                ("s", 1000.0),
            ],
            Self::None => &[],
        }
    }

    /// A number divided by a unit, and the letter of the unit. If a step is given, only units up to the step
    /// are used, so that the labels differ.
    fn scaled(self, value: f64, step: Option<f64>) -> (f64, &'static str) {
        let fits = |size: f64| value.abs() >= size && step.is_none_or(|step| step >= size);
        let found = self.table().iter().find(|(_, size)| fits(*size));
        let (letter, size) = found.copied().unwrap_or(("", 1.0));
        let scaled = value / size;
        let is_whole = scaled - scaled.floor() < 1e-11 && value > 1.0;
        (if is_whole { scaled.floor() } else { scaled }, letter)
    }
}

/// The smallest number that is not written out in full.
const TOO_LONG: f64 = 1e12;

/// The label of a number on an axis with a range of `span` and steps of `step`. It ends with a blank or with
/// the letter of a unit.
pub(crate) fn label(value: f64, step: Option<f64>, span: f64, units: Units) -> String {
    let (value, letter) = units.scaled(value, step);
    let (span, span_letter) = units.scaled(span, step);
    let number = if !(0.1..TOO_LONG).contains(&value) {
        general(value)
    } else if value < 1.0 {
        format!("{value:.2}")
    } else if span > 10.0 || !letter.is_empty() || !span_letter.is_empty() || span > 3.0 {
        format!("{value:.1}")
    } else if span > 0.1 {
        format!("{value:.2}")
    } else {
        general(value)
    };
    format!("{number} {letter}")
}

/// A number as C's `%g` prints it: six digits, without zeros at the end.
pub(crate) fn general(value: f64) -> String {
    const DIGITS: i32 = 6;
    let scientific = format!("{:.*e}", DIGITS as usize - 1, value);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return bare(&format!("{value:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", bare(mantissa), exponent.abs())
}

/// A number without zeros at the end of its fraction.
fn bare(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (-5.0, "-5"),
            (0.05, "0.05"),
            (1e-5, "1e-05"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.23457e+06"),
            (-0.1, "-0.1"),
        ] {
            assert_eq!(general(value), text);
        }
    }

    #[test]
    fn letters_follow_the_step() {
        assert_eq!(label(2000.0, Some(500.0), 3000.0, Units::Si), "2000.0 ");
        assert_eq!(label(2000.0, Some(1000.0), 3000.0, Units::Si), "2.0 k");
        assert_eq!(label(2048.0, Some(1024.0), 8192.0, Units::Binary), "2.0 Ki");
        assert_eq!(label(0.5, Some(0.5), 2.0, Units::Si), "0.50 ");
        assert_eq!(label(1.5, Some(0.5), 2.0, Units::Si), "1.50 ");
        assert_eq!(label(-20.0, Some(10.0), 40.0, Units::None), "-20 ");
        assert_eq!(label(7200.0, Some(3600.0), 20_000.0, Units::Seconds), "2.0 H");
    }
}
