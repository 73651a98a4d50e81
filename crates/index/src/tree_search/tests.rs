use proptest::prelude::*;

use super::*;

fn name(parts: &[u8]) -> Vec<u8> {
    let texts: Vec<&str> =
        parts.iter().map(|part| ["ab", "b", "cpu", "xa", "zz"][usize::from(*part)]).collect();
    texts.join(".").into_bytes()
}

fn trie(names: &[Vec<u8>]) -> Trie {
    let mut trie = Trie::new();
    for parts in names {
        trie.insert(&name(parts));
    }
    trie.update_shapes();
    trie
}

/// Searches while the tree changes between any two rounds. In tests a round visits three children.
fn searched(
    trie: &mut Trie,
    text: &str,
    most: usize,
    mut between: impl FnMut(&mut Trie, usize),
) -> (Vec<Node>, usize) {
    let words = Words::new(text).unwrap();
    let mut best = Best::new(most);
    let mut search = TreeSearch::new(&words, &mut best);
    let mut sweep = Sweep::new(trie, "", search.start());
    let (mut visits, mut rounds) = (usize::MAX, 0);
    while search.round(trie, &mut sweep, &mut visits) {
        between(trie, rounds);
        trie.update_shapes();
        rounds += 1;
    }
    best.end()
}

const TEXTS: [&str; 9] = ["b", "cpu", "a b", "b.c", "x.", ".b", "a.b.c xa", "*b cpu", "a*.c?u"];

fn names() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(0..4_u8, 1..6), 1..60)
}

/// Names that are added and removed. Most of them have a component that no word matches.
fn others() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let parts = prop::collection::vec(prop_oneof![1 => 0..4_u8, 2 => Just(4)], 1..6);
    prop::collection::vec((any::<bool>(), parts), 1..40)
}

proptest! {
    /// Names are added and removed, even in directories that the search is in or remembers. Names that stay
    /// are counted once, and nothing is counted that never existed. If the changed names match no word, the
    /// result is the same as without them.
    #[test]
    fn changes_between_rounds(
        names in names(),
        others in others(),
        text in prop::sample::select(&TEXTS[..]),
        results in prop_oneof![1..5_usize, Just(1000)],
    ) {
        let others: Vec<_> = others.into_iter().filter(|(_, parts)| !names.contains(parts)).collect();
        let all: Vec<Vec<u8>> = names.iter().cloned().chain(others.iter().map(|(_, parts)| parts.clone())).collect();
        let fewest = searched(&mut trie(&names), text, results, |_, _| {});
        let most = searched(&mut trie(&all), text, results, |_, _| {});
        let found = searched(&mut trie(&names), text, results, |trie, round| {
            let Some((remove, parts)) = others.get(round % others.len().max(1)) else { return };
            if *remove { trie.remove(&name(parts)) } else { trie.insert(&name(parts)) };
        });
        let paths = |nodes: &[Node]| nodes.iter().map(|node| node.path.clone()).collect::<Vec<_>>();
        prop_assert!((fewest.1..=most.1).contains(&found.1), "{}: {} of {} to {}", text, found.1, fewest.1, most.1);
        if fewest.1 == most.1 {
            prop_assert_eq!(paths(&found.0), paths(&fewest.0), "{}", text);
        }
        if results == 1000 {
            let found = paths(&found.0);
            prop_assert!(paths(&fewest.0).iter().all(|path| found.contains(path)), "{}", text);
            let most = paths(&most.0);
            prop_assert!(found.iter().all(|path| most.contains(path)), "{}", text);
        }
    }
}

/// Nodes that a search does not visit cost no visits.
#[test]
fn equal_directories_are_searched_once() {
    let mut trie = Trie::new();
    for host in 0..50 {
        for metric in 0..50 {
            trie.insert(format!("all.host{host:02}.cpu.m{metric}").as_bytes());
        }
    }
    trie.update_shapes();
    let words = Words::new("cpu").unwrap();
    let (mut best, mut visits) = (Best::new(5), 10_000);
    let mut search = TreeSearch::new(&words, &mut best);
    let mut sweep = Sweep::new(&trie, "", search.start());
    while search.round(&trie, &mut sweep, &mut visits) {}
    // The parent directory, 50 hosts, and the content of the first host. Five of the other hosts are entered
    // for the results.
    assert_eq!(10_000 - visits, 1 + 50 + 51 + 4);
    assert_eq!(best.total(), 50 * 51);
}
