//! The normal form of a name with Graphite's tags, see [`plumbago_model::tags`].

use std::borrow::Cow;

use plumbago_model::tags::normal_tags;

use crate::reject::Reject;

/// Returns the name with its tags in normal form.
///
/// # Errors
/// [`Reject::Tags`] if the tags are malformed or not allowed.
pub(crate) fn canonical(name: &str) -> Result<Cow<'_, str>, Reject> {
    normal_tags(name).map_err(Reject::from)
}

/// True if `tags`, the part of a name after its first `;`, is certainly in normal form.
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
        // Differs from carbon, which cuts at every brace and allows one form of tags inside the other.
        assert_eq!(canonical("a{b=\"c{d}\"}").as_deref(), Ok("a;b=c{d}"));
        assert_eq!(canonical("a;q={x=\"y\"}"), Err(Reject::Tags));
    }

    #[test]
    fn sorted_tags_are_not_copied() {
        assert!(matches!(canonical("a;a-b=1;a=1;c=2"), Ok(Cow::Borrowed(_))));
        assert!(matches!(canonical("a;b=1;a=1"), Ok(Cow::Owned(_))));
    }
}
