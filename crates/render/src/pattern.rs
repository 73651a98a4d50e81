//! Searches and replaces regular expressions as Python's `re` does.

use plumbago_model::rules;

use crate::fault::Fault;

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct Pattern(rules::Pattern);

/// The replacement for each match.
#[derive(Debug)]
pub(crate) struct Replacement(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Group(usize),
}

/// The meaning of an escape in a replacement.
#[derive(Debug)]
enum Escape {
    Text(char),
    Group(usize),
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, Fault> {
        let pattern = rules::Pattern::new(text);
        Ok(Self(pattern.map_err(|error| format!("{text:?} is not a valid regular expression: {error}"))?))
    }

    pub(crate) fn is_match(&self, text: &str) -> Result<bool, Fault> {
        Ok(self.0.is_match(text).ok_or("the regular expression exceeds its backtracking limit")?)
    }

    /// Parses a replacement with groups (`\1`, `\g<1>`, `\g<name>`) and Python's escapes.
    pub(crate) fn replacement(&self, text: &str) -> Result<Replacement, Fault> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('\\') {
            plain.push_str(&rest[..at]);
            let escape = self.escape(&rest[at + 1..]);
            let (escape, length) =
                escape.map_err(|what| Fault::from(format!("{what} in the replacement {text:?}")))?;
            match escape {
                Escape::Text(c) => plain.push(c),
                Escape::Group(group) => {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(Part::Group(group));
                }
            }
            rest = &rest[at + 1 + length..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Replacement(parts))
    }

    /// Parses the escape after a backslash. Also returns the length of the escape in bytes.
    fn escape(&self, behind: &str) -> Result<(Escape, usize), &'static str> {
        let first = behind.chars().next().ok_or("a backslash at the end")?;
        let control = |code: u8| Ok((Escape::Text(char::from(code)), 1));
        match first {
            'g' => {
                let name = behind[1..].strip_prefix('<').and_then(|name| name.split_once('>'));
                let (name, _) = name.ok_or("\\g without <name>")?;
                let group = name.trim().parse().ok().or_else(|| self.0.group(name));
                Ok((self.known_group(group)?, name.len() + 3))
            }
            '0' => octal(&behind[..1 + digits(&behind[1..], 2, b'7')]),
            '1'..='7' if digits(behind, 3, b'7') == 3 => octal(&behind[..3]),
            '1'..='9' => {
                let length = digits(behind, 2, b'9');
                Ok((self.known_group(behind[..length].parse().ok())?, length))
            }
            'a' => control(0x07),
            'b' => control(0x08),
            't' => control(b'\t'),
            'n' => control(b'\n'),
            'v' => control(0x0b),
            'f' => control(0x0c),
            'r' => control(b'\r'),
            '\\' => control(b'\\'),
            _ if first.is_ascii_alphanumeric() => Err("an unknown escape"),
            _ => Ok((Escape::Text('\\'), 0)),
        }
    }

    fn known_group(&self, group: Option<usize>) -> Result<Escape, &'static str> {
        let group = group.filter(|group| *group < self.0.groups());
        group.map(Escape::Group).ok_or("a group that the pattern does not have")
    }

    /// Replaces every match.
    pub(crate) fn replace_all(&self, text: &str, replacement: &Replacement) -> Result<String, Fault> {
        /// The longest result, in bytes.
        const BYTES_MAX: usize = 1 << 20;
        let mut bytes = 0;
        let replaced = self.0.replace_all(text, |out, group| {
            for part in &replacement.0 {
                let part = match part {
                    Part::Text(text) => text.as_str(),
                    Part::Group(number) => group(*number),
                };
                bytes += part.len();
                if bytes <= BYTES_MAX {
                    out.push_str(part);
                }
            }
        });
        if bytes > BYTES_MAX {
            return Err("the replacement makes a name too long".into());
        }
        Ok(replaced.ok_or("the regular expression exceeds its backtracking limit")?.into_owned())
    }
}

/// Counts the digits from 0 to `last` at the start of a text, up to a limit.
fn digits(text: &str, limit: usize, last: u8) -> usize {
    text.bytes().take(limit).take_while(|byte| (b'0'..=last).contains(byte)).count()
}

/// The character of up to three octal digits.
fn octal(digits: &str) -> Result<(Escape, usize), &'static str> {
    let code = u8::from_str_radix(digits, 8).map_err(|_| "an octal number above \\377")?;
    Ok((Escape::Text(char::from(code)), digits.len()))
}
