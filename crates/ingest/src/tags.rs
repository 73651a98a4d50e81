//! The normal form of a name with Graphite's tags: `name;a=1;b=2`, sorted, each tag once.
//!
//! Carbon stores a name with malformed tags unchanged. Here such a name is refused, so that a `;` in a
//! stored name always starts a tag.

use std::borrow::Cow;

use crate::reject::Reject;

/// Returns the name with its tags in normal form. Accepts carbon's form (`name;tag=value`) and the
/// OpenMetrics form (`name{tag="value"}`). Leading `~` characters of the name are removed; apart from that, a
/// name without tags stays unchanged.
///
/// # Errors
/// [`Reject::Tags`] if the tags are malformed or not allowed.
pub(crate) fn canonical(name: &str) -> Result<Cow<'_, str>, Reject> {
    let name = name.trim_start_matches('~');
    if name.ends_with("\"}")
        && let Some((path, tags)) = name[..name.len() - 1].split_once('{')
    {
        return match path.contains(';') {
            true => Err(Reject::Tags),
            false => normal_form(path, openmetrics(tags)?).map(Cow::Owned),
        };
    }
    let Some((path, tags)) = name.split_once(';') else {
        return Ok(Cow::Borrowed(name));
    };
    let segments = carbon(tags)?;
    if !path.is_empty() && is_normal(&segments) {
        return Ok(Cow::Borrowed(name));
    }
    normal_form(path, segments).map(Cow::Owned)
}

/// Whether `tags`, the part of a name after its first `;`, is certainly in normal form.
pub(crate) fn are_normal(tags: &[u8]) -> bool {
    if !tags.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return false;
    }
    let mut before: (&[u8], &[u8]) = (b"", b"");
    tags.split(|byte| *byte == b';').all(|segment| {
        let Some(at) = memchr::memchr(b'=', segment) else { return false };
        let (tag, value) = (&segment[..at], &segment[at + 1..]);
        let (tag_before, segment_before) = std::mem::replace(&mut before, (tag, segment));
        let valid = !tag.is_empty() && !tag.iter().any(|byte| matches!(byte, b'!' | b'^'));
        valid
            && !matches!(value.first(), None | Some(b'~'))
            && tag != b"name"
            && tag != tag_before
            && segment > segment_before
    })
}

/// A tag and its value.
type Tag<'a> = (&'a str, Cow<'a, str>);

fn carbon(tags: &str) -> Result<Vec<Tag<'_>>, Reject> {
    tags.split(';')
        .map(|segment| {
            let (tag, value) = segment.split_once('=').ok_or(Reject::Tags)?;
            checked(tag, Cow::Borrowed(value))
        })
        .collect()
}

/// `tag="value",tag="value"`, with `\"` and `\\` in the values.
fn openmetrics(mut rest: &str) -> Result<Vec<Tag<'_>>, Reject> {
    let mut tags = Vec::new();
    while !rest.is_empty() {
        let (tag, quoted) = rest.split_once('=').ok_or(Reject::Tags)?;
        let quoted = quoted.strip_prefix('"').ok_or(Reject::Tags)?;
        let (value, after) = unquote(quoted).ok_or(Reject::Tags)?;
        tags.push(checked(tag, value)?);
        rest = match after {
            "" => "",
            _ => after.strip_prefix(',').ok_or(Reject::Tags)?,
        };
    }
    Ok(tags)
}

/// The value before the closing quote, and the text after the quote.
fn unquote(quoted: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut value = String::new();
    let mut from = 0;
    let mut bytes = quoted.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' if value.is_empty() => return Some((Cow::Borrowed(&quoted[from..at]), &quoted[at + 1..])),
            b'"' => {
                value.push_str(&quoted[from..at]);
                return Some((Cow::Owned(value), &quoted[at + 1..]));
            }
            b'\\' => {
                let (next, escaped) = bytes.next()?;
                if !matches!(escaped, b'"' | b'\\') {
                    return None;
                }
                value.push_str(&quoted[from..at]);
                value.push(char::from(escaped));
                from = next + 1;
            }
            _ => {}
        }
    }
    None
}

fn checked<'a>(tag: &'a str, value: Cow<'a, str>) -> Result<Tag<'a>, Reject> {
    let tag_is_valid = !tag.is_empty() && !tag.contains([';', '!', '^', '=']);
    let value_is_valid = !value.is_empty() && !value.starts_with('~') && !value.contains(';');
    if tag_is_valid && value_is_valid { Ok((tag, value)) } else { Err(Reject::Tags) }
}

fn is_normal(tags: &[Tag<'_>]) -> bool {
    tags.windows(2).all(|pair| pair[0].0 != pair[1].0 && before(&pair[0], &pair[1]))
        && tags.iter().all(|(tag, _)| *tag != "name")
}

/// Compares whole segments `tag=value`. As in carbon, the `=` takes part in the comparison.
fn before(a: &Tag<'_>, b: &Tag<'_>) -> bool {
    segment(a).lt(segment(b))
}

fn segment<'a>((tag, value): &'a Tag<'_>) -> impl Iterator<Item = u8> + 'a {
    tag.bytes().chain([b'=']).chain(value.bytes())
}

/// Removes duplicates: the last value of a tag wins. A tag called `name` is dropped, because the name itself
/// takes its place.
fn normal_form(path: &str, mut tags: Vec<Tag<'_>>) -> Result<String, Reject> {
    if path.is_empty() {
        return Err(Reject::NameEmpty);
    }
    tags.reverse();
    tags.sort_by(|a, b| a.0.cmp(b.0));
    tags.dedup_by(|later, first| later.0 == first.0);
    tags.retain(|(tag, _)| *tag != "name");
    tags.sort_by(|a, b| segment(a).cmp(segment(b)));
    let mut name = path.to_owned();
    for (tag, value) in &tags {
        name.extend([";", tag, "=", value]);
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with carbon 1.1.10, whose results are in a file that `testdata/tags.py` writes.
    const CARBON: &str = include_str!("../testdata/tags.tsv");

    #[test]
    fn names_are_what_carbon_makes_of_them() {
        let mut lines = 0;
        for line in CARBON.lines() {
            let (name, expected) = line.split_once('\t').unwrap();
            let got = canonical(name).and_then(|n| if n.is_empty() { Err(Reject::NameEmpty) } else { Ok(n) });
            match expected {
                "error" => assert!(got.is_err(), "{name} gives {got:?}"),
                _ => assert_eq!(got.as_deref(), Ok(expected), "{name}"),
            }
            lines += 1;
        }
        assert!(lines > 40, "{lines}");
    }

    #[test]
    fn where_carbon_stumbles() {
        // Unlike carbon, which cuts at every brace and allows one form of tags inside the other.
        assert_eq!(canonical("a{b=\"c{d}\"}").as_deref(), Ok("a;b=c{d}"));
        assert_eq!(canonical("a;q={x=\"y\"}"), Err(Reject::Tags));
    }

    #[test]
    fn sorted_tags_are_not_copied() {
        assert!(matches!(canonical("a;a-b=1;a=1;c=2"), Ok(Cow::Borrowed(_))));
        assert!(matches!(canonical("a;b=1;a=1"), Ok(Cow::Owned(_))));
    }
}
