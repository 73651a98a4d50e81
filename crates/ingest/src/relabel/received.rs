//! From a received name to the name that is stored, in carbon's order: lists and rewrite rules see the name as it came,
//! then it is normalised.

use std::borrow::Cow;

use super::Relabel;
use crate::name::{NameOptions, with_clean, with_series};
use crate::reject::Reject;

/// Passes the stored form of a received name to `push`.
#[inline]
pub(crate) fn with_stored(
    name: &[u8],
    options: NameOptions,
    relabel: Option<&Relabel>,
    push: impl FnOnce(&[u8]),
) -> Result<(), Reject> {
    match relabel {
        None => with_clean(name, options, push),
        Some(relabel) => with_clean(rewritten(name, relabel)?.as_bytes(), options, push),
    }
}

/// Like [`with_stored`], for a name that `plumbago_kairosdb` has made of a metric and tags.
#[inline]
pub(crate) fn with_stored_series(
    name: &[u8],
    options: NameOptions,
    relabel: Option<&Relabel>,
    push: impl FnOnce(&[u8]),
) -> Result<(), Reject> {
    match relabel {
        None => with_series(name, options, push),
        Some(relabel) => with_clean(rewritten(name, relabel)?.as_bytes(), options, push),
    }
}

fn rewritten<'a>(name: &'a [u8], relabel: &Relabel) -> Result<Cow<'a, str>, Reject> {
    relabel.apply(str::from_utf8(name).map_err(|_| Reject::Encoding)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    type With = fn(&[u8], NameOptions, Option<&Relabel>, &mut Vec<u8>) -> Result<(), Reject>;

    #[test]
    fn lists_see_the_name_as_received_and_the_outcome_of_rules_is_normalised() {
        let (relabel, _) = Relabel::parse("^\\.\\.no", "", "[pre]\n_ = .\n");
        let plain: With = |name, options, relabel, out| {
            with_stored(name, options, relabel, |name| out.extend_from_slice(name))
        };
        let series: With = |name, options, relabel, out| {
            with_stored_series(name, options, relabel, |name| out.extend_from_slice(name))
        };
        for with in [plain, series] {
            let stored = |name: &[u8]| -> Result<String, Reject> {
                let mut out = Vec::new();
                with(name, NameOptions::default(), Some(&relabel), &mut out)?;
                Ok(String::from_utf8(out).unwrap())
            };
            assert_eq!(stored(b"..no"), Err(Reject::Blacklist));
            assert_eq!(stored(b"no"), Ok("no".to_owned()));
            assert_eq!(stored(b"a__b_"), Ok("a.b".to_owned()));
            assert_eq!(stored(b"a;z=1;b=2_3"), Ok("a;b=2.3;z=1".to_owned()));
            assert_eq!(stored(b"a\xff"), Err(Reject::Encoding));
        }
    }
}
