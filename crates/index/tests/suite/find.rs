//! Compares the results of the index with plain lists of the same names.

use std::collections::BTreeSet;

use plumbago_index::{FindError, FindLimits, Index, Node, fuzzing};
use plumbago_telemetry::Registry;
use proptest::prelude::*;

fn index(names: &[&str]) -> Index {
    let index = Index::new(&Registry::new());
    index.insert(names.iter().copied());
    index
}

/// The results as paths, each with `L` if it is a metric and `B` if it is a directory.
fn find(index: &Index, pattern: &str) -> Vec<String> {
    let nodes = index.find(pattern, &FindLimits::default()).expect("small enough");
    let letter = |is: bool, letter: &'static str| if is { letter } else { "" };
    nodes.iter().map(|n| format!("{} {}{}", n.path, letter(n.leaf, "L"), letter(n.branch, "B"))).collect()
}

#[test]
fn nodes_at_the_depth_of_the_glob() {
    let index = index(&["a.b.c", "a.b", "a.c.d", "b.c", "a.b.e.f"]);
    assert_eq!(find(&index, "*"), ["a B", "b B"]);
    assert_eq!(find(&index, "a.*"), ["a.b LB", "a.c B"]);
    assert_eq!(find(&index, "a.b"), ["a.b LB"]);
    assert_eq!(find(&index, "a.b.c.d"), [""; 0]);
    assert_eq!(find(&index, "*.{b,c}"), ["a.b LB", "a.c B", "b.c L"]);
    assert_eq!(find(&index, "*.{c,x,b}.[cd]"), ["a.b.c L", "a.c.d L"]);
    assert_eq!(find(&index, "a.**"), ["a.b LB", "a.b.c L", "a.b.e B", "a.b.e.f L", "a.c B", "a.c.d L"]);
    assert_eq!(find(&index, "**.c"), ["a.b.c L", "a.c B", "b.c L"]);
    assert_eq!(find(&index, "{a.b.c,b.*,a.b,b.c}"), ["a.b LB", "a.b.c L", "b.c L"]);
    assert_eq!(find(&index, ""), [""; 0]);
    assert_eq!(find(&index, "a..b."), ["a.b LB"], "empty components are none, as in names");
    assert_eq!(index.leaves("a.*", &FindLimits::default()).unwrap(), ["a.b"]);
    assert_eq!(index.leaves("a", &FindLimits::default()).unwrap(), [""; 0]);
}

#[test]
fn the_order_is_that_of_the_bytes_of_the_path() {
    // `-` is sorted before the dot, and `0` after it.
    let names = ["a.x", "a-b.x", "a-b-c.x", "a0.x", "a", "a-b", "a!.x", "a.-", "a-", "é.x", "a.é"];
    let index = index(&names);
    for pattern in ["*", "*.*", "**", "a*.x", "{a,a-b,a-}.{x,-}", "**.x"] {
        let found = find(&index, pattern);
        let paths: Vec<&str> = found.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert!(paths.is_sorted(), "{pattern}: {paths:?}");
    }
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let mut all = Vec::new();
    index.for_each(&mut |name| all.push(name.to_owned()));
    assert_eq!(all, sorted);
}

#[test]
fn limits_are_named_and_count_what_is_left_after_the_filter() {
    let names: Vec<String> = (0..1000).map(|n| format!("host-{n:03}.load")).collect();
    let index = Index::new(&Registry::new());
    assert_eq!(index.insert(names.iter().map(String::as_str)), 1000);
    let results = |results_max| FindLimits { results_max, ..FindLimits::default() };
    assert_eq!(index.find("*", &results(1000)).unwrap().len(), 1000);
    assert_eq!(index.find("*", &results(999)), Err(FindError::TooManyResults(999)));
    assert_eq!(index.find("host-00?", &results(10)).unwrap().len(), 10);
    assert_eq!(index.find("{*,*.load}", &results(1999)), Err(FindError::TooManyResults(1999)));
    assert_eq!(index.leaves("{*,*.load}", &results(1000)).unwrap().len(), 1000);
    let visits = |visited_max| FindLimits { visited_max, ..FindLimits::default() };
    assert_eq!(index.find("*.n*", &visits(100)), Err(FindError::TooManyVisits(100)));
    assert!(index.find("*.n*", &visits(5000)).unwrap().is_empty());
    assert_eq!(index.find("*.load.load", &visits(100)), Err(FindError::TooManyVisits(100)));
    assert!(index.find("*.load.load", &visits(5000)).unwrap().is_empty());
    assert!(index.find("*.none", &visits(1)).unwrap().is_empty(), "no name has that component");
    assert!(index.find("host-77?.load", &visits(100)).is_ok(), "what comes before a wildcard is looked up");
    let message = index.find("*", &results(5)).unwrap_err().to_string();
    assert!(message.contains("more than 5"), "{message}");
    assert!(matches!(index.find(&"{a,b}".repeat(20), &results(5)), Err(FindError::Pattern(_))));
}

#[test]
fn hostile_patterns_use_up_their_visits() {
    let names: Vec<String> = (0..2000).map(|n| format!("{}{n}", "a".repeat(200))).collect();
    let index = Index::new(&Registry::new());
    index.insert(names.iter().map(String::as_str));
    let alternatives: Vec<String> = (0..5000).map(|n| format!("*a*{n}*a*x")).collect();
    let limits = FindLimits { visited_max: 100_000, ..FindLimits::default() };
    let pattern = format!("{{{}}}", alternatives.join(","));
    assert_eq!(index.find(&pattern, &limits), Err(FindError::TooManyVisits(100_000)));
    let pattern = "*a".repeat(100) + "*b";
    assert!(index.find(&pattern, &FindLimits::default()).unwrap().is_empty());
}

#[test]
fn tagged_series_are_apart() {
    let index = index(&["a.b", "a.b;x=1", "cpu;host=a.b;dc=1", "cpu;host=c"]);
    assert_eq!(index.len(), 4);
    assert_eq!(find(&index, "**"), ["a B", "a.b L"]);
    assert_eq!(find(&index, "*"), ["a B"]);
    assert!(index.contains("a.b;x=1") && !index.contains("a.b;x=2"));
    assert_eq!(index.insert(["a.b;x=1", "a.b;x=2"]), 1);
    assert_eq!(index.tagged_len(), 4);
    assert!(index.remove("cpu;host=c") && !index.remove("cpu;host=c"));
    assert_eq!((index.tagged_len(), index.len()), (3, 4));
    let mut all = Vec::new();
    index.for_each(&mut |name| all.push(name.to_owned()));
    assert_eq!(all, ["a.b"]);
}

#[test]
fn removal_takes_empty_directories_along() {
    let registry = Registry::new();
    let index = Index::new(&registry);
    assert_eq!(index.insert(["a.b.c", "a.b", "a.x.y.z", "a.b.c"]), 3);
    assert!(!index.remove("a"), "a directory is no metric");
    assert!(!index.remove("a.b.c.d") && !index.remove("q"));
    assert!(index.remove("a.x.y.z"));
    assert_eq!(find(&index, "a.*"), ["a.b LB"]);
    assert!(index.remove("a.b"));
    assert_eq!(find(&index, "a.*"), ["a.b B"]);
    assert!(index.remove("a.b.c"));
    assert_eq!(find(&index, "*"), [""; 0]);
    assert!(index.is_empty());
    assert_eq!(registry.value("plumbago_index_directories"), Some(0.0));
    assert_eq!(registry.value("plumbago_index_components"), Some(0.0));
    assert_eq!(index.insert(["a.b.c"]), 1);
    assert_eq!(find(&index, "a.**"), ["a.b B", "a.b.c L"]);
}

#[test]
fn texts_that_are_no_names_are_counted() {
    let registry = Registry::new();
    let index = Index::new(&registry);
    let long = "x".repeat(20_000);
    assert_eq!(index.insert(["", ".", "a\nb", &long, ";x=1", "a..b.", &long[..16_384]]), 2);
    assert_eq!(registry.value("plumbago_index_names_refused_total"), Some(5.0));
    assert!(index.contains("a.b") && index.contains("a..b"));
}

#[test]
fn deep_and_wide_trees() {
    let deep = vec!["d"; 8000].join(".");
    let index = Index::new(&Registry::new());
    index.insert([deep.as_str()]);
    assert!(index.contains(&deep));
    assert_eq!(index.leaves("**.d", &FindLimits::default()).unwrap(), [deep.as_str()]);
    assert!(index.remove(&deep));
    // These names are far from sorted.
    let mut names = BTreeSet::new();
    for n in 0..30_000_u32 {
        names.insert(format!("wide.{:x}.v", n.wrapping_mul(0x9E37_79B9)));
        if n % 100 == 0 {
            names.insert(format!("wide.{:x}", n.wrapping_mul(0x9E37_79B9)));
        }
    }
    let shuffled = |seed: u32| {
        let mut list: Vec<&str> = names.iter().map(String::as_str).collect();
        list.sort_by_key(|name| name.bytes().fold(seed, |h, b| h.wrapping_mul(31).wrapping_add(b.into())));
        list
    };
    assert_eq!(index.insert(shuffled(1)), names.len());
    for pattern in ["wide.*", "wide.*.v", "wide.1*", "wide.[!0-9]*7.v", "wide.**", "*.{0,1,9e3779b9,zz}.v"] {
        fuzzing::compare(&index, &names, pattern);
    }
    let mut left = names.clone();
    for name in shuffled(7).into_iter().take(29_000) {
        assert!(index.remove(name) && left.remove(name));
    }
    for pattern in ["wide.*", "wide.*.v", "wide.1*", "wide.**"] {
        fuzzing::compare(&index, &left, pattern);
    }
    for name in &left.clone() {
        assert!(index.remove(name) && !index.contains(name));
    }
    assert!(index.is_empty() && find(&index, "**").is_empty());
}

#[test]
fn a_walk_goes_on_in_a_changed_tree() {
    // There are enough names for many rounds. Names that are not changed must be found once, in order.
    let name = |a: usize, b: usize, c: usize| format!("a{a}.{}.c{c}", if b == 0 { "b" } else { "b-x" });
    let index = Index::new(&Registry::new());
    let mut kept = BTreeSet::new();
    for a in 0..400 {
        for b in 0..2 {
            let names: Vec<String> = (0..40).map(|c| name(a, b, c)).collect();
            index.insert(names.iter().map(String::as_str));
            kept.extend(names.into_iter().filter(|_| a % 3 != 0));
        }
    }
    let mut shown: Vec<String> = Vec::new();
    let mut turn = 0;
    index.for_each(&mut |path| {
        if shown.len().is_multiple_of(1000) {
            // Names are added and removed around the position of the search.
            turn += 1;
            for a in (0..400).step_by(3) {
                for c in (turn..40).step_by(4) {
                    index.remove(&name(a, turn % 2, c));
                }
            }
            let new: Vec<String> = (0..50).map(|n| format!("a{}.b.new{turn}.{n}", n * 7)).collect();
            index.insert(new.iter().map(String::as_str));
        }
        shown.push(path.to_owned());
    });
    assert!(turn > 20);
    assert!(shown.is_sorted_by(|a, b| a < b), "sorted and unique");
    let shown: BTreeSet<String> = shown.into_iter().collect();
    assert_eq!(kept.difference(&shown).count(), 0);
}

#[test]
fn readers_and_writers_at_once() {
    let index = Index::new(&Registry::new());
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..30 {
                    let names: Vec<String> =
                        (0..1000).map(|n| format!("w{writer}.r{round}.d{}.m{n}", n % 50)).collect();
                    assert_eq!(index.insert(names.iter().map(String::as_str)), 1000);
                    for name in names.iter().skip(500) {
                        assert!(index.remove(name));
                    }
                }
            });
        }
        scope.spawn(|| {
            while index.len() < 30_000 {
                let nodes = index.find("*.*.d1?.*", &FindLimits::default()).unwrap();
                assert!(nodes.is_sorted_by(|a, b| a.path < b.path));
                assert!(nodes.iter().all(|node| node.leaf && node.path.contains(".d1")));
            }
        });
    });
    assert_eq!(index.find("w?.r*.**.m*", &FindLimits::default()).unwrap().len(), 30_000);
}

#[test]
fn the_streams_show_what_the_lists_hold() {
    let index = index(&["a.b", "a.c.d", "a.c"]);
    let mut nodes = Vec::new();
    let limits = FindLimits::default();
    index
        .find_each("a.*", &limits, &mut |n| {
            nodes.push(Node { path: n.path.to_owned(), leaf: n.leaf, branch: n.branch });
        })
        .unwrap();
    assert_eq!(Ok(nodes), index.find("a.*", &limits));
    let mut names = Vec::new();
    index.leaves_each("a.*", &limits, &mut |name| names.push(name.to_owned())).unwrap();
    assert_eq!(names, ["a.b", "a.c"]);
}

fn component() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["a", "b", "ab", "a-b", "a-", "a!", "a0", "c", "é", "{x", "a*"][..])
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(component(), 1..5).prop_map(|parts| parts.join("."))
}

fn glob() -> impl Strategy<Value = String> {
    let parts = [
        "a", "b", "a-b", "*", "**", "a*", "?", "[ab]", "[!a]*", "{a,b}", "{a,*b}", "{a.b,c}", "*-*", "a{,-}",
        "{**,a}", "{a,}", "\\{x", "é", "[a-c]?", "{x",
    ];
    let part = prop::sample::select(parts.to_vec());
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("."))
}

proptest! {
    #[test]
    fn the_tree_finds_what_the_matcher_matches(
        names in prop::collection::vec(name(), 0..60),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        patterns in prop::collection::vec(glob(), 1..8),
    ) {
        let index = Index::new(&Registry::new());
        let mut list: BTreeSet<String> = BTreeSet::new();
        prop_assert_eq!(index.insert(names.iter().map(String::as_str)), names.iter().filter(|n| list.insert((*n).clone())).count());
        for pattern in &patterns {
            fuzzing::compare(&index, &list, pattern);
        }
        for pick in removed.iter().filter(|_| !names.is_empty()) {
            let name = pick.get(&names);
            prop_assert_eq!(index.remove(name), list.remove(name));
        }
        for pattern in &patterns {
            fuzzing::compare(&index, &list, pattern);
        }
        prop_assert_eq!(index.len(), list.len());
        let mut all = Vec::new();
        index.for_each(&mut |name| all.push(name.to_owned()));
        prop_assert_eq!(all, list.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes(data in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"ab*?.{},\n-[]"[..])], 0..200)) {
        fuzzing::glob(&data);
    }
}

/// Searches by words find the same names as a plain comparison with all names.
#[test]
fn words_find_what_a_comparison_of_all_names_finds() {
    let parts = ["web", "Web01", "cpu", "user", "CPU-idle", "a", "\u{dc}n", "x_y"];
    let mut names = BTreeSet::new();
    let mut number = 7_u32;
    let mut next = |below: usize| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 16) as usize % below
    };
    for _ in 0..400 {
        let name: Vec<&str> = (0..1 + next(4)).map(|_| parts[next(parts.len())]).collect();
        names.insert(name.join("."));
    }
    let index = Index::new(&Registry::new());
    index.insert(names.iter().map(String::as_str));
    for _ in 0..300 {
        let words: Vec<&str> = (0..1 + next(3))
            .map(|_| ["WEB", "u", "cpu", "b0", "a.", "b.c", "\u{fc}", "-I", "zz"][next(9)])
            .collect();
        let expected: Vec<&String> = names
            .iter()
            .filter(|name| {
                let name = name.to_lowercase();
                words.iter().all(|word| name.contains(&word.to_lowercase()))
            })
            .collect();
        let found = index.search_words(&words.join(" "), 100_000, usize::MAX).unwrap();
        let mut leaves: Vec<&String> =
            found.best.iter().filter(|node| node.leaf).map(|node| &node.path).collect();
        leaves.sort_unstable();
        assert_eq!(leaves, expected, "{words:?}");
        assert_eq!(found.total, found.best.len());
        assert!(!found.is_cut);
    }
}

#[test]
fn the_best_match_comes_first() {
    let index = Index::new(&Registry::new());
    index.insert([
        "a.b.cpu.x",
        "cpus.total",
        "cpu",
        "host.cpu",
        "x.acpub",
        "n;cpu=1;host=web",
        "cpu;host=db",
    ]);
    let paths = |query: &str, most: usize| -> Vec<String> {
        let found = index.search_words(query, most, usize::MAX).unwrap();
        found.best.into_iter().map(|node| node.path).collect()
    };
    assert_eq!(paths("CPU", 3), ["cpu", "host.cpu", "a.b.cpu"]);
    assert_eq!(paths("cpu web", 9), ["n;cpu=1;host=web"]);
    assert_eq!(paths("host=w", 9), ["n;cpu=1;host=web"]);
    assert_eq!(paths("cpu db", 9), ["cpu;host=db"]);
    assert!(paths("", 9).is_empty());
    index.remove("n;cpu=1;host=web");
    assert!(paths("cpu web", 9).is_empty());
    assert!(index.search_words("cpu", 9, 3).unwrap().is_cut);
}

#[test]
fn directories_are_listed_with_counts() {
    let index = Index::new(&Registry::new());
    let names: Vec<String> = (0..500).map(|n| format!("wide.c{n:03}.x")).chain(["wide".to_owned()]).collect();
    index.insert(names.iter().map(String::as_str));
    let root = index.list_children("", "", (0, 10), usize::MAX).unwrap();
    assert_eq!((root.total, root.children[0].below, root.children[0].leaf), (1, Some(500), true));
    let page = index.list_children("wide", "C04", (5, 3), usize::MAX).unwrap();
    let shown: Vec<&str> = page.children.iter().map(|child| child.name.as_str()).collect();
    assert_eq!((page.total, page.matching, shown), (500, 10, vec!["c045", "c046", "c047"]));
    assert_eq!(index.list_children("", "", (0, 10), 20).unwrap().children[0].below, None);
    assert_eq!(index.list_children("wide.c001.x", "", (0, 10), 20).unwrap().total, 0);
}
