//! Metric and tags as the name of a series, `name;tag=value`, and back.
//!
//! Characters that a name of Graphite cannot contain are percent-encoded, and no others: `;`, blanks and
//! control characters everywhere; `!`, `^` and `=` in tag names; a `~` at the start of a metric or a value;
//! dots that would make an empty component; the `}` that would end OpenMetrics tags; the first letter of a
//! tag called `name`; and `%` if two hex digits follow it, so that decoding is unambiguous.

use std::borrow::Cow;
use std::cmp::Ordering;

/// A series as KairosDB and OpenTSDB name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    /// The name of the metric, without its tags.
    pub metric: String,
    /// Tags and their values, sorted by tag.
    pub tags: Vec<(String, String)>,
}

impl Series {
    /// The value of a tag.
    pub fn tag(&self, tag: &str) -> Option<&str> {
        let at = self.tags.binary_search_by(|(name, _)| name.as_str().cmp(tag)).ok()?;
        Some(&self.tags[at].1)
    }
}

/// The part of a name that a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Metric,
    Tag,
    Value,
}

/// The metric as the part of a name before its tags.
pub fn metric(text: &str) -> Cow<'_, str> {
    encoded(text, Part::Metric)
}

/// The tag as written in a name, left of the `=`.
pub fn tag(text: &str) -> Cow<'_, str> {
    encoded(text, Part::Tag)
}

/// The value of a tag as written in a name, right of the `=`.
pub fn value(text: &str) -> Cow<'_, str> {
    encoded(text, Part::Value)
}

/// Appends the name of a series to `name`. Sorts `tags` as Graphite does; each must occur once, and neither the
/// metric nor a tag or value may be empty.
pub fn append(name: &mut String, metric_text: &str, tags: &mut [(Cow<'_, str>, Cow<'_, str>)]) {
    name.push_str(&metric(metric_text));
    for (tag_text, value_text) in tags.iter_mut() {
        encode_in_place(tag_text, Part::Tag);
        encode_in_place(value_text, Part::Value);
    }
    // Ordered by whole segments: `a-b=1` comes before `a=1`.
    if !tags.is_sorted_by(|a, b| compare(a, b).is_le()) {
        tags.sort_by(compare);
    }
    for (tag, value) in tags {
        name.extend([";", tag, "=", value]);
    }
}

/// The name of a series. Its tags must not be empty, nor have empty values.
pub fn series_name(series: &Series) -> String {
    let borrowed = |(tag, value): &'_ (String, String)| (Cow::Owned(tag.clone()), Cow::Owned(value.clone()));
    let mut tags: Vec<_> = series.tags.iter().map(borrowed).collect();
    let mut name = String::new();
    append(&mut name, &series.metric, &mut tags);
    name
}

/// The series that a name stands for. Every name stands for one.
pub fn series(name: &str) -> Series {
    let mut parts = name.split(';');
    let metric = decoded(parts.next().unwrap_or_default()).into_owned();
    let tag = |segment: &str| {
        let (tag, value) = segment.split_once('=').unwrap_or((segment, ""));
        (decoded(tag).into_owned(), decoded(value).into_owned())
    };
    let mut tags: Vec<_> = parts.map(tag).collect();
    tags.sort();
    Series { metric, tags }
}

/// A metric, tag or value before it was encoded.
pub fn decoded(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('%') else { return Cow::Borrowed(text) };
    let mut bytes = text.as_bytes()[..first].to_vec();
    let mut rest = &text.as_bytes()[first..];
    while let Some((byte, after)) = rest.split_first() {
        match escape(rest) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    // A name from another source may contain escapes that are not UTF-8. Such a name is not decoded.
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Compares `tag=value` byte by byte.
#[inline]
fn compare(a: &(Cow<'_, str>, Cow<'_, str>), b: &(Cow<'_, str>, Cow<'_, str>)) -> Ordering {
    let (a_tag, b_tag) = (a.0.as_bytes(), b.0.as_bytes());
    let common = a_tag.len().min(b_tag.len());
    match a_tag[..common].cmp(&b_tag[..common]) {
        Ordering::Equal if a_tag.len() == b_tag.len() => a.1.as_bytes().cmp(b.1.as_bytes()),
        // One tag begins with the other: the next character is compared with the equals sign.
        Ordering::Equal => segment(a).cmp(segment(b)),
        order => order,
    }
}

fn segment<'a>((tag, value): &'a (Cow<'_, str>, Cow<'_, str>)) -> impl Iterator<Item = u8> + 'a {
    tag.bytes().chain([b'=']).chain(value.bytes())
}

fn encode_in_place(text: &mut Cow<'_, str>, part: Part) {
    if let Cow::Owned(changed) = encoded(text, part) {
        *text = Cow::Owned(changed);
    }
}

fn encoded(text: &str, part: Part) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    if is_quiet(bytes, part) {
        return Cow::Borrowed(text);
    }
    let Some(first) = (0..bytes.len()).find(|at| is_special(bytes, *at, false, part)) else {
        return Cow::Borrowed(text);
    };
    let mut out = Vec::with_capacity(bytes.len() + 8);
    out.extend_from_slice(&bytes[..first]);
    for at in first..bytes.len() {
        // An encoded dot does not make an empty component with the dot after it.
        let after_escape = out.last() != Some(&b'.');
        if is_special(bytes, at, after_escape, part) {
            let digit = |nibble: u8| {
                char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase() as u8
            };
            out.extend([b'%', digit(bytes[at] >> 4), digit(bytes[at] & 15)]);
        } else {
            out.push(bytes[at]);
        }
    }
    // Only ASCII bytes were replaced, by ASCII.
    String::from_utf8(out).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Whether it is certain that no byte has to be encoded. This is so for nearly all texts.
#[inline]
fn is_quiet(bytes: &[u8], part: Part) -> bool {
    let odd = bytes.iter().fold(0, |odd, byte| odd | ODD[usize::from(*byte)]);
    odd == 0
        && match part {
            Part::Metric => has_no_empty_component(bytes),
            Part::Tag => bytes != b"name",
            Part::Value => true,
        }
}

/// Has 1 for each byte that has to be encoded in some position, apart from dots.
const ODD: [u8; 256] = {
    let mut odd = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        odd[byte] =
            matches!(byte as u8, 0..=b' ' | 0x7f | b';' | b'%' | b'!' | b'^' | b'=' | b'~' | b'}') as u8;
        byte += 1;
    }
    odd
};

#[inline]
fn has_no_empty_component(bytes: &[u8]) -> bool {
    let mut doubled = 0;
    for (byte, next) in bytes.iter().zip(&bytes[1.min(bytes.len())..]) {
        doubled |= u8::from(*byte == b'.') & u8::from(*next == b'.');
    }
    doubled == 0 && bytes.first() != Some(&b'.') && bytes.last() != Some(&b'.')
}

/// Whether the byte at `at` has to be encoded. `after_escape` says whether the byte before it was encoded.
fn is_special(bytes: &[u8], at: usize, after_escape: bool, part: Part) -> bool {
    let is_last = at + 1 == bytes.len();
    let before = at.checked_sub(1).map(|before| bytes[before]);
    match bytes[at] {
        0..=b' ' | 0x7f | b';' => true,
        b'%' => escape(&bytes[at..]).is_some(),
        b'!' | b'^' | b'=' => part == Part::Tag,
        b'~' => part != Part::Tag && at == 0,
        b'.' => part == Part::Metric && (at == 0 || is_last || (before == Some(b'.') && !after_escape)),
        b'}' => part != Part::Tag && is_last && before == Some(b'"'),
        b'n' => part == Part::Tag && bytes == b"name",
        _ => false,
    }
}

/// The byte that `%` and two hex digits at the start of `text` stand for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name_of(metric: &str, tags: &[(&str, &str)]) -> String {
        let mut tags: Vec<_> = tags.iter().map(|(t, v)| (Cow::Borrowed(*t), Cow::Borrowed(*v))).collect();
        let mut name = String::new();
        append(&mut name, metric, &mut tags);
        name
    }

    #[test]
    fn only_what_graphite_cannot_hold_is_encoded() {
        for (metric, tags, name) in [
            ("cpu.load", &[("host", "a")][..], "cpu.load;host=a"),
            ("a", &[("b", "2"), ("a", "1")], "a;a=1;b=2"),
            ("a", &[("a", "1"), ("a-b", "1")], "a;a-b=1;a=1"),
            ("a b", &[("c d", "e f")], "a%20b;c%20d=e%20f"),
            (".a..b.", &[], "%2Ea.%2Eb%2E"),
            ("...", &[], "%2E.%2E"),
            ("~a", &[("~t", "~v")], "%7Ea;~t=%7Ev"),
            ("a", &[("name", "x"), ("names", "y")], "a;%6Eame=x;names=y"),
            ("50%", &[("t", "100%25")], "50%;t=100%2525"),
            ("a", &[("x!^=", "=!^")], "a;x%21%5E%3D==!^"),
            ("a{b=\"c\"}", &[("t", "\"}")], "a{b=\"c\"%7D;t=\"%7D"),
            ("a;b", &[("t", "é\n")], "a%3Bb;t=é%0A"),
        ] {
            assert_eq!(name_of(metric, tags), name);
            let mut tags: Vec<_> = tags.iter().map(|(t, v)| ((*t).to_owned(), (*v).to_owned())).collect();
            tags.sort();
            assert_eq!(series(name), Series { metric: metric.to_owned(), tags });
        }
    }

    #[test]
    fn foreign_escapes_do_no_harm() {
        assert_eq!(series("a%ff;t=%f").metric, "a%ff");
        assert_eq!(series("a;broken").tags, [("broken".to_owned(), String::new())]);
        assert_eq!(series("a;b=2;a=1").tag("a"), Some("1"));
        assert_eq!(series("a;b=2;a=1").tag("c"), None);
    }

    /// Texts with many characters that have to be encoded.
    fn text() -> impl Strategy<Value = String> {
        let special = prop::sample::select(vec![
            "%", "%2", "%25", "%2e", ".", "..", "~", ";", "=", "!", "^", " ", "\n", "\0", "\x7f", "\"}", "{",
            "}", "\"", "name", "n", "é", "a", "B", "7", "\u{a0}", "𝄞",
        ]);
        prop_oneof![
            prop::collection::vec(special, 1..8).prop_map(|parts| parts.concat()),
            any::<String>().prop_filter("not empty", |text| !text.is_empty()),
        ]
    }

    proptest! {
        #[test]
        fn there_and_back(metric in text(), tags in prop::collection::btree_map(text(), text(), 0..5)) {
            let series_in = Series { metric, tags: tags.into_iter().collect() };
            let name = series_name(&series_in);
            // The name is already in normal form, and decoding gives the original series.
            let clean = plumbago_model::sanitize(&name);
            prop_assert_eq!(clean.as_deref(), Ok(name.as_str()));
            let ends_like_openmetrics = name.ends_with("\"}");
            prop_assert!(!ends_like_openmetrics);
            let path = name.split(';').next().unwrap_or_default();
            prop_assert!(!path.starts_with(['.', '~']));
            let segments: Vec<_> = name.split(';').skip(1).collect();
            prop_assert!(segments.is_sorted());
            for segment in segments {
                let (tag, value) = segment.split_once('=').unwrap();
                prop_assert!(!tag.is_empty() && tag != "name" && !tag.contains(['!', '^']), "{}", tag);
                prop_assert!(!value.is_empty() && !value.starts_with('~'), "{}", value);
            }
            let back = series(&name);
            prop_assert_eq!(&back, &series_in);
            prop_assert_eq!(series_name(&back), name);
        }

        #[test]
        fn any_name_stands_for_a_series(name in any::<String>()) {
            series(&name);
        }
    }
}
