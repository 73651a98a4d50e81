//! Python's `%` formatting of numbers and texts, as far as names use it.

use crate::number::{general, python_float, whole};

/// A text with one number put where its one `%` conversion is.
pub(crate) fn one_number(format: &str, value: f64) -> Result<String, String> {
    let (mut out, mut rest, mut used) = (String::new(), format, false);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (spec, behind) = Spec::read(&rest[at + 1..]).ok_or_else(|| format!("{format:?} is no format"))?;
        rest = behind;
        if spec.conversion == '%' {
            out.push('%');
            continue;
        }
        if used {
            return Err(format!("the format {format:?} takes more than one number"));
        }
        used = true;
        out.push_str(&spec.number(value).ok_or_else(|| format!("{format:?} is no format of a number"))?);
    }
    out.push_str(rest);
    if used { Ok(out) } else { Err(format!("the format {format:?} takes no number")) }
}

/// Padded to a width: to the left of it, or to the right of it when it is negative.
pub(crate) fn padded(text: &str, width: i64) -> String {
    let wanted = usize::try_from(width.unsigned_abs()).unwrap_or(0);
    if width < 0 { format!("{text:<wanted$}") } else { format!("{text:>wanted$}") }
}

/// `%-08.2f`, the part behind the percent sign.
#[derive(Debug, Default)]
struct Spec {
    is_left: bool,
    has_sign: bool,
    has_space: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

/// Wider or more precise than any name is.
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
                '#' => {}
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

    fn number(&self, value: f64) -> Option<String> {
        let precision = self.precision.unwrap_or(6);
        let body = match self.conversion {
            'd' | 'i' | 'u' => {
                value.is_finite().then(|| filled(&whole(value), self.precision.unwrap_or(0)))?
            }
            'f' | 'F' if value.is_finite() => format!("{value:.precision$}"),
            'e' | 'E' if value.is_finite() => exponent(value, precision),
            'g' | 'G' if self.precision.is_none_or(|p| p == 6) => general(value),
            'g' | 'G' => shortest(value, precision),
            'f' | 'F' | 'e' | 'E' | 's' | 'r' | 'a' => python_float(value),
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
}

fn digits(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let number = if number.is_empty() { 0 } else { number.parse().ok()? };
    (number <= WIDTH_MAX).then_some((number, rest))
}

/// A whole number with zeros up to a number of digits.
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

/// `%.3g`.
fn shortest(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return python_float(value);
    }
    let digits = precision.max(1);
    let scientific = exponent(value, digits - 1);
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let power: i64 = power.parse().unwrap_or(0);
    match usize::try_from(digits as i64 - 1 - power) {
        Ok(decimals) if power >= -4 => trim(&format!("{value:.decimals$}")),
        _ => format!("{}{}", trim(mantissa), &scientific[scientific.find('e').unwrap_or(scientific.len())..]),
    }
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
        ] {
            assert_eq!(one_number(format, value), Ok(result.to_owned()), "{format}");
        }
        for wrong in ["none", "%d %d", "%", "%q", "%99999999999999999999d"] {
            assert!(one_number(wrong, 1.0).is_err(), "{wrong}");
        }
        assert_eq!((padded("a", -3), padded("a", 3)), ("a  ".to_owned(), "  a".to_owned()));
    }
}
