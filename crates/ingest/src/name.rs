//! Brings names into the form in which they are stored.

use std::borrow::Cow;

use plumbago_model::name::NAME_BYTES_MAX;
use plumbago_model::sanitize;

use crate::reject::Reject;
use crate::tags;

/// How names are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameOptions {
    /// Whether `a..b` and `.a.b.` become `a.b`.
    pub fold_empty_components: bool,
    /// Whether a blank in a tag's value becomes `_`. Carbon would refuse the line.
    pub blanks_in_tags: bool,
}

impl Default for NameOptions {
    fn default() -> Self {
        Self { fold_empty_components: true, blanks_in_tags: false }
    }
}

/// Passes the stored form of a name to `push`. Nearly all names are stored as received; those are not
/// copied.
#[inline]
pub(crate) fn with_clean(name: &[u8], options: NameOptions, push: impl FnOnce(&[u8])) -> Result<(), Reject> {
    // A plain name is ASCII, and therefore UTF-8.
    if is_plain(name) || (is_plain_tagged(name) && str::from_utf8(name).is_ok()) {
        push(name);
        return Ok(());
    }
    push(clean(name, options)?.as_bytes());
    Ok(())
}

/// Like [`with_clean`], for a name that `plumbago_kairosdb` has made of a metric and tags. Such a name is in normal
/// form if it is not too long and has no control characters beyond ASCII.
#[inline]
pub(crate) fn with_series(name: &[u8], options: NameOptions, push: impl FnOnce(&[u8])) -> Result<(), Reject> {
    if name.len() <= NAME_BYTES_MAX && name.is_ascii() {
        push(name);
        return Ok(());
    }
    with_clean(name, options, push)
}

/// Passes the normal form of a name that rules have made to `push`.
pub(crate) fn finish(name: &str, options: NameOptions, push: impl FnOnce(&[u8])) -> Result<(), Reject> {
    with_clean(name.as_bytes(), options, push)
}

/// The normal form of a name that does not come with a point, such as one registered through the API.
/// Uses the default settings and no rewrite rules.
///
/// # Errors
/// The reason for which a point of this name would be refused.
pub fn canonical(name: &str) -> Result<String, Reject> {
    plumbago_model::tags::canonical(name).map_err(Reject::from)
}

/// The slow path.
fn clean(name: &[u8], options: NameOptions) -> Result<Cow<'_, str>, Reject> {
    let mut name = Cow::Borrowed(str::from_utf8(name).map_err(|_| Reject::Encoding)?);
    if options.blanks_in_tags {
        name = then(name, |name| Ok(without_blanks(name)))?;
    }
    if options.fold_empty_components {
        // Removing an empty component may expose a `~`, and removing a `~` an empty component.
        name = then(name, |name| Ok(Cow::Borrowed(name.trim_start_matches(['.', '~']))))?;
    }
    name = then(name, tags::canonical)?;
    then(name, |name| if options.fold_empty_components { fold(name) } else { check(name) })
}

fn then<'a>(
    text: Cow<'a, str>,
    step: impl for<'b> FnOnce(&'b str) -> Result<Cow<'b, str>, Reject>,
) -> Result<Cow<'a, str>, Reject> {
    match text {
        Cow::Borrowed(text) => step(text),
        Cow::Owned(text) => step(&text).map(|text| Cow::Owned(text.into_owned())),
    }
}

fn fold(name: &str) -> Result<Cow<'_, str>, Reject> {
    sanitize(name).map_err(Reject::from)
}

/// Refuses the same names as [`fold`], but changes nothing.
fn check(name: &str) -> Result<Cow<'_, str>, Reject> {
    fold(name).map(|_| Cow::Borrowed(name))
}

fn without_blanks(name: &str) -> Cow<'_, str> {
    match name.split_once(';') {
        Some((path, tags)) if tags.contains([' ', '\t']) => {
            Cow::Owned(format!("{path};{}", tags.replace([' ', '\t'], "_")))
        }
        _ => Cow::Borrowed(name),
    }
}

/// Whether the name is certainly in normal form: printable ASCII without tags, without empty components,
/// and without any character that [`tags::canonical`] treats specially.
#[inline]
fn is_plain(name: &[u8]) -> bool {
    let (Some(first), Some(last)) = (name.first(), name.last()) else {
        return false;
    };
    let edges = matches!(first, b'.' | b'~') | matches!(last, b'.' | b'}');
    name.len() <= NAME_BYTES_MAX && !edges && is_plain_byte(*first) && inside_is_plain(name)
}

/// Like `is_plain`, for a name with tags. Most senders sort them already.
#[inline]
fn is_plain_tagged(name: &[u8]) -> bool {
    match memchr::memchr(b';', name) {
        Some(at) => {
            name.len() <= NAME_BYTES_MAX
                && !name.ends_with(b"\"}")
                && is_plain(&name[..at])
                && tags::are_normal(&name[at + 1..])
        }
        None => false,
    }
}

/// Whether all bytes but the first are plain, each checked together with the byte before it. Works on windows
/// of a fixed size, of which the last overlaps the one before, so that the compiler can use vector
/// instructions.
#[inline]
fn inside_is_plain(name: &[u8]) -> bool {
    match name.len() {
        ..9 => name.windows(2).all(|pair| is_plain_byte(pair[1]) && pair != b".."),
        9..17 => windows_are_plain::<8>(name),
        _ => windows_are_plain::<16>(name),
    }
}

#[inline]
fn windows_are_plain<const N: usize>(name: &[u8]) -> bool {
    let (before, inside) = (&name[..name.len() - 1], &name[1..]);
    let mut blemish = 0;
    for (before, inside) in before.as_chunks::<N>().0.iter().zip(inside.as_chunks::<N>().0) {
        blemish |= blemish_in(before, inside);
    }
    if let (Some(before), Some(inside)) = (before.last_chunk::<N>(), inside.last_chunk::<N>()) {
        blemish |= blemish_in(before, inside);
    }
    blemish == 0
}

#[inline]
fn blemish_in<const N: usize>(before: &[u8; N], inside: &[u8; N]) -> u8 {
    let mut blemish = 0;
    for (before, byte) in before.iter().zip(inside) {
        blemish |= u8::from(!is_plain_byte(*byte)) | (u8::from(*byte == b'.') & u8::from(*before == b'.'));
    }
    blemish
}

#[inline]
fn is_plain_byte(byte: u8) -> bool {
    (byte.wrapping_sub(b'!') <= b'~' - b'!') & (byte != b';')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(name: &[u8], names: NameOptions) -> Result<String, Reject> {
        let mut clean = None;
        with_clean(name, names, |name| clean = Some(str::from_utf8(name).unwrap().to_owned()))?;
        Ok(clean.unwrap())
    }

    proptest! {
        /// The name that [`with_series`] passes on equals the one that [`with_clean`] would pass on.
        #[test]
        fn series_are_in_normal_form(
            metric in "[!-~]{1,12}|[.~}a\"]{1,5}|\\PC{1,6}",
            tags in proptest::collection::btree_map("[!-~]{1,6}|name|\\PC{1,4}", "[!-~]{1,6}|[~\"}]{1,3}|\\PC{1,4}", 0..4),
        ) {
            let series = plumbago_kairosdb::names::Series { metric, tags: tags.into_iter().collect() };
            let name = plumbago_kairosdb::names::series_name(&series);
            let passed = |result: &mut Option<Vec<u8>>, name: &[u8]| *result = Some(name.to_vec());
            let (mut quick, mut slow) = (None, None);
            let options = NameOptions::default();
            let a = with_series(name.as_bytes(), options, |name| passed(&mut quick, name));
            let b = with_clean(name.as_bytes(), options, |name| passed(&mut slow, name));
            prop_assert_eq!((a, quick), (b, slow), "{}", name);
        }
    }

    #[test]
    fn names_as_they_are_stored() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for (name, folded, kept) in [
            ("a.b", Ok("a.b"), Ok("a.b")),
            ("a..b", Ok("a.b"), Ok("a..b")),
            (
                "servers.web01..cpu.load.shortterm",
                Ok("servers.web01.cpu.load.shortterm"),
                Ok("servers.web01..cpu.load.shortterm"),
            ),
            (".a.b.", Ok("a.b"), Ok(".a.b.")),
            ("a/b c", Err(Reject::NameControl), Err(Reject::NameControl)),
            ("a/b", Ok("a/b"), Ok("a/b")),
            ("~a.b", Ok("a.b"), Ok("a.b")),
            (".~.a", Ok("a"), Ok(".~.a")),
            ("a.testé", Ok("a.testé"), Ok("a.testé")),
            ("..", Err(Reject::NameEmpty), Err(Reject::NameEmpty)),
            ("", Err(Reject::NameEmpty), Err(Reject::NameEmpty)),
            ("~", Err(Reject::NameEmpty), Err(Reject::NameEmpty)),
            ("a\0b", Err(Reject::NameControl), Err(Reject::NameControl)),
            ("a\x7fb", Err(Reject::NameControl), Err(Reject::NameControl)),
            ("a..b;z=1;y=2..3", Ok("a.b;y=2..3;z=1"), Ok("a..b;y=2..3;z=1")),
            ("a{b=\"c\"}", Ok("a;b=c"), Ok("a;b=c")),
            ("a.{b}", Ok("a.{b}"), Ok("a.{b}")),
            (long.as_str(), Err(Reject::NameTooLong), Err(Reject::NameTooLong)),
        ] {
            let fold = NameOptions::default();
            let keep = NameOptions { fold_empty_components: false, ..fold };
            assert_eq!(cleaned(name.as_bytes(), fold), folded.map(str::to_owned), "{name}");
            assert_eq!(cleaned(name.as_bytes(), keep), kept.map(str::to_owned), "{name}");
        }
        assert_eq!(cleaned(b"a.\xff", NameOptions::default()), Err(Reject::Encoding));
    }

    #[test]
    fn blanks_in_tags_become_underscores_when_asked_for() {
        let names = NameOptions { blanks_in_tags: true, ..NameOptions::default() };
        assert_eq!(cleaned(b"a;disk=C: drive", names), Ok("a;disk=C:_drive".to_owned()));
        assert_eq!(cleaned(b"a b;c=d", names), Err(Reject::NameControl));
    }

    proptest! {
        #[test]
        fn the_fast_way_gives_what_the_long_way_gives(name in prop::collection::vec(prop_oneof![4 => b'a'..b'd', 2 => Just(b'.'), 1 => any::<u8>()], 0..60)) {
            if is_plain(&name) {
                let long = clean(&name, NameOptions::default());
                prop_assert_eq!(long.as_deref(), Ok(str::from_utf8(&name).unwrap()));
            }
        }

        #[test]
        fn and_so_with_tags(name in "[ab.~é]{0,3}(;(a|b|a-b|name|!|é)?=?[ab~=é \\x7f]{0,2}){0,3}(\"\\})?") {
            let long = clean(name.as_bytes(), NameOptions::default());
            // The fast path may leave an unusual name to the slow path, but must handle every plain one.
            let ordinary = name.is_ascii() && name.contains(';') && !name.ends_with('}');
            let unchanged = long.as_deref() == Ok(name.as_str());
            prop_assert_eq!(is_plain_tagged(name.as_bytes()), unchanged && ordinary, "{:?}", long);
        }

        #[test]
        fn clean_names_stay_as_they_are(name in "[a-c.;=~]{0,16}") {
            if let Ok(clean) = cleaned(name.as_bytes(), NameOptions::default()) {
                prop_assert_eq!(cleaned(clean.as_bytes(), NameOptions::default()), Ok(clean));
            }
        }
    }
}
