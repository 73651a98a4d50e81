//! Numbers as Python prints them.

/// The text of a float as Python's `repr` gives it: `1.0`, `1e-05`, `1e+16`, `inf`, `nan`.
///
/// For names and messages; the formats that print millions of numbers have a faster printer.
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
        // Of two shortest texts Python takes the nearer one, an even digit on a tie, as zmij does.
        let plain = zmij::Buffer::new().format_finite(value).to_owned();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// The text of a float as C's `%g` gives it: six digits, no zeros at the end.
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
