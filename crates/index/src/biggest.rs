//! The tags and values that the most series have.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::Index;

/// Number of tags or values that are copied while the lock is held.
const COPIED_AT_ONCE: usize = 4096;

/// A tag or a value, with how many series have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagSize {
    /// The tag, or the value.
    pub text: String,
    /// The number of series that have it.
    pub series: u64,
    /// The number of values of the tag; 0 for a value.
    pub values: u64,
}

/// The biggest tags, or the biggest values of one tag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BiggestTags {
    /// The tags or values with the most series, biggest first. Of equal numbers, the texts decide the
    /// order.
    pub biggest: Vec<TagSize>,
    /// The number of all tags or values.
    pub total: u64,
}

impl Index {
    /// The `limit` tags with the most series, or, if `tag` is given, the values of that tag with the most
    /// series. Uses memory only for the results. Tags that are added or removed meanwhile may be missed or
    /// included.
    pub fn biggest_tags(&self, tag: Option<&str>, limit: usize) -> BiggestTags {
        let (mut best, mut total, mut after) = (BinaryHeap::new(), 0, None::<Arc<str>>);
        loop {
            let copied = match tag {
                None => self.tagged().tags_after(after.as_deref(), COPIED_AT_ONCE),
                Some(tag) => self.tagged().listed_values_after(tag, after.as_deref(), COPIED_AT_ONCE),
            };
            let is_last = copied.len() < COPIED_AT_ONCE;
            total += copied.len() as u64;
            after = copied.last().map(|last| Arc::clone(&last.text));
            for listed in copied {
                best.push(Reverse((listed.series, Reverse(listed.text))));
                if best.len() > limit {
                    best.pop();
                }
            }
            if is_last {
                break;
            }
        }
        let mut best: Vec<(u64, Reverse<Arc<str>>)> = best.into_iter().map(|Reverse(one)| one).collect();
        best.sort_unstable_by(|one, other| other.cmp(one));
        let size = |(series, Reverse(text)): (u64, Reverse<Arc<str>>)| TagSize {
            values: if tag.is_none() { self.tagged().value_count(&text) as u64 } else { 0 },
            text: text.as_ref().to_owned(),
            series,
        };
        BiggestTags { biggest: best.into_iter().map(size).collect(), total }
    }
}

#[cfg(test)]
mod tests {
    use plumbago_telemetry::Registry;

    use super::*;

    fn texts(found: &BiggestTags) -> Vec<(&str, u64, u64)> {
        found.biggest.iter().map(|one| (one.text.as_str(), one.series, one.values)).collect()
    }

    #[test]
    fn the_biggest_come_first() {
        let index = Index::new(&Registry::new());
        let mut names: Vec<String> = (0..5000).map(|n| format!("load;host=h{n}")).collect();
        names.extend((0..7).map(|n| format!("disk;dc=eu;host=h{n}")));
        names.extend((0..2).map(|n| format!("disk;dc=us;host=h{n}")));
        index.insert(names.iter().map(String::as_str));
        let tags = index.biggest_tags(None, 2);
        assert_eq!((texts(&tags), tags.total), (vec![("host", 5009, 5000), ("name", 5009, 2)], 3));
        let hosts = index.biggest_tags(Some("host"), 3);
        assert_eq!((texts(&hosts), hosts.total), (vec![("h0", 3, 0), ("h1", 3, 0), ("h2", 2, 0)], 5000));
        assert_eq!(texts(&index.biggest_tags(Some("dc"), 10)), [("eu", 7, 0), ("us", 2, 0)]);
        assert_eq!(index.biggest_tags(Some("none"), 10), BiggestTags::default());
        assert!(index.biggest_tags(None, 0).biggest.is_empty());
    }
}
