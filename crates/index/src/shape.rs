//! Hashes of whole directories. By the shape of a directory, a search recognises an equal one that it has
//! already gone through.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::children::Child;

/// Computes the parts whose sums are the shapes. Each tree has its own random seeds, so that it is impossible
/// to make a list of names in which different directories have the same shape.
#[derive(Debug)]
pub(crate) struct Mixer([u64; 3]);

impl Mixer {
    pub(crate) fn new() -> Self {
        let random = RandomState::default();
        Self([0_u64, 1, 2].map(|number| random.hash_one(number) | 1))
    }

    /// The part of a child in the shape of its directory. `below` is the shape of the child's own directory.
    #[inline]
    pub(crate) fn part(&self, child: Child, below: u64) -> u64 {
        let [a, b, c] = self.0;
        let kind = u64::from(child.is_leaf()) << 1 | u64::from(child.directory().is_some());
        let own = u64::from(child.component) << 2 | kind;
        // Multiplied twice, because a single product is nearly linear, so that sums of parts would often be
        // equal.
        let once = folded(own ^ a, b) ^ below;
        folded(once ^ c, a) ^ once
    }
}

/// Combines both halves of the product of two numbers.
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use crate::trie::Trie;

    /// Everything below a directory as one text. Notes the shape of each directory with its text.
    fn below(trie: &Trie, directory: u32, shapes: &mut HashMap<u64, String>) -> String {
        let mut text = String::new();
        let mut at = Default::default();
        while let Some((here, child)) = trie.children.get(directory, at) {
            text += &String::from_utf8_lossy(trie.components.text(child.component));
            text += if child.is_leaf() { "!" } else { "" };
            if let Some(directory) = child.directory() {
                text += &format!("({})", below(trie, directory, shapes));
            }
            text += ",";
            at = here.next();
        }
        let known = shapes.entry(trie.shape(directory)).or_insert_with(|| text.clone());
        assert_eq!(*known, text, "one shape for different directories");
        text
    }

    fn check(trie: &mut Trie) {
        trie.update_shapes();
        let mut shapes = HashMap::new();
        below(trie, trie.root(), &mut shapes);
        let different: std::collections::HashSet<&String> = shapes.values().collect();
        assert_eq!(different.len(), shapes.len(), "equal directories have one shape");
    }

    proptest! {
        /// Whatever is inserted and removed, in whatever order, directories have the same shape if and only
        /// if they are equal.
        #[test]
        fn a_shape_stands_for_what_is_below(
            changes in prop::collection::vec((any::<bool>(), prop::collection::vec(0..3_u8, 1..5)), 0..120),
            settled in 0..8_usize,
        ) {
            let mut trie = Trie::new();
            for (number, (insert, parts)) in changes.iter().enumerate() {
                let name = parts.iter().map(u8::to_string).collect::<Vec<_>>().join(".");
                if *insert || number % 3 == 0 { trie.insert(name.as_bytes()) } else { trie.remove(name.as_bytes()) };
                if number % 8 <= settled {
                    check(&mut trie);
                }
            }
            check(&mut trie);
        }
    }

    /// Directories that get several runs, and lose them again, keep their shape.
    #[test]
    fn long_directories_have_shapes() {
        let mut trie = Trie::new();
        for n in 0..1000 {
            for host in ["a", "b"] {
                trie.insert(format!("{host}.{}.x", n * 7919 % 1000).as_bytes());
            }
            if n % 90 == 0 {
                check(&mut trie);
            }
        }
        check(&mut trie);
        let shape = |trie: &Trie, name: &[u8]| {
            trie.get(name).and_then(|child| child.directory()).map(|d| trie.shape(d))
        };
        assert_eq!(shape(&trie, b"a"), shape(&trie, b"b"));
        for n in 0..995 {
            trie.remove(format!("a.{n}.x").as_bytes());
            assert_ne!(shape(&trie, b"a"), shape(&trie, b"b"));
            if n % 90 == 0 || n > 850 {
                check(&mut trie);
            }
        }
        for n in (0..995).rev() {
            trie.remove(format!("b.{n}.x").as_bytes());
        }
        check(&mut trie);
        assert_eq!(shape(&trie, b"a"), shape(&trie, b"b"));
        assert!(shape(&trie, b"a").is_some());
    }
}
