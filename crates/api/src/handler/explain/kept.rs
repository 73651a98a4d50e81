//! The points of a response that `/render` keeps in its cache.

use std::collections::HashMap;

use plumbago_render::{Fetch, Source};
use serde_json::{Value, json};

use super::super::reading::FetchNote;
use crate::cache::FetchPoints;

/// How many points of each fetch a kept response contains: 0 if none, null if the number is not known.
///
/// A kept response is some seconds old. A range that ends now has moved since then, so the range cannot
/// identify a fetch. Fetches of the same names are therefore matched in the order of their ranges.
pub(super) fn from_cache(kept: Option<&[FetchPoints]>, notes: &[FetchNote]) -> Vec<Value> {
    let Some(kept) = kept else { return vec![json!(0); notes.len()] };
    let ours = by_names(notes, |note| &note.fetch);
    let theirs = by_names(kept, |points| &points.fetch);
    let mut found = vec![Value::Null; notes.len()];
    for (names, places) in ours {
        let Some(others) = theirs.get(&names).filter(|others| others.len() == places.len()) else { continue };
        for (place, other) in places.into_iter().zip(others) {
            found[place] = json!(kept[*other].known);
        }
    }
    found
}

/// The indices of the fetches, grouped by what they select and ordered by their ranges.
fn by_names<T>(all: &[T], fetch: impl Fn(&T) -> &Fetch) -> HashMap<(&str, Source), Vec<usize>> {
    let mut found: HashMap<_, Vec<usize>> = HashMap::new();
    for (place, one) in all.iter().enumerate() {
        let of = fetch(one);
        found.entry((&*of.expression, of.source)).or_default().push(place);
    }
    let range = |place: &usize| {
        let range = fetch(&all[*place]).range;
        (range.from, range.until)
    };
    found.values_mut().for_each(|places| places.sort_by_key(range));
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plumbago_render::TimeRange;

    use super::*;

    fn fetch(expression: &str, from: i64) -> Fetch {
        let range = TimeRange { from, until: 100 + from };
        Fetch { expression: expression.into(), source: Source::Glob, range }
    }

    #[test]
    fn fetches_are_found_again_in_their_order() {
        let note = |(expression, from)| FetchNote {
            fetch: fetch(expression, from),
            names: Vec::new(),
            find: Duration::ZERO,
            read: Duration::ZERO,
        };
        let kept = [("a", 50, 5), ("b", 0, 7), ("a", 0, 3), ("c", 0, 1)];
        let kept =
            kept.map(|(expression, from, known)| FetchPoints { fetch: fetch(expression, from), known });
        let notes: Vec<FetchNote> =
            [("b", 10), ("a", 10), ("a", 60), ("c", 10), ("c", 20), ("new", 10)].map(note).into();
        let [b, first, second, none] = [7, 3, 5, 0].map(|known| json!(known));
        let unknown = Value::Null;
        let expected = [&b, &first, &second, &unknown, &unknown, &unknown].map(Value::clone);
        assert_eq!(from_cache(Some(&kept), &notes), expected);
        assert_eq!(from_cache(None, &notes[..2]), [none.clone(), none]);
    }
}
