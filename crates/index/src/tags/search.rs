//! Searches of tagged series by words.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::marks::Marks;
use super::postings::Postings;
use super::{NAME, Tags};
use crate::Node;
use crate::best::Best;
use crate::words::{Qualities, Words};

/// Maximum number of pairs that are compared while the lock is held.
const PAIRS_PER_TURN: usize = if cfg!(test) { 5 } else { 16_384 };

/// A search of tagged series by words, in rounds. Between two rounds the lock is released.
#[derive(Debug)]
pub(crate) struct TagSearch {
    found: Vec<Found>,
    /// The next pair.
    next: usize,
    lower: Vec<u8>,
}

/// The series in which one word of the search was found.
#[derive(Debug, Clone, Default)]
struct Found {
    /// The series with a tag or value in which the word is at the start of a part.
    good: Marks,
    /// The series with a tag or value that contains the word anywhere else.
    other: Marks,
}

impl TagSearch {
    pub(crate) fn new(words: &Words) -> Self {
        let found = vec![Found::default(); words.len()];
        Self { found, next: 0, lower: Vec::new() }
    }

    /// Compares the next pairs. Returns `false` at the end. `visits` is the number of pairs and series that
    /// may still be visited; it is 0 afterwards if it was not enough.
    pub(crate) fn round(&mut self, tags: &Tags, words: &Words, visits: &mut usize) -> bool {
        let count = PAIRS_PER_TURN.min(*visits);
        let mut compared = 0;
        // The words that match every pair of a tag, by tag. The series of such a tag are all marked at once.
        // The pairs of a tag are often adjacent.
        let mut known: HashMap<u32, Qualities> = HashMap::new();
        let mut latest = (u32::MAX, 0);
        for (tag, value, series) in tags.pairs.all(self.next).take(count) {
            compared += 1;
            let name = tags.pairs.tag_name(tag);
            if name == NAME {
                let all = words.of_pair(None, value, 0, &mut self.lower);
                self.mark(all, series);
                continue;
            }
            if latest.0 != tag {
                let all = known.entry(tag).or_insert_with(|| {
                    let all = words.of_tag(name);
                    self.mark(all, tags.pairs.series_with(tag));
                    all
                });
                latest = (tag, *all);
            }
            if !words.all_match(latest.1) {
                let all = words.of_pair(Some(name), value, latest.1, &mut self.lower);
                self.mark(all, series);
            }
        }
        self.next += compared;
        *visits -= compared;
        compared == count
    }

    fn mark(&mut self, all: Qualities, series: &Postings) {
        if all == 0 {
            return;
        }
        for (place, found) in self.found.iter_mut().enumerate() {
            match all >> (2 * place) & 3 {
                0 => {}
                1 => found.other.add(series),
                _ => found.good.add(series),
            }
        }
    }

    /// Ranks the series in which every word was found. Returns whether `visits` was not enough.
    pub(crate) fn rank(self, tags: &Tags, words: &Words, visits: &mut usize, best: &mut Best) -> bool {
        let mut goods = Vec::new();
        let mut matching: Option<RoaringBitmap> = None;
        for Found { good, other } in self.found {
            let good = good.into_bitmap();
            let any = other.into_bitmap() | &good;
            matching = Some(matching.map_or_else(|| any.clone(), |all| all & &any));
            goods.push(good);
        }
        let classes = by_goods(matching.unwrap_or_default(), &goods);
        for (goods, class) in classes.into_iter().enumerate().rev() {
            let sum = (words.len() + goods) as u32;
            let mut left = class.len() as usize;
            // A series with fewer pairs is better.
            for (pairs, series) in &tags.by_length {
                let rank = Best::rank(sum, usize::from(*pairs));
                if left == 0 || !best.would_keep(rank) {
                    break;
                }
                for number in series.common(&class) {
                    if !best.would_keep(rank) {
                        break;
                    }
                    let Some(next) = visits.checked_sub(1) else {
                        best.add_unranked(left);
                        return true;
                    };
                    (*visits, left) = (next, left - 1);
                    best.add(rank, || {
                        let mut path = String::new();
                        tags.write_name(number, &mut path);
                        Node { path, leaf: true, branch: false }
                    });
                }
            }
            best.add_unranked(left);
        }
        false
    }
}

/// Groups series by the number of sets that contain them.
fn by_goods(all: RoaringBitmap, sets: &[RoaringBitmap]) -> Vec<RoaringBitmap> {
    let mut classes = vec![all];
    for set in sets {
        let mut above = RoaringBitmap::new();
        for class in &mut classes {
            let moved = &*class & set;
            *class -= &moved;
            *class |= std::mem::replace(&mut above, moved);
        }
        classes.push(above);
    }
    classes
}
