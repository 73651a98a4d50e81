//! Filters of tags.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};

use crate::REGEX_BYTES_MAX;

/// A condition on the value of a tag. A series without the tag never matches.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The key of the tag.
    pub tag: String,
    /// Whether series with different values of the tag belong to different results.
    pub group_by: bool,
    /// The text of the filter, as in the query.
    pub text: String,
    kind: Kind,
    /// Whether it was written in the short form, without a type.
    is_short: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Matches one of the values, or, if `is_negative`, none of them.
    Literals {
        values: BTreeSet<String>,
        is_negative: bool,
        ignores_case: bool,
    },
    /// Pieces between asterisks.
    Wildcard {
        pieces: Vec<String>,
        ignores_case: bool,
    },
    Regex(Regex),
}

impl Filter {
    /// Reads a filter of a type.
    pub(super) fn new(kind: &str, tag: &str, text: &str, group_by: bool) -> Result<Self, String> {
        if tag.is_empty() {
            return Err("The tagk cannot be null or empty".to_owned());
        }
        if text.is_empty() {
            return Err("Filter cannot be null or empty".to_owned());
        }
        let kind = match kind {
            "literal_or" => literals(text, false, false)?,
            "iliteral_or" => literals(text, false, true)?,
            "not_literal_or" => literals(text, true, false)?,
            "not_iliteral_or" => literals(text, true, true)?,
            "wildcard" => wildcard(text, false)?,
            "iwildcard" => wildcard(text, true)?,
            "regexp" => RegexBuilder::new(text)
                .size_limit(REGEX_BYTES_MAX)
                .build()
                .map(Kind::Regex)
                .map_err(|_| format!("{text:?} is not a regular expression, or too large a one"))?,
            "" => return Err("The filter type cannot be null or empty".to_owned()),
            other => return Err(format!("Could not find a tag value filter of the type: {other}")),
        };
        Ok(Self { tag: tag.to_owned(), group_by, text: text.to_owned(), kind, is_short: false })
    }

    /// Reads the short form: `*`, `a|b`, `web*` or `type(text)`.
    pub(super) fn short(tag: &str, text: &str, group_by: bool) -> Result<Self, String> {
        if let Some((kind, rest)) = text.split_once('(') {
            let Some(inner) = rest.strip_suffix(')') else {
                return Err(format!("Filter must end with a ')': {text}"));
            };
            return Self::new(&kind.to_ascii_lowercase(), tag, inner, group_by);
        }
        let kind = if text.contains('*') { "iwildcard" } else { "literal_or" };
        Ok(Self { is_short: true, ..Self::new(kind, tag, text, group_by)? })
    }

    /// Whether a value of the tag matches.
    pub fn matches(&self, value: &str) -> bool {
        match &self.kind {
            Kind::Literals { values, is_negative, ignores_case } => {
                let has = if *ignores_case {
                    values.contains(&value.to_lowercase())
                } else {
                    values.contains(value)
                };
                has != *is_negative
            }
            Kind::Wildcard { pieces, ignores_case: true } => in_order(pieces, &value.to_lowercase()),
            Kind::Wildcard { pieces, ignores_case: false } => in_order(pieces, value),
            Kind::Regex(regex) => regex.is_match(value),
        }
    }

    /// The values, if the filter lists them. OpenTSDB refuses a query if one of them was never seen.
    pub fn named(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.kind {
            Kind::Literals { values, is_negative: false, ignores_case: false } => {
                Some(values.iter().map(String::as_str))
            }
            _ => None,
        }
    }

    /// Whether it has a regular expression.
    pub(super) fn is_regex(&self) -> bool {
        matches!(self.kind, Kind::Regex(_))
    }

    /// The name of the filter's type.
    pub fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Literals { is_negative, ignores_case, .. } => match (is_negative, ignores_case) {
                (false, false) => "literal_or",
                (false, true) => "iliteral_or",
                (true, false) => "not_literal_or",
                (true, true) => "not_iliteral_or",
            },
            Kind::Wildcard { ignores_case: false, .. } => "wildcard",
            Kind::Wildcard { ignores_case: true, .. } => "iwildcard",
            Kind::Regex(_) => "regexp",
        }
    }
}

impl Filter {
    /// The name of its type in answers that repeat the query. A short form ignores case, and OpenTSDB calls it
    /// `wildcard` all the same.
    pub(super) fn shown_kind(&self) -> &'static str {
        match self.kind() {
            "iwildcard" if self.is_short => "wildcard",
            kind => kind,
        }
    }
}

fn literals(text: &str, is_negative: bool, ignores_case: bool) -> Result<Kind, String> {
    if text == "|" {
        return Err("Filter must contain more than just a pipe".to_owned());
    }
    let values = text.split('|').filter(|value| !value.is_empty());
    let values = values.map(|value| if ignores_case { value.to_lowercase() } else { value.to_owned() });
    Ok(Kind::Literals { values: values.collect(), is_negative, ignores_case })
}

fn wildcard(text: &str, ignores_case: bool) -> Result<Kind, String> {
    if !text.contains('*') {
        return Err("Filter must contain an asterisk".to_owned());
    }
    let text = if ignores_case { text.to_lowercase() } else { text.to_owned() };
    Ok(Kind::Wildcard { pieces: text.split('*').map(str::to_owned).collect(), ignores_case })
}

/// Whether a text consists of the pieces in this order, with anything between them.
fn in_order(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        let Some(at) = rest.find(piece.as_str()) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last.as_str())
}

/// The answer of `/api/config/filters`: what each type of filter does, with examples.
pub fn described() -> Value {
    const VALUES: &str = "whole values, several of them with | between them";
    let described = |kind: &str, text: &str, what: String| {
        let json =
            format!("{{\"type\":\"{kind}\",\"tagk\":\"host\",\"filter\":\"{text}\",\"groupBy\":false}}");
        json!({"examples": format!("host={kind}({text}),  {json}"), "description": what})
    };
    let any = "The tag's value must have this form; * is any text.".to_owned();
    json!({
        "literal_or": described("literal_or", "web01|web02", format!("The tag must have one of these values: {VALUES}.")),
        "iliteral_or": described(
            "iliteral_or", "web01|web02", format!("The tag must have one of these values, in any case: {VALUES}.")
        ),
        "not_literal_or": described(
            "not_literal_or", "web01|web02", format!("The tag must have another value than these: {VALUES}.")
        ),
        "not_iliteral_or": described(
            "not_iliteral_or", "web01|web02",
            format!("The tag must have another value than these, in any case: {VALUES}.")
        ),
        "wildcard": described("wildcard", "web*.example.org", any.clone()),
        "iwildcard": described("iwildcard", "web*.example.org", format!("{any} Case does not matter.")),
        "regexp": described("regexp", "web.*", "A part of the tag's value must match the regular expression.".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match() {
        for (kind, text, yes, no) in [
            ("literal_or", "a|b", &["a", "b"][..], &["A", "ab", ""][..]),
            ("iliteral_or", "A|b", &["a", "B"], &["ab"]),
            ("not_literal_or", "a|b", &["A", "c"], &["a", "b"]),
            ("not_iliteral_or", "a|b", &["c"], &["A", "b"]),
            ("wildcard", "*", &["", "a"], &[]),
            ("wildcard", "web*", &["web", "web01"], &["Web01", "aweb"]),
            ("wildcard", "*01", &["01", "web01"], &["web011"]),
            ("wildcard", "w*b*1", &["wb1", "web01"], &["web0", "wb"]),
            ("wildcard", "a*a", &["aa", "aba"], &["a"]),
            ("iwildcard", "WEB*", &["web01", "Web"], &["we"]),
            ("regexp", "b.*1", &["web01", "b1x"], &["web"]),
        ] {
            let filter = Filter::new(kind, "t", text, false).unwrap();
            assert_eq!(filter.kind(), kind);
            yes.iter().for_each(|value| assert!(filter.matches(value), "{kind}({text}) {value}"));
            no.iter().for_each(|value| assert!(!filter.matches(value), "{kind}({text}) {value}"));
        }
    }

    #[test]
    fn short_forms() {
        let kind = |text: &str| Filter::short("t", text, true).map(|filter| (filter.kind(), filter.text));
        assert_eq!(kind("*"), Ok(("iwildcard", "*".to_owned())));
        assert_eq!(kind("web*"), Ok(("iwildcard", "web*".to_owned())));
        assert_eq!(kind("a|b"), Ok(("literal_or", "a|b".to_owned())));
        assert_eq!(kind("REGEXP(a.*)"), Ok(("regexp", "a.*".to_owned())));
        for wrong in ["", "regexp(a", "x(a)", "wildcard(a)", "|", "regexp(()", "not_key()"] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
        assert_eq!(described().as_object().unwrap().len(), 7);
    }
}
