//! Lines of access logs in the format of Apache, nginx and gunicorn, common or combined:
//! `host - user [10/Oct/2000:13:55:36 -0700] "GET /render?target=a HTTP/1.1" 200 2326 …`.

use super::{Recorded, reason, request_path};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads the request in a line of a log.
///
/// # Errors
///
/// The reason why the line is left out.
pub(super) fn read(line: &str) -> Result<Recorded, &'static str> {
    let (at, rest) = time(line).ok_or(reason::NO_LOG)?;
    let request = quoted(rest).ok_or(reason::NO_LOG)?;
    let (method, rest) = request.split_once(' ').ok_or(reason::NO_LOG)?;
    let target = rest.rsplit_once(" HTTP/").map_or(rest, |(target, _)| target);
    Ok(Recorded { at, path: request_path(method, target, false)?, body: None })
}

/// The time between the brackets, in seconds since the epoch, and the text after it.
fn time(line: &str) -> Option<(f64, &str)> {
    let (_, rest) = line.split_once('[')?;
    let (time, rest) = rest.split_once(']')?;
    let (time, zone) = time.split_once(' ')?;
    let mut parts = time.splitn(6, ['/', ':']);
    let mut number = |max: i64| parts.next()?.parse::<i64>().ok().filter(|n| (0..=max).contains(n));
    let day = number(31)?;
    let month = parts_month(&mut parts)?;
    let mut number = |max: i64| parts.next()?.parse::<i64>().ok().filter(|n| (0..=max).contains(n));
    let (year, hour, minute, second) = (number(9999)?, number(23)?, number(59)?, number(60)?);
    let (sign, digits) = (zone.get(..1)?, zone.get(1..5)?);
    let (hours, minutes) = (digits.get(..2)?.parse::<i64>().ok()?, digits.get(2..)?.parse::<i64>().ok()?);
    let offset = (hours * 60 + minutes) * if sign == "-" { -60 } else { 60 };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some((seconds as f64, rest))
}

fn parts_month<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<i64> {
    let name = parts.next()?;
    MONTHS.iter().position(|month| *month == name).map(|at| at as i64 + 1)
}

/// The number of days from the epoch to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Here years begin in March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469
}

/// The first quoted text, with its escapes `\"`, `\\` and `\xHH` decoded.
fn quoted(text: &str) -> Option<String> {
    let rest = text.split_once('"')?.1.as_bytes();
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        match *rest.get(at)? {
            b'"' => return Some(String::from_utf8_lossy(&bytes).into_owned()),
            b'\\' => {
                let hex = rest.get(at + 2..at + 4).and_then(|hex| std::str::from_utf8(hex).ok());
                let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                match (rest.get(at + 1)?, byte) {
                    (b'x', Some(byte)) => {
                        bytes.push(byte);
                        at += 4;
                    }
                    (other, _) => {
                        bytes.push(*other);
                        at += 2;
                    }
                }
            }
            other => {
                bytes.push(other);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_common_servers_are_read() {
        let common =
            "10.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /render?target=a HTTP/1.0\" 200 2326";
        let read_well = |line: &str| {
            let found = read(line).unwrap();
            (found.at as i64, found.path)
        };
        assert_eq!(read_well(common), (971_211_336, "/render?target=a".to_owned()));
        let combined = "::1 - - [29/Feb/2024:00:00:00 +0100] \"GET /render?target=alias(a,\\x22x\\\") HTTP/1.1\" 200 5 \
                        \"-\" \"Grafana/9\"";
        assert_eq!(read_well(combined), (1_709_161_200, "/render?target=alias(a,%22x%22)".to_owned()));
    }

    #[test]
    fn other_lines_are_left_out_with_a_reason() {
        for (line, why) in [
            ("", reason::NO_LOG),
            ("a.b 1 1700000000", reason::NO_LOG),
            ("- [x] \"GET / HTTP/1.1\"", reason::NO_LOG),
            ("- [10/Oct/2000:13:55:36 -0700] \"GET / HTTP", reason::NO_LOG),
            ("- [10/Oct/2000:13:55:36 \u{fc}0700] \"GET / HTTP/1.1\"", reason::NO_LOG),
            ("- [10/Oct/2000:13:55:36 -0700] \"\\", reason::NO_LOG),
            ("- [10/Oct/2000:13:55:36 -0700] \"POST /render HTTP/1.1\" 200", reason::NO_BODY),
            ("- [10/Oct/2000:13:55:36 -0700] \"HEAD / HTTP/1.1\" 200", reason::METHOD),
        ] {
            assert_eq!(read(line).unwrap_err(), why, "{line}");
        }
    }
}
