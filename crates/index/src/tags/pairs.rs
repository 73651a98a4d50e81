//! Pairs of tag and value, each stored once, with the series that have them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::numbers::Numbers;
use super::postings::Postings;

/// All pairs. A pair is removed with its last series, and a tag with its last value.
#[derive(Debug)]
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    free: Vec<u32>,
    by_text: Numbers,
    hasher: RandomState,
    tags: Vec<Tag>,
    free_tags: Vec<u32>,
    by_name: BTreeMap<Arc<str>, u32>,
}

#[derive(Debug)]
struct Pair {
    tag: u32,
    value: Arc<str>,
    series: Postings,
}

/// A tag.
#[derive(Debug)]
pub(super) struct Tag {
    name: Arc<str>,
    /// The pair of each value.
    pub(super) values: BTreeMap<Arc<str>, u32>,
    /// The series that have the tag.
    pub(super) series: Postings,
}

impl Pairs {
    pub(super) fn new() -> Self {
        Self {
            pairs: Vec::new(),
            free: Vec::new(),
            by_text: Numbers::new(),
            hasher: RandomState::default(),
            tags: Vec::new(),
            free_tags: Vec::new(),
            by_name: BTreeMap::new(),
        }
    }

    pub(super) fn find(&self, tag: &str, value: &str) -> Option<u32> {
        self.by_text.find(hash_of(&self.hasher, tag, value), |pair| self.text(pair) == (tag, value))
    }

    /// The number of a pair, which is added if it is new.
    pub(super) fn acquire(&mut self, tag: &str, value: &str) -> u32 {
        match self.find(tag, value) {
            Some(pair) => pair,
            None => self.add(tag, value),
        }
    }

    pub(super) fn add_series(&mut self, pair: u32, series: u32) {
        let pair = &mut self.pairs[pair as usize];
        pair.series.insert(series);
        self.tags[pair.tag as usize].series.insert(series);
    }

    pub(super) fn remove_series(&mut self, pair: u32, series: u32) {
        let entry = &mut self.pairs[pair as usize];
        entry.series.remove(series);
        let (tag, is_empty) = (entry.tag, entry.series.is_empty());
        self.tags[tag as usize].series.remove(series);
        if is_empty {
            self.drop_pair(pair);
        }
    }

    /// The tag and the value of a pair.
    pub(super) fn text(&self, pair: u32) -> (&str, &str) {
        let pair = &self.pairs[pair as usize];
        (&self.tags[pair.tag as usize].name, &pair.value)
    }

    pub(super) fn value(&self, pair: u32) -> &str {
        &self.pairs[pair as usize].value
    }

    /// The number of the tag of a pair.
    pub(super) fn tag_of(&self, pair: u32) -> u32 {
        self.pairs[pair as usize].tag
    }

    pub(super) fn series(&self, pair: u32) -> &Postings {
        &self.pairs[pair as usize].series
    }

    pub(super) fn tag(&self, name: &str) -> Option<(u32, &Tag)> {
        let number = *self.by_name.get(name)?;
        Some((number, &self.tags[number as usize]))
    }

    /// All tags, sorted.
    pub(super) fn tags(&self) -> impl Iterator<Item = (&str, u32, &Tag)> {
        self.by_name.iter().map(|(name, number)| (&**name, *number, &self.tags[*number as usize]))
    }

    /// The tags after `after`, sorted.
    pub(super) fn tags_after(&self, after: Option<&str>) -> impl Iterator<Item = (&Arc<str>, u32, &Tag)> {
        let tags = self.by_name.range::<str, _>((behind(after), Bound::Unbounded));
        tags.map(|(name, number)| (name, *number, &self.tags[*number as usize]))
    }

    /// The number of the tag, the value and the series of each pair, from the given number on. Value and
    /// series are empty for a number that is free.
    pub(super) fn all(&self, from: usize) -> impl Iterator<Item = (u32, &str, &Postings)> {
        let pairs = self.pairs.get(from..).unwrap_or_default().iter();
        pairs.map(|pair| (pair.tag, &*pair.value, &pair.series))
    }

    pub(super) fn tag_name(&self, tag: u32) -> &str {
        &self.tags[tag as usize].name
    }

    /// The series that have a tag.
    pub(super) fn series_with(&self, tag: u32) -> &Postings {
        &self.tags[tag as usize].series
    }

    pub(super) fn memory_bytes(&self) -> usize {
        /// Bytes for the reference counts of a shared text, and for its part of a node in the tree of values.
        const AROUND_TEXT: usize = 2 * size_of::<usize>() + 2 * size_of::<(Arc<str>, u32)>();
        let pairs = self.pairs.iter().map(|pair| pair.value.len() + AROUND_TEXT + pair.series.memory_bytes());
        let tags = self.tags.iter().map(|tag| tag.name.len() + AROUND_TEXT + tag.series.memory_bytes());
        pairs.sum::<usize>()
            + tags.sum::<usize>()
            + self.pairs.capacity() * size_of::<Pair>()
            + self.tags.capacity() * size_of::<Tag>()
            + (self.free.capacity() + self.free_tags.capacity()) * size_of::<u32>()
            + self.by_text.memory_bytes()
    }

    fn add(&mut self, tag: &str, value: &str) -> u32 {
        let hash = hash_of(&self.hasher, tag, value);
        let tag = self.acquire_tag(tag);
        let value: Arc<str> = value.into();
        let pair = Pair { tag, value: Arc::clone(&value), series: Postings::default() };
        let number = put(&mut self.pairs, &mut self.free, pair);
        self.tags[tag as usize].values.insert(value, number);
        let (pairs, tags, hasher) = (&self.pairs, &self.tags, &self.hasher);
        self.by_text.insert(hash, number, |other| {
            let other = &pairs[other as usize];
            hash_of(hasher, &tags[other.tag as usize].name, &other.value)
        });
        number
    }

    fn acquire_tag(&mut self, name: &str) -> u32 {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let name: Arc<str> = name.into();
        let tag = Tag { name: Arc::clone(&name), values: BTreeMap::new(), series: Postings::default() };
        let number = put(&mut self.tags, &mut self.free_tags, tag);
        self.by_name.insert(name, number);
        number
    }

    fn drop_pair(&mut self, number: u32) {
        let (tag, value) = self.text(number);
        let hash = hash_of(&self.hasher, tag, value);
        self.by_text.remove(hash, |other| other == number);
        let pair = &mut self.pairs[number as usize];
        let tag = &mut self.tags[pair.tag as usize];
        tag.values.remove(&*pair.value);
        if tag.values.is_empty() {
            self.by_name.remove(&*tag.name);
            self.free_tags.push(pair.tag);
        }
        pair.value = Arc::default();
        pair.series = Postings::default();
        self.free.push(number);
    }
}

/// The start of a range of texts: after `after`, or unbounded if that is `None`.
pub(super) fn behind(after: Option<&str>) -> Bound<&str> {
    after.map_or(Bound::Unbounded, Bound::Excluded)
}

fn hash_of(hasher: &RandomState, tag: &str, value: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(tag.as_bytes());
    // No tag contains this byte, so it separates the tag from the value.
    hasher.write_u8(b'=');
    hasher.write(value.as_bytes());
    hasher.finish()
}

/// Puts an element into a free position, or at the end.
fn put<T>(elements: &mut Vec<T>, free: &mut Vec<u32>, element: T) -> u32 {
    if let Some(number) = free.pop() {
        elements[number as usize] = element;
        return number;
    }
    elements.push(element);
    elements.len() as u32 - 1
}
