//! Tagged series in memory, found by their tags.
//!
//! A series is a number and a list of pairs of tag and value in the order of its name. So no name is stored
//! as text. The part before the first `;` is the value of the tag `name`. A pair has the set of its series
//! ([`postings`]); a tag has its values, sorted, and the set of all series with the tag ([`pairs`]).
//! [`select`] finds the series that match expressions ([`expression`]). [`complete`] lists tags and values.

pub(crate) mod complete;
pub(crate) mod expression;
mod marks;
mod numbers;
mod pairs;
mod postings;
pub(crate) mod search;
pub(crate) mod select;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::RandomState;

use self::numbers::Numbers;
use self::pairs::Pairs;
use self::postings::Postings;
use crate::pool::{LENGTH_MAX, Pool};

/// The tag whose value is the part before the first `;`.
pub(crate) const NAME: &str = "name";

/// All tagged series.
#[derive(Debug)]
pub(crate) struct Tags {
    pairs: Pairs,
    /// The pairs of each series. A number without pairs is free.
    series: Vec<Series>,
    free: Vec<u32>,
    /// How many times a number was given to another series.
    reuses: u64,
    /// The pairs of all series.
    texts: Pool<u32>,
    /// The number of a series by its pairs.
    by_pairs: Numbers,
    hasher: RandomState,
    /// The series, by the number of their pairs.
    by_length: BTreeMap<u16, Postings>,
    count: usize,
    /// Names that searches by tags do not find: series hidden by an operator, and names with invalid tags.
    aside: BTreeSet<Box<str>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Series {
    start: u32,
    length: u16,
}

impl Tags {
    pub(crate) fn new() -> Self {
        Self {
            pairs: Pairs::new(),
            series: Vec::new(),
            free: Vec::new(),
            reuses: 0,
            texts: Pool::new(),
            by_pairs: Numbers::new(),
            hasher: RandomState::default(),
            by_length: BTreeMap::new(),
            count: 0,
            aside: BTreeSet::new(),
        }
    }

    /// The number of series, including hidden ones.
    pub(crate) fn len(&self) -> usize {
        self.count + self.aside.len()
    }

    /// Whether there is a series with this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.find(name).is_some() || self.aside.contains(name)
    }

    /// Adds a series. Returns `false` if it existed.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        if self.aside.contains(name) {
            return false;
        }
        let Some(segments) = segments(name) else { return self.aside.insert(name.into()) };
        let pairs: Vec<u32> = segments.iter().map(|(tag, value)| self.pairs.acquire(tag, value)).collect();
        if self.find_pairs(&pairs).is_some() {
            return false;
        }
        self.add(&pairs);
        true
    }

    /// Removes a series. Returns `false` if there was none.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        if self.aside.remove(name) {
            return true;
        }
        let Some(number) = self.find(name) else { return false };
        let hash = self.hash(self.pairs_of(number));
        self.by_pairs.remove(hash, |other| other == number);
        let Series { start, length } = std::mem::take(&mut self.series[number as usize]);
        for at in 0..usize::from(length) {
            let pair = self.texts.get(start, usize::from(length))[at];
            self.pairs.remove_series(pair, number);
        }
        self.texts.release(start, usize::from(length));
        if let Some(series) = self.by_length.get_mut(&length) {
            series.remove(number);
            if series.is_empty() {
                self.by_length.remove(&length);
            }
        }
        self.free.push(number);
        self.count -= 1;
        true
    }

    /// Hides a series from searches, but keeps it as a series. Returns `false` if searches did not find it before.
    pub(crate) fn hide(&mut self, name: &str) -> bool {
        self.find(name).is_some() && self.remove(name) && self.aside.insert(name.into())
    }

    /// Reverses [`Tags::hide`].
    pub(crate) fn show(&mut self, name: &str) -> bool {
        segments(name).is_some() && self.aside.remove(name) && self.insert(name)
    }

    /// The names of the hidden series.
    pub(crate) fn hidden(&self) -> Vec<String> {
        self.aside.iter().filter(|name| segments(name).is_some()).map(|name| name.to_string()).collect()
    }

    /// Appends the name of a series to `out`.
    pub(crate) fn write_name(&self, number: u32, out: &mut String) {
        for (place, pair) in self.pairs_of(number).iter().enumerate() {
            let (tag, value) = self.pairs.text(*pair);
            if place > 0 {
                out.extend([";", tag, "="]);
            }
            out.push_str(value);
        }
    }

    /// The names of at most `count` series in the order of their numbers, starting at `from`, and the next
    /// number; `None` after the last one. Series that searches do not find come after the others.
    pub(crate) fn names_from(&self, from: usize, count: usize) -> (Vec<String>, Option<usize>) {
        let until = (from + count).min(self.series.len());
        let mut names: Vec<String> = (from..until)
            .filter(|number| self.series[*number].length > 0)
            .map(|number| {
                let mut name = String::new();
                self.write_name(number as u32, &mut name);
                name
            })
            .collect();
        if until < self.series.len() {
            return (names, Some(until));
        }
        names.extend(self.aside.iter().map(|name| name.to_string()));
        (names, None)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let aside: usize = self.aside.iter().map(|name| name.len() + 2 * size_of::<Box<str>>()).sum();
        self.pairs.memory_bytes()
            + self.series.capacity() * size_of::<Series>()
            + self.free.capacity() * size_of::<u32>()
            + self.texts.memory_bytes()
            + self.by_pairs.memory_bytes()
            + self.by_length.values().map(Postings::memory_bytes).sum::<usize>()
            + aside
    }

    /// The pairs of a series, in the order of its name.
    fn pairs_of(&self, number: u32) -> &[u32] {
        let Series { start, length } = self.series[number as usize];
        self.texts.get(start, usize::from(length))
    }

    fn find(&self, name: &str) -> Option<u32> {
        let segments = segments(name)?;
        let pairs = segments.iter().map(|(tag, value)| self.pairs.find(tag, value));
        self.find_pairs(&pairs.collect::<Option<Vec<u32>>>()?)
    }

    fn find_pairs(&self, pairs: &[u32]) -> Option<u32> {
        self.by_pairs.find(self.hash(pairs), |number| self.pairs_of(number) == pairs)
    }

    fn add(&mut self, pairs: &[u32]) {
        let start = self.texts.allocate(pairs.len());
        self.texts.get_mut(start, pairs.len()).copy_from_slice(pairs);
        let number = match self.free.pop() {
            Some(number) => {
                self.reuses += 1;
                number
            }
            None => {
                self.series.push(Series::default());
                self.series.len() as u32 - 1
            }
        };
        self.series[number as usize] = Series { start, length: pairs.len() as u16 };
        self.by_length.entry(pairs.len() as u16).or_default().insert(number);
        for pair in pairs {
            self.pairs.add_series(*pair, number);
        }
        let hash = self.hash(pairs);
        let (series, texts, hasher) = (&self.series, &self.texts, &self.hasher);
        self.by_pairs.insert(hash, number, |other| {
            let Series { start, length } = series[other as usize];
            hash_of(hasher, texts.get(start, usize::from(length)))
        });
        self.count += 1;
    }

    fn hash(&self, pairs: &[u32]) -> u64 {
        hash_of(&self.hasher, pairs)
    }
}

fn hash_of(hasher: &RandomState, pairs: &[u32]) -> u64 {
    use std::hash::BuildHasher;
    hasher.hash_one(pairs)
}

/// The tags and values of a name, with `name` first. `None` if its tags are invalid.
fn segments(name: &str) -> Option<Vec<(&str, &str)>> {
    let mut parts = name.split(';');
    let metric = parts.next().filter(|metric| !metric.is_empty() && !metric.starts_with('~'))?;
    let mut segments = vec![(NAME, metric)];
    for part in parts {
        let (tag, value) = part.split_once('=')?;
        let readable =
            !tag.is_empty() && !tag.contains(['!', '^']) && !value.is_empty() && !value.starts_with('~');
        if !readable || segments.len() == LENGTH_MAX {
            return None;
        }
        segments.push((tag, value));
    }
    let mut tags: Vec<&str> = segments.iter().map(|(tag, _)| *tag).collect();
    tags.sort_unstable();
    tags.windows(2).all(|pair| pair[0] != pair[1]).then_some(segments)
}

#[cfg(test)]
mod tests;
