//! The normal form of a name with Graphite's tags: `name;a=1;b=2`, sorted, each tag once.
//!
//! Carbon stores a name with malformed tags unchanged. Here such a name is refused, so that a `;` in a
//! stored name always starts a tag. `ingest` compares this with carbon.

use std::borrow::Cow;

use crate::name::{NameError, sanitize};

/// The name that a point with this name is stored under: with its tags in normal form, and without empty components.
///
/// # Errors
/// [`NameError`] if points with this name are refused.
pub fn canonical(name: &str) -> Result<String, NameError> {
    let name = normal_tags(name.trim_start_matches(['.', '~']))?;
    sanitize(&name).map(Cow::into_owned)
}

/// Returns the name with its tags in normal form. Accepts carbon's form (`name;tag=value`) and the
/// OpenMetrics form (`name{tag="value"}`). Leading `~` of the name are removed; apart from that, a name
/// without tags stays unchanged.
///
/// # Errors
/// [`NameError::Tags`] if the tags are malformed or not allowed.
pub fn normal_tags(name: &str) -> Result<Cow<'_, str>, NameError> {
    let name = name.trim_start_matches('~');
    if name.ends_with("\"}")
        && let Some((path, tags)) = name[..name.len() - 1].split_once('{')
    {
        return match path.contains(';') {
            true => Err(NameError::Tags),
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

/// A tag and its value.
type Tag<'a> = (&'a str, Cow<'a, str>);

fn carbon(tags: &str) -> Result<Vec<Tag<'_>>, NameError> {
    tags.split(';')
        .map(|segment| {
            let (tag, value) = segment.split_once('=').ok_or(NameError::Tags)?;
            checked(tag, Cow::Borrowed(value))
        })
        .collect()
}

/// `tag="value",tag="value"`, with `\"` and `\\` in the values.
fn openmetrics(mut rest: &str) -> Result<Vec<Tag<'_>>, NameError> {
    let mut tags = Vec::new();
    while !rest.is_empty() {
        let (tag, quoted) = rest.split_once('=').ok_or(NameError::Tags)?;
        let quoted = quoted.strip_prefix('"').ok_or(NameError::Tags)?;
        let (value, after) = unquote(quoted).ok_or(NameError::Tags)?;
        tags.push(checked(tag, value)?);
        rest = match after {
            "" => "",
            _ => after.strip_prefix(',').ok_or(NameError::Tags)?,
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

fn checked<'a>(tag: &'a str, value: Cow<'a, str>) -> Result<Tag<'a>, NameError> {
    let tag_is_valid = !tag.is_empty() && !tag.contains([';', '!', '^', '=']);
    let value_is_valid = !value.is_empty() && !value.starts_with('~') && !value.contains(';');
    if tag_is_valid && value_is_valid { Ok((tag, value)) } else { Err(NameError::Tags) }
}

fn is_normal(tags: &[Tag<'_>]) -> bool {
    tags.windows(2).all(|pair| pair[0].0 != pair[1].0 && before(&pair[0], &pair[1]))
        && tags.iter().all(|(tag, _)| *tag != "name")
}

/// Order of whole segments `tag=value`: the `=` takes part in the comparison, as in carbon.
fn before(a: &Tag<'_>, b: &Tag<'_>) -> bool {
    segment(a).lt(segment(b))
}

fn segment<'a>((tag, value): &'a Tag<'_>) -> impl Iterator<Item = u8> + 'a {
    tag.bytes().chain([b'=']).chain(value.bytes())
}

/// Removes duplicates: the last value of a tag wins. A tag called `name` is dropped, since the name itself
/// takes its place.
fn normal_form(path: &str, mut tags: Vec<Tag<'_>>) -> Result<String, NameError> {
    if path.is_empty() {
        return Err(NameError::Empty);
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

    #[test]
    fn names_are_those_of_stored_points() {
        for (name, expected) in [
            ("a..b", Ok("a.b")),
            ("a;c=1;b=2", Ok("a;b=2;c=1")),
            ("a;b=1;b=2", Ok("a;b=2")),
            ("a;", Err(NameError::Tags)),
            ("a;b", Err(NameError::Tags)),
            ("a;b=", Err(NameError::Tags)),
            (";b=1", Err(NameError::Empty)),
            ("a b", Err(NameError::Control)),
        ] {
            assert_eq!(canonical(name), expected.map(str::to_owned), "{name}");
        }
    }
}
