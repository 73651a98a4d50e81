//! Python's `%` formatting, for the numbers and texts in names.

use crate::number::{general, python_float, python_number, whole};

/// Formats one number with the only `%` conversion of a format. `is_whole` says that the number is an integer
/// in Python.
pub(crate) fn one_number(format: &str, value: f64, is_whole: bool) -> Result<String, String> {
    let (mut out, mut rest, mut used) = (String::new(), format, false);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (spec, behind) =
            Spec::read(&rest[at + 1..]).ok_or_else(|| format!("{format:?} is not a format"))?;
        rest = behind;
        if spec.conversion == '%' {
            out.push('%');
            continue;
        }
        if used {
            return Err(format!("the format {format:?} takes more than one number"));
        }
        used = true;
        out.push_str(
            &spec
                .number(value, is_whole)
                .ok_or_else(|| format!("{format:?} is not a format for a number"))?,
        );
    }
    out.push_str(rest);
    if used { Ok(out) } else { Err(format!("the format {format:?} takes no number")) }
}

/// Pads a text: on the left up to a positive width, on the right up to a negative one.
pub(crate) fn padded(text: &str, width: i64) -> String {
    let wanted = usize::try_from(width.unsigned_abs()).unwrap_or(0);
    if width < 0 { format!("{text:<wanted$}") } else { format!("{text:>wanted$}") }
}

/// A conversion such as `%-08.2f`, without the percent sign.
#[derive(Debug, Default)]
struct Spec {
    is_left: bool,
    has_sign: bool,
    has_space: bool,
    has_zeros: bool,
    /// The flag `#`: print the decimal point always, and keep the zeros of `%g`.
    is_alternate: bool,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

/// The largest width and precision.
const WIDTH_MAX: usize = 1000;

impl Spec {
    fn read(text: &str) -> Option<(Self, &str)> {
        let mut spec = Self::default();
        let mut rest = text;
        while let Some(flag) = rest.chars().next() {
            match flag {
                '-' => spec.is_left = true,
                '+' => spec.has_sign = true,
                ' ' => spec.has_space = true,
                '0' => spec.has_zeros = true,
                '#' => spec.is_alternate = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        (spec.width, rest) = digits(rest)?;
        if let Some(behind) = rest.strip_prefix('.') {
            let (precision, behind) = digits(behind)?;
            (spec.precision, rest) = (Some(precision), behind);
        }
        rest = rest.trim_start_matches(['h', 'l', 'L']);
        spec.conversion = rest.chars().next()?;
        rest = &rest[spec.conversion.len_utf8()..];
        Some((spec, rest))
    }

    fn number(&self, value: f64, is_whole: bool) -> Option<String> {
        let precision = self.precision.unwrap_or(6);
        let body = match self.conversion {
            'd' | 'i' | 'u' => {
                value.is_finite().then(|| filled(&whole(value), self.precision.unwrap_or(0)))?
            }
            'f' | 'F' if value.is_finite() => self.pointed(&format!("{value:.precision$}"), ""),
            'e' | 'E' if value.is_finite() => {
                let text = exponent(value, precision);
                let (digits, power) = text.split_at(text.find('e').unwrap_or(text.len()));
                self.pointed(digits, power)
            }
            'g' | 'G' if !self.is_alternate && precision == 6 => general(value),
            'g' | 'G' => self.shortest(value, precision),
            'f' | 'F' | 'e' | 'E' => python_float(value),
            's' | 'r' | 'a' => python_number(value, is_whole),
            _ => return None,
        };
        let body = match self.conversion {
            's' | 'r' | 'a' => body.chars().take(self.precision.unwrap_or(usize::MAX)).collect(),
            'E' | 'G' | 'F' => body.to_uppercase(),
            _ => body,
        };
        let is_text = matches!(self.conversion, 's' | 'r' | 'a');
        let sign = match (body.starts_with('-'), self.has_sign, self.has_space) {
            (false, true, _) if !is_text => "+",
            (false, false, true) if !is_text => " ",
            _ => "",
        };
        let signed = format!("{sign}{body}");
        let missing = self.width.saturating_sub(signed.chars().count());
        Some(if self.is_left {
            signed + &" ".repeat(missing)
        } else if self.has_zeros && !is_text {
            let digits = signed.find(|c: char| !matches!(c, '+' | '-' | ' ')).unwrap_or(0);
            format!("{}{}{}", &signed[..digits], "0".repeat(missing), &signed[digits..])
        } else {
            " ".repeat(missing) + &signed
        })
    }

    /// Joins digits and an exponent. With the flag `#` a decimal point is added if there is none.
    fn pointed(&self, digits: &str, exponent: &str) -> String {
        let point = if self.is_alternate && !digits.contains('.') { "." } else { "" };
        format!("{digits}{point}{exponent}")
    }

    /// Formats as `%.3g`.
    fn shortest(&self, value: f64, precision: usize) -> String {
        if !value.is_finite() {
            return python_float(value);
        }
        let digits = precision.max(1);
        let scientific = exponent(value, digits - 1);
        let (mantissa, power) = scientific.split_at(scientific.find('e').unwrap_or(scientific.len()));
        let trimmed = |text: &str| match text.contains('.') && !self.is_alternate {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        let exponent: i64 = power.trim_start_matches('e').parse().unwrap_or(0);
        match usize::try_from(digits as i64 - 1 - exponent) {
            Ok(decimals) if exponent >= -4 => self.pointed(&trimmed(&format!("{value:.decimals$}")), ""),
            _ => self.pointed(&trimmed(mantissa), power),
        }
    }
}

fn digits(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let number = if number.is_empty() { 0 } else { number.parse().ok()? };
    (number <= WIDTH_MAX).then_some((number, rest))
}

/// Pads a whole number with zeros to a number of digits.
fn filled(number: &str, digits: usize) -> String {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    format!("{sign}{number:0>digits$}")
}

fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts() {
        for (format, value, result) in [
            ("%d items", 3.7, "3 items"),
            ("%.2f", 2.71528, "2.72"),
            ("%s", 3.0, "3.0"),
            ("%g%%", 0.1, "0.1%"),
            ("%+08.1f|", 2.25, "+00002.2|"),
            ("%-8d|", -5.0, "-5      |"),
            ("%.3d", 2.0, "002"),
            ("%06.3d", -2.0, "-00002"),
            ("%a", 2.5, "2.5"),
            ("%e", 12345.678, "1.234568e+04"),
            ("%.3g", 1234.5, "1.23e+03"),
            ("%#g", 4.5, "4.50000"),
            ("%#g", 0.0, "0.00000"),
            ("%#g", 1e20, "1.00000e+20"),
            ("%#.1g", 1e20, "1.e+20"),
            ("%#.3G", 4.5, "4.50"),
            ("%#.0f", 4.5, "4."),
            ("%#.0e", 4.5, "4.e+00"),
            ("%#d", 4.5, "4"),
        ] {
            assert_eq!(one_number(format, value, false), Ok(result.to_owned()), "{format}");
        }
        assert_eq!(one_number("%s", 1.0, true).as_deref(), Ok("1"));
        for wrong in ["none", "%d %d", "%", "%q", "%99999999999999999999d"] {
            assert!(one_number(wrong, 1.0, false).is_err(), "{wrong}");
        }
        assert_eq!((padded("a", -3), padded("a", 3)), ("a  ".to_owned(), "  a".to_owned()));
    }
}
