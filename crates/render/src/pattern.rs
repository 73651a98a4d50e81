//! Regular expressions in Python's dialect, as `re` searches and replaces with them.

use plumbago_model::rules;

use crate::context::Fault;

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct Pattern(rules::Pattern);

/// What a match is replaced by.
#[derive(Debug)]
pub(crate) struct Replacement(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Group(usize),
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, Fault> {
        let pattern = rules::Pattern::new(text);
        Ok(Self(pattern.map_err(|error| format!("{text:?} is no regular expression: {error}"))?))
    }

    pub(crate) fn is_match(&self, text: &str) -> Result<bool, Fault> {
        Ok(self.0.is_match(text).ok_or("the regular expression takes too long")?)
    }

    /// Reads `\1`, `\g<1>`, `\g<name>` and the escapes of a replacement.
    pub(crate) fn replacement(&self, text: &str) -> Result<Replacement, Fault> {
        let wrong = |what: &str| Fault::Argument(format!("{what} in the replacement {text:?}"));
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('\\') {
            plain.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            let escape = behind.chars().next().ok_or_else(|| wrong("a backslash at the end"))?;
            let (group, length) = match escape {
                'g' => {
                    let name = behind[1..].strip_prefix('<').and_then(|name| name.split_once('>'));
                    let (name, _) = name.ok_or_else(|| wrong("\\g without <name>"))?;
                    let group = name.parse().ok().or_else(|| self.0.group(name));
                    (Some(group.ok_or_else(|| wrong("an unknown group"))?), name.len() + 3)
                }
                '1'..='9' => {
                    let length = behind.bytes().take(2).take_while(u8::is_ascii_digit).count();
                    (behind[..length].parse().ok(), length)
                }
                'n' | 't' | 'r' => {
                    plain.push(match escape {
                        'n' => '\n',
                        't' => '\t',
                        _ => '\r',
                    });
                    (None, 1)
                }
                '\\' => {
                    plain.push('\\');
                    (None, 1)
                }
                _ if escape.is_ascii_alphanumeric() => return Err(wrong("an unknown escape")),
                _ => {
                    plain.push('\\');
                    (None, 0)
                }
            };
            if let Some(group) = group {
                if group >= self.0.groups() {
                    return Err(wrong("a group that the pattern does not have"));
                }
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Group(group));
            }
            rest = &behind[length..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Replacement(parts))
    }

    /// The text with every match replaced.
    pub(crate) fn replace_all(&self, text: &str, replacement: &Replacement) -> Result<String, Fault> {
        /// Longer than any name is.
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
        Ok(replaced.ok_or("the regular expression takes too long")?.into_owned())
    }
}
