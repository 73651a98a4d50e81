//! `rewrite-rules.conf`: `regex = replacement` under `[pre]` and `[post]`.

use std::borrow::Cow;

use plumbago_model::name::NAME_BYTES_MAX;
use plumbago_model::rules::Pattern;

use crate::reject::Reject;

/// Rules in order.
#[derive(Debug, Default)]
pub(super) struct Rewrites(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// The line, counted from 1.
    line: usize,
    /// The rule as written.
    text: String,
    pattern: Pattern,
    replacement: Vec<Part>,
}

/// A part of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Pre,
    Post,
}

impl Rewrites {
    /// Parses the rules under `[pre]`, and those under `[post]`.
    pub(super) fn parse(text: &str, problems: &mut Vec<(usize, String)>) -> (Self, Self) {
        let mut section = None;
        let (mut pre, mut post) = (Vec::new(), Vec::new());
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = section_of(name).map_err(|error| problems.push((i + 1, error))).ok();
                // As in carbon, a second section of the same name replaces the first.
                match section {
                    Some(Section::Pre) => pre.clear(),
                    Some(Section::Post) => post.clear(),
                    None => {}
                }
                continue;
            }
            match (Rule::parse(i + 1, line), section) {
                (Ok(rule), Some(Section::Pre)) => pre.push(rule),
                (Ok(rule), Some(Section::Post)) => post.push(rule),
                (Ok(_), None) => problems
                    .push((i + 1, "the rule is not in a section; put it under [pre] or [post]".to_owned())),
                (Err(error), _) => problems.push((i + 1, error)),
            }
        }
        (Self(pre), Self(post))
    }

    /// Appends other rules to these.
    pub(super) fn then(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn apply<'a>(&self, name: &'a str) -> Result<Cow<'a, str>, Reject> {
        let mut current = Cow::Borrowed(name);
        for rule in &self.0 {
            if let Cow::Owned(rewritten) = rule.apply(&current)? {
                current = Cow::Owned(rewritten);
            }
            // Rules that make a name longer must not do so without limit.
            if current.len() > NAME_BYTES_MAX {
                return Err(Reject::NameTooLong);
            }
        }
        Ok(current)
    }

    /// Like [`Self::apply`]. Calls `taken` with the line and the text of each rule that matches, and with the name
    /// that results; `None` if the name is refused there.
    pub(super) fn follow(
        &self,
        name: &str,
        mut taken: impl FnMut(usize, &str, Option<&str>),
    ) -> Result<String, Reject> {
        let mut current = name.to_owned();
        for rule in &self.0 {
            let made = match rule.apply(&current) {
                Ok(Cow::Borrowed(_)) => continue,
                Ok(Cow::Owned(made)) if made.len() > NAME_BYTES_MAX => Err(Reject::NameTooLong),
                Ok(Cow::Owned(made)) => Ok(made),
                Err(reason) => Err(reason),
            };
            taken(rule.line, &rule.text, made.as_deref().ok());
            current = made?;
        }
        Ok(current)
    }
}

fn section_of(name: &str) -> Result<Section, String> {
    match name.to_lowercase().as_str() {
        "pre" => Ok(Section::Pre),
        "post" => Ok(Section::Post),
        _ => Err(format!("[{name}] is not known; rules must be under [pre] or [post]")),
    }
}

impl Rule {
    fn parse(line: usize, text: &str) -> Result<Self, String> {
        let (pattern, replacement) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not regex = replacement"))?;
        let (pattern, replacement) = (pattern.trim(), replacement.trim());
        let pattern = Pattern::new(pattern).map_err(|error| format!("pattern {pattern:?}: {error}"))?;
        let replacement = parts(replacement, &pattern)?;
        Ok(Self { line, text: text.to_owned(), pattern, replacement })
    }

    fn apply<'a>(&self, name: &'a str) -> Result<Cow<'a, str>, Reject> {
        let replaced = self.pattern.replace_all(name, |out, group| {
            for part in &self.replacement {
                match part {
                    Part::Text(text) => out.push_str(text),
                    Part::Group(number) => out.push_str(group(*number)),
                }
            }
        });
        replaced.ok_or(Reject::Rule)
    }
}

/// Python's replacement text: `\1` … `\99`, `\g<1>`, `\g<name>` and `\\`. A `$` has no special meaning.
fn parts(mut text: &str, pattern: &Pattern) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some((plain, rest)) = text.split_once('\\') {
        push_text(&mut parts, plain);
        let (part, after) = reference(rest, pattern)?;
        match part {
            Part::Text(literal) => push_text(&mut parts, &literal),
            group => parts.push(group),
        }
        text = after;
    }
    push_text(&mut parts, text);
    Ok(parts)
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Parses what follows a backslash. Also returns the rest of the text.
fn reference<'a>(text: &'a str, pattern: &Pattern) -> Result<(Part, &'a str), String> {
    if let Some((name, after)) = text.strip_prefix("g<").and_then(|rest| rest.split_once('>')) {
        let number = name.parse().ok().or_else(|| pattern.group(name));
        return group(number, name, pattern).map(|part| (part, after));
    }
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if digits > 0 && !text.starts_with('0') {
        let (number, after) = text.split_at(digits);
        return group(number.parse().ok(), number, pattern).map(|part| (part, after));
    }
    match text.chars().next() {
        Some('\\') => Ok((Part::Text("\\".to_owned()), &text[1..])),
        Some(c) if !c.is_ascii_alphanumeric() => Ok((Part::Text("\\".to_owned()), text)),
        Some(c) => Err(format!("\\{c} means nothing in a replacement; write \\1 for a group")),
        None => Err("the replacement ends in a backslash".to_owned()),
    }
}

fn group(number: Option<usize>, name: &str, pattern: &Pattern) -> Result<Part, String> {
    match number {
        Some(number) if number < pattern.groups() => Ok(Part::Group(number)),
        _ => Err(format!("the pattern has no group {name}")),
    }
}
