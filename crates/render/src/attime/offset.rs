//! Offsets of times, such as `-1d12h`.

/// Parses a sign (plus by default) and any number of `number unit`, in seconds. An empty text is zero.
///
/// # Errors
///
/// A message with the problem of the text.
pub fn parse_offset(text: &str) -> Result<i64, String> {
    let (sign, mut rest) = match text.as_bytes().first() {
        None => return Ok(0),
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        Some(b) if b.is_ascii_digit() => (1, text),
        Some(_) => return Err(format!("an amount of time begins with a sign or a digit, not {text:?}")),
    };
    let mut total = 0i64;
    while !rest.is_empty() {
        let (seconds, behind) = amount(rest)?;
        total = total.checked_add(seconds).ok_or_else(too_long)?;
        rest = behind;
    }
    Ok(sign * total)
}

/// Like [`parse_offset`], for intervals of functions. The result is small enough to be added to times without
/// an overflow.
pub(crate) fn parse_interval(text: &str) -> Result<i64, String> {
    /// Longer than the calendar.
    const SECONDS_MAX: i64 = 1 << 40;
    let seconds = parse_offset(text)?;
    if seconds.abs() > SECONDS_MAX { Err(too_long()) } else { Ok(seconds) }
}

/// Parses one `number unit`, and returns the rest of the text.
fn amount(text: &str) -> Result<(i64, &str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(format!("expected a number at {text:?}"));
    }
    let (number, rest) = text.split_at(digits);
    let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (unit, behind) = rest.split_at(letters);
    let number: i64 = number.parse().map_err(|_| too_long())?;
    let seconds = number.checked_mul(unit_seconds(unit)?).ok_or_else(too_long)?;
    Ok((seconds, behind))
}

/// Recognises a unit by its first letters, so that `hrs` and `minutes` are understood.
fn unit_seconds(unit: &str) -> Result<i64, String> {
    const UNITS: [(&str, i64); 7] = [
        ("s", 1),
        ("min", 60),
        ("h", 3600),
        ("d", 86_400),
        ("w", 604_800),
        ("mon", 30 * 86_400),
        ("y", 365 * 86_400),
    ];
    match UNITS.iter().find(|(prefix, _)| unit.starts_with(prefix)) {
        Some((_, seconds)) => Ok(*seconds),
        None if unit.is_empty() => Err("a number without a unit (s, min, h, d, w, mon, y)".to_owned()),
        None if unit == "m" => Err("m is not a unit: write min for minutes or mon for months".to_owned()),
        None => Err(format!("{unit:?} is not a unit (s, min, h, d, w, mon, y)")),
    }
}

fn too_long() -> String {
    "the amount of time is too large".to_owned()
}
