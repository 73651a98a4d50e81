//! Searches of tagged series by words.

use roaring::RoaringBitmap;

use super::{NAME, Tags};
use crate::Node;
use crate::best::Best;
use crate::words::Words;

/// Maximum number of pairs that are compared while the lock is held.
const PAIRS_PER_TURN: usize = 16_384;

/// A search of tagged series by words, in rounds. Between two of them the lock is released.
#[derive(Debug)]
pub(crate) struct TagSearch {
    /// For each word, the series that have a part which begins with it, and all series that contain it.
    found: Vec<(RoaringBitmap, RoaringBitmap)>,
    /// The next pair.
    next: usize,
    lower: Vec<u8>,
}

impl TagSearch {
    pub(crate) fn new(words: &Words) -> Self {
        let found = vec![(RoaringBitmap::new(), RoaringBitmap::new()); words.len()];
        Self { found, next: 0, lower: Vec::new() }
    }

    /// Compares the next pairs. Returns `false` at the end. `visits` is the number of pairs and series that may
    /// still be looked at; it is 0 if that did not suffice.
    pub(crate) fn round(&mut self, tags: &Tags, words: &Words, visits: &mut usize) -> bool {
        let count = PAIRS_PER_TURN.min(*visits);
        let mut compared = 0;
        for (tag, value, series) in tags.pairs.all(self.next).take(count) {
            compared += 1;
            let all = words.of_pair((tag != NAME).then_some(tag), value, &mut self.lower);
            if all == 0 {
                continue;
            }
            for (place, (good, any)) in self.found.iter_mut().enumerate() {
                match all >> (2 * place) & 3 {
                    0 => {}
                    1 => series.add_to(any),
                    _ => {
                        series.add_to(good);
                        series.add_to(any);
                    }
                }
            }
        }
        self.next += compared;
        *visits -= compared;
        compared == count
    }

    /// Ranks the series in which every word was found. Returns whether `visits` did not suffice.
    pub(crate) fn rank(self, tags: &Tags, words: &Words, visits: &mut usize, best: &mut Best) -> bool {
        let goods: Vec<RoaringBitmap> = self.found.iter().map(|(good, _)| good.clone()).collect();
        let Some(matching) = self.found.into_iter().map(|(_, any)| any).reduce(|a, b| a & b) else {
            return false;
        };
        let mut left = matching.len() as usize;
        for number in matching {
            if !best.would_keep(Best::rank(2 * words.len() as u32, 1)) {
                break;
            }
            let Some(next) = visits.checked_sub(1) else { return true };
            (*visits, left) = (next, left - 1);
            let pairs = tags.series.get(number as usize).map_or(0, |series| usize::from(series.length));
            if pairs == 0 {
                continue; // removed since its pair was compared
            }
            let sum = goods.iter().map(|good| 1 + u32::from(good.contains(number))).sum();
            best.add(Best::rank(sum, pairs), || {
                let mut path = String::new();
                tags.write_name(number, &mut path);
                Node { path, leaf: true, branch: false }
            });
        }
        best.add_unranked(left);
        false
    }
}
