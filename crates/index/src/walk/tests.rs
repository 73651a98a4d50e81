//! Walks that stop after every few nodes, with changes in between.

use std::collections::BTreeSet;

use plumbago_model::glob::Pattern;
use proptest::prelude::*;

use super::*;

fn name(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(parts), 1..5).prop_map(|parts| parts.join("."))
}

fn pattern() -> impl Strategy<Value = String> {
    let parts = &["a", "a-b", "*", "*", "**", "a*", "[!a]*", "{a,b}", "{a,b*}", "b", "?"][..];
    prop::collection::vec(prop::sample::select(parts), 1..5).prop_map(|parts| parts.join("."))
}

/// All nodes of these names that match; directories only if they are wanted.
fn expected(names: &BTreeSet<String>, pattern: &Pattern, want: Want) -> BTreeSet<String> {
    let mut nodes: BTreeSet<String> = names.iter().filter(|name| pattern.matches(name)).cloned().collect();
    if want == Want::Nodes {
        let directories = names.iter().flat_map(|name| name.match_indices('.').map(|(at, _)| &name[..at]));
        nodes.extend(directories.filter(|path| pattern.matches(path)).map(str::to_owned));
    }
    nodes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Names that are not changed are found once and in order, whatever other names are added or removed.
    #[test]
    fn changes_between_turns(
        kept in prop::collection::vec(name(&["a", "b", "ab", "a-b", "a-", "c"]), 1..40),
        changed in prop::collection::vec(name(&["a", "b", "a-b", "a-z", "a!", "z"]), 1..40),
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..150),
        pattern in pattern(),
        leaves in any::<bool>(),
    ) {
        let kept: BTreeSet<String> = kept.into_iter().collect();
        let changed: Vec<String> = changed.into_iter().filter(|name| !kept.contains(name)).collect();
        let pattern = Pattern::parse(&pattern).unwrap();
        let [path] = pattern.paths() else { return Err(TestCaseError::reject("several paths")) };
        let want = if leaves { Want::Leaves } else { Want::Nodes };
        let mut trie = Trie::new();
        for name in kept.iter().chain(changed.iter().step_by(2)) {
            trie.insert(name.as_bytes());
        }
        let mut walk = Walk::new(path, want, &trie);
        let (mut found, mut visits) = (Found::default(), usize::MAX);
        let mut shown: Vec<String> = Vec::new();
        let mut steps = steps.chunks(5);
        loop {
            found.clear();
            let more = walk.round(&trie, &mut found, &mut visits);
            shown.extend(found.iter().map(|(path, _, _)| path.to_owned()));
            if !more {
                break;
            }
            for (insert, pick) in steps.next().unwrap_or_default().iter().filter(|_| !changed.is_empty()) {
                let name = pick.get(&changed).as_bytes();
                if *insert { trie.insert(name) } else { trie.remove(name) };
            }
        }
        prop_assert!(shown.is_sorted_by(|a, b| a < b), "{shown:?}");
        let shown: BTreeSet<String> = shown.into_iter().collect();
        prop_assert!(shown.iter().all(|path| pattern.matches(path)), "{shown:?}");
        let expected = expected(&kept, &pattern, want);
        prop_assert!(expected.is_subset(&shown), "{:?} missing", expected.difference(&shown));
    }
}
