//! The lines of port 4242, as KairosDB and OpenTSDB take them.

use crate::names;
use crate::number::Number;
use crate::point::Reason;
use crate::tags::shortened;

/// KairosDB's rule: a whole number below this means seconds, and any other means milliseconds.
const MILLISECONDS_FROM: i64 = 3_000_000_000;

/// The tag in which a time to live is sent. It is removed from the name.
const TTL_TAG: &str = "kairos_opt.ttl";

/// The request in a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Line {
    /// A point; its name is [`Lines::name`].
    Put(Put),
    /// Nothing: the line is empty.
    Empty,
    /// `version`.
    Version,
    /// `stats`.
    Stats,
    /// `help`.
    Help,
    /// `exit`.
    Exit,
}

/// The point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Put {
    /// Seconds since the epoch.
    pub timestamp: u32,
    /// The value; finite.
    pub value: f64,
    /// Whether milliseconds were cut from its time.
    pub is_cut: bool,
    /// Whether it came with a time to live.
    pub has_ttl: bool,
    /// Whether it is a whole number that no double can hold.
    pub is_rounded: bool,
}

/// Why a line was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// The reason. [`Reason::Item`] if it is not the line of a point.
    pub reason: Reason,
    /// The line of the answer, without LF.
    pub answer: String,
}

/// Reads lines. Keeps its memory from one line to the next.
#[derive(Debug, Default)]
pub struct Lines {
    name: String,
    /// Tags and values of the line, as positions in it.
    tags: Vec<(Place, Place)>,
}

type Place = std::ops::Range<usize>;

impl Lines {
    /// The name of the point of the line that was read last, in Graphite's form.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a line without its LF.
    ///
    /// # Errors
    /// If the line is refused.
    pub fn read(&mut self, line: &str) -> Result<Line, LineFault> {
        let mut words = Words { line, at: 0 };
        let Some(command) = words.next() else { return Ok(Line::Empty) };
        match &line[command] {
            "put" => self.put("put", false, words),
            "putm" => self.put("putm", true, words),
            "version" => Ok(Line::Version),
            "stats" => Ok(Line::Stats),
            "help" => Ok(Line::Help),
            "exit" => Ok(Line::Exit),
            "puts" => Err(fault(Reason::Value, "puts: text is not kept here, only numbers are".to_owned())),
            other => Err(fault(Reason::Item, format!("unknown command: {}.  Try `help'.", shortened(other)))),
        }
    }

    /// Reads a line as `tsdb scan --import` writes it: a `put` without that word. Returns the milliseconds since the
    /// epoch, the value, and whether there was a time to live.
    ///
    /// # Errors
    /// The error says why the line is refused.
    pub(crate) fn import(&mut self, line: &str) -> Result<(i64, Number, bool), String> {
        self.point(false, Words { line, at: 0 }).map_err(|(_, what)| what)
    }

    fn put(&mut self, command: &str, is_milliseconds: bool, words: Words<'_>) -> Result<Line, LineFault> {
        let illegal = |(reason, what): (Reason, String)| {
            // The answer to a wrong value has another text, as in OpenTSDB.
            let kind = if reason == Reason::Value { "" } else { "illegal argument: " };
            fault(reason, format!("{command}: {kind}{what}"))
        };
        let (time_ms, number, has_ttl) = self.point(is_milliseconds, words).map_err(illegal)?;
        let timestamp = u32::try_from(time_ms / 1000)
            .map_err(|_| illegal((Reason::Future, format!("invalid timestamp: {time_ms}"))))?;
        let (value, is_rounded) = number.to_double();
        Ok(Line::Put(Put { timestamp, value, is_cut: time_ms % 1000 != 0, has_ttl, is_rounded }))
    }

    /// Reads metric, time, value and tags.
    fn point(
        &mut self,
        is_milliseconds: bool,
        mut words: Words<'_>,
    ) -> Result<(i64, Number, bool), (Reason, String)> {
        let line = words.line;
        let (Some(metric), Some(time), Some(value)) = (words.next(), words.next(), words.next()) else {
            return Err((Reason::Item, "not enough arguments: a metric, a time and a value".to_owned()));
        };
        let time = &line[time];
        let time_ms = time_ms(time, is_milliseconds)
            .ok_or_else(|| (Reason::Timestamp, format!("invalid timestamp: {}", shortened(time))))?;
        let value = &line[value];
        let number = Number::parse(value)
            .filter(|number| !matches!(number, Number::Real(real) if !real.is_finite()))
            .ok_or_else(|| (Reason::Value, format!("invalid value: {}", shortened(value))))?;
        let has_ttl = self.take_tags(words).map_err(|what| (Reason::Tags, what))?;
        self.make_name(&line[metric], line);
        Ok((time_ms, number, has_ttl))
    }

    /// Reads the tags. Returns whether there was a time to live among them.
    fn take_tags(&mut self, words: Words<'_>) -> Result<bool, String> {
        self.tags.clear();
        let line = words.line;
        let mut has_ttl = false;
        for word in words {
            let text = &line[word.clone()];
            let mut signs = memchr::memchr_iter(b'=', text.as_bytes());
            let at = match (signs.next(), signs.next()) {
                (Some(at), None) if at > 0 && at + 1 < text.len() => at,
                _ => return Err(format!("invalid tag: {}", shortened(text))),
            };
            if &text[..at] == TTL_TAG {
                has_ttl = true;
                continue;
            }
            let at = word.start + at;
            self.tags.push((word.start..at, at + 1..word.end));
        }
        // `a-b=1` comes before `a=1` in Graphite's order, so whole segments are compared.
        if !self.tags.is_sorted_by(|a, b| line[a.0.start..a.1.end] <= line[b.0.start..b.1.end]) {
            self.tags.sort_by(|a, b| line[a.0.start..a.1.end].cmp(&line[b.0.start..b.1.end]));
        }
        let is_twice = |pair: &[(Place, Place)]| line[pair[0].0.clone()] == line[pair[1].0.clone()];
        if self.tags.windows(2).any(is_twice) {
            // The same tag twice is one tag, as in OpenTSDB. Two values of a tag are a mistake.
            self.tags
                .dedup_by(|tag, before| line[tag.0.start..tag.1.end] == line[before.0.start..before.1.end]);
            if let Some(pair) = self.tags.windows(2).find(|&pair| is_twice(pair)) {
                let tag = &line[pair[1].0.start..pair[1].1.end];
                return Err(format!("duplicate tag: {}", shortened(tag)));
            }
        }
        Ok(has_ttl)
    }

    fn make_name(&mut self, metric: &str, line: &str) {
        self.name.clear();
        self.name.push_str(&names::metric(metric));
        let mut is_changed = false;
        for (tag, value) in &self.tags {
            let (tag, value) = (names::tag(&line[tag.clone()]), names::value(&line[value.clone()]));
            is_changed |= matches!(tag, std::borrow::Cow::Owned(_));
            self.name.push(';');
            self.name.push_str(&tag);
            self.name.push('=');
            self.name.push_str(&value);
        }
        if is_changed {
            // Encoded tags may have another order.
            let (metric, tags) = self.name.split_once(';').unwrap_or((self.name.as_str(), ""));
            let mut segments: Vec<&str> = tags.split(';').collect();
            segments.sort_unstable();
            self.name = format!("{metric};{}", segments.join(";"));
        }
    }
}

fn fault(reason: Reason, answer: String) -> LineFault {
    LineFault { reason, answer }
}

/// The milliseconds of a time: whole seconds, milliseconds, or seconds with a fraction.
fn time_ms(text: &str, is_milliseconds: bool) -> Option<i64> {
    if let Some((seconds, fraction)) = text.split_once('.') {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_milliseconds || fraction.len() > 3 || !is_digits(fraction) || !is_digits(seconds) {
            return None;
        }
        let (seconds, fraction): (i64, i64) =
            (seconds.parse().ok()?, format!("{fraction:0<3}").parse().ok()?);
        return seconds.checked_mul(1000)?.checked_add(fraction);
    }
    let time: i64 = text.parse().ok().filter(|time| *time >= 0)?;
    if is_milliseconds || time >= MILLISECONDS_FROM { Some(time) } else { Some(time * 1000) }
}

/// The words of a line, one after the other, as ranges of bytes in it.
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = Place;

    #[inline]
    fn next(&mut self) -> Option<Place> {
        // Nearly all bytes are above the blank, so one comparison is usually enough.
        let is_blank = |byte: u8| byte <= b' ' && matches!(byte, b' ' | b'\t' | b'\r');
        let rest = &self.line.as_bytes()[self.at..];
        let from = rest.iter().position(|byte| !is_blank(*byte))?;
        let length = rest[from..].iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len() - from);
        let from = self.at + from;
        self.at = from + length;
        Some(from..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(String, u32, f64), String> {
        let mut lines = Lines::default();
        match lines.read(line) {
            Ok(Line::Put(put)) => Ok((lines.name().to_owned(), put.timestamp, put.value)),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(fault) => Err(fault.answer),
        }
    }

    #[test]
    fn points_as_both_take_them() {
        for (line, name, time, value) in [
            ("put m 1500000000 1 h=a", "m;h=a", 1_500_000_000, 1.0),
            ("put m 1500000000 1 h=a\r", "m;h=a", 1_500_000_000, 1.0),
            ("  put \t m  1500000000 .5 h=a ", "m;h=a", 1_500_000_000, 0.5),
            ("put m 2999999999 1.5e3 h=a", "m;h=a", 2_999_999_999, 1500.0),
            ("put m 3000000000 1e3 h=a", "m;h=a", 3_000_000, 1000.0),
            ("put m 1500000000123 +5 h=a", "m;h=a", 1_500_000_000, 5.0),
            ("put m 1500000000.123 -5 h=a", "m;h=a", 1_500_000_000, -5.0),
            ("putm m 1500 1 h=a", "m;h=a", 1, 1.0),
            ("put m 0 1 h=a", "m;h=a", 0, 1.0),
            ("put m 1 1", "m", 1, 1.0),
            ("put m 1 1 kairos_opt.ttl=60", "m", 1, 1.0),
            ("put m 1 1 h=a b=2 h=a h=a", "m;b=2;h=a", 1, 1.0),
            ("put m 1 1 b=2 a=1 a-b=3", "m;a-b=3;a=1;b=2", 1, 1.0),
            ("put ü;x 1 1 é=ß name=y z!=1", "ü%3Bx;%6Eame=y;z%21=1;é=ß", 1, 1.0),
        ] {
            assert_eq!(read(line), Ok((name.to_owned(), time, value)), "{line}");
        }
        let mut lines = Lines::default();
        let put = Put {
            timestamp: 1,
            value: 9_007_199_254_740_992.0,
            is_cut: true,
            has_ttl: true,
            is_rounded: true,
        };
        assert_eq!(lines.read("putm m 1001 9007199254740993 kairos_opt.ttl=1"), Ok(Line::Put(put)));
    }

    #[test]
    fn bad_lines_are_answered() {
        for (line, answer) in [
            ("put", "put: illegal argument: not enough arguments"),
            ("put m 1", "put: illegal argument: not enough arguments"),
            ("put m x 1 h=a", "put: illegal argument: invalid timestamp: x"),
            ("put m -5 1 h=a", "put: illegal argument: invalid timestamp: -5"),
            ("put m 15.1234 1 h=a", "put: illegal argument: invalid timestamp: 15.1234"),
            ("put m 99999999999999999 1 h=a", "put: illegal argument: invalid timestamp"),
            ("put m 1 NaN h=a", "put: invalid value: NaN"),
            ("put m 1 0x10 h=a", "put: invalid value: 0x10"),
            ("put m 1 1e999 h=a", "put: invalid value: 1e999"),
            ("put m 1 1 h=", "put: illegal argument: invalid tag: h="),
            ("put m 1 1 h", "put: illegal argument: invalid tag: h"),
            ("put m 1 1 h=a=b", "put: illegal argument: invalid tag: h=a=b"),
            ("put m 1 1 h=a h=b", "put: illegal argument: duplicate tag: h=b"),
            ("put m 1 1 h=b h=a h=b", "put: illegal argument: duplicate tag: h=b"),
            ("puts m 1 hello h=a", "puts: text"),
            ("rollup x", "unknown command: rollup.  Try `help'."),
        ] {
            let given = read(line).unwrap_err();
            assert!(given.starts_with(answer), "{line}: {given}");
        }
    }
}
