//! Numbers as Python prints them.

/// Formats a float as Python's `repr`: `1.0`, `1e-05`, `1e+16`, `inf`, `nan`.
///
/// For names and messages. Formats with millions of numbers use a faster function.
pub fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        // If two shortest texts exist, Python takes the nearer one, or the one with an even digit; zmij does
        // the same.
        let plain = zmij::Buffer::new().format_finite(value).to_owned();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Formats a number as Python's `str`: an integer as `1`, a float as `1.0`.
pub(crate) fn python_number(value: f64, is_whole: bool) -> String {
    if is_whole && value.fract() == 0.0 { whole(value) } else { python_float(value) }
}

/// Formats a float as C's `%g`: six digits, no zeros at the end.
pub(crate) fn general(value: f64) -> String {
    if !value.is_finite() {
        return python_float(value);
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(5 - exponent) {
        Ok(decimals) if exponent >= -4 => trimmed(&format!("{value:.decimals$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs())
        }
    }
}

/// Rounds to decimals as Python's `round`: to the nearest decimal of the exact value, and to an even digit on a
/// tie.
pub(crate) fn rounded(value: f64, decimals: i64) -> f64 {
    if !value.is_finite() || decimals > 300 {
        return value;
    }
    if decimals < 0 {
        let unit = 10f64.powi(i32::try_from(decimals.unsigned_abs()).unwrap_or(i32::MAX));
        return if unit.is_finite() { (value / unit).round_ties_even() * unit } else { 0.0 * value };
    }
    let decimals = usize::try_from(decimals).unwrap_or(0);
    if decimals <= 15 {
        // This is exact unless the scaled value is too large, or too near to a tie.
        let unit = 10f64.powi(decimals as i32);
        let scaled = value * unit;
        let from_tie = ((scaled - scaled.trunc()).abs() - 0.5).abs();
        if scaled.abs() < 1e12 && from_tie > 1e-3 {
            return scaled.round() / unit;
        }
    }
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

/// Formats the whole part, as Python's `%d`.
pub(crate) fn whole(value: f64) -> String {
    if value.is_finite() { format!("{:.0}", value.trunc() + 0.0) } else { python_float(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python_prints_floats() {
        for (value, printed) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e-5, "1e-05"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e300, "1.25e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(python_float(value), printed);
        }
    }

    #[test]
    fn as_python_rounds() {
        for (value, decimals, result) in [
            (0.5, 0, 0.0),
            (1.5, 0, 2.0),
            (2.675, 2, 2.67),
            (2.5, 0, 2.0),
            (-0.15, 1, -0.1),
            (0.000_000_5, 6, 0.0),
            (0.000_001_5, 6, 0.000_002),
            (1_234.567_890_12, 6, 1_234.567_89),
            (1e300, 6, 1e300),
            (150.0, -2, 200.0),
            (250.0, -2, 200.0),
            (123_456_789_012.345_67, 4, 123_456_789_012.345_7),
        ] {
            assert_eq!(rounded(value, decimals), result, "{value} {decimals}");
        }
        assert_eq!((whole(1.9), whole(-1.9), whole(-0.5)), ("1".to_owned(), "-1".to_owned(), "0".to_owned()));
    }

    #[test]
    fn as_c_prints_general_numbers() {
        for (value, printed) in [
            (2.0, "2"),
            (0.0, "0"),
            (-0.5, "-0.5"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (999_999.5, "1e+06"),
            (0.0001, "0.0001"),
            (0.000_012_345, "1.2345e-05"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(general(value), printed);
        }
    }
}
