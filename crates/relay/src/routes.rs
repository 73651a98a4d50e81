//! A cache of the destinations of names. Matching a name against many rules takes longer than everything else that the
//! relay does with a point.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use plumbago_model::PointBatch;
use plumbago_model::rules::RelayRules;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Size of the cache in names, each of 16 bytes. A name may replace another.
const PLACES: usize = 1 << 19;
/// An odd number, so that different destinations give different products.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The rules in effect, and a cache of the destinations of names.
pub(crate) struct Routes {
    rules: RelayRules,
    places: Box<[Place]>,
    seed: u64,
}

/// A name and its destinations. Threads read and write the two fields without a lock. `check` shows whether they belong
/// together: it is the hash of the name, combined with the destinations.
#[derive(Default)]
struct Place {
    check: AtomicU64,
    destinations: AtomicU64,
}

impl Routes {
    pub(crate) fn new(rules: RelayRules) -> Self {
        // The seed is random, so that no sender can choose names whose hashes collide.
        let seed = RandomState::new().hash_one("relay");
        Self { rules, places: (0..PLACES).map(|_| Place::default()).collect(), seed }
    }

    /// The destinations of each point, as a set of bits.
    pub(crate) fn choose(&self, batch: &PointBatch) -> Vec<u64> {
        let names = || batch.points().iter().map(|point| batch.name_bytes(point));
        // All hashes first: then the processor loads several places at once.
        let mut chosen: Vec<u64> = names().map(|name| self.hash(name)).collect();
        chosen.iter_mut().zip(names()).for_each(|(hash, name)| *hash = self.destinations(*hash, name));
        chosen
    }

    /// An entry that was never used has the check 0, which no name has.
    #[inline]
    fn hash(&self, name: &[u8]) -> u64 {
        xxh3_64_with_seed(name, self.seed) | 1
    }

    /// The destinations of the metric with this hash and name, which is UTF-8.
    #[inline]
    fn destinations(&self, hash: u64, name: &[u8]) -> u64 {
        let place = &self.places[(hash >> 1) as usize % PLACES];
        let known = place.destinations.load(Ordering::Relaxed);
        if place.check.load(Ordering::Relaxed) == check(hash, known) {
            return known;
        }
        let chosen = self.rules.destinations(str::from_utf8(name).unwrap_or_default());
        place.destinations.store(chosen, Ordering::Relaxed);
        place.check.store(check(hash, chosen), Ordering::Relaxed);
        chosen
    }
}

fn check(hash: u64, destinations: u64) -> u64 {
    hash ^ destinations.wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_destinations_are_those_of_the_rules() {
        let text = "[a]\npattern = ^a\\.\ndestinations = a:1\ncontinue = true\n\
                    [7]\npattern = 7$\ndestinations = b:1\n[default]\ndefault = true\ndestinations = c:1\n";
        let known = ["a:1", "b:1", "c:1"].map(str::to_owned);
        let rules = || {
            let (rules, problems) = RelayRules::parse(text, &known);
            assert!(problems.is_empty(), "{problems:?}");
            rules
        };
        let (rules, routes) = (rules(), Routes::new(rules()));
        let destinations = |name: &str| routes.destinations(routes.hash(name.as_bytes()), name.as_bytes());
        let names = || (0..2 * PLACES).map(|n| format!("{}.{n}", if n % 3 == 0 { "a" } else { "b" }));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for name in names() {
                        assert_eq!(destinations(&name), rules.destinations(&name), "{name}");
                    }
                });
            }
        });
        assert_eq!(destinations("a.7"), 0b11);
        assert_eq!(destinations("b.1"), 0b100);
        assert_eq!(destinations("b.1"), 0b100);
    }
}
