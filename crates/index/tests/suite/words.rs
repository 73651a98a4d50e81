//! Searches by words, compared with a plain pass over all names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plumbago_index::{Index, Node};
use plumbago_model::glob::{Pattern, has_glob};
use plumbago_telemetry::Registry;
use proptest::prelude::*;

const INSIDE: u32 = 1;
const START: u32 = 2;
const WHOLE: u32 = 3;

/// How well a text matches a word that may be anywhere in it.
fn anywhere(word: &str, text: &str) -> u32 {
    if has_glob(word) {
        let matches = Pattern::parse(&format!("*{word}*")).unwrap().matches(text);
        return if matches { START } else { 0 };
    }
    match text.find(word) {
        None => 0,
        Some(_) if word.len() == text.len() => WHOLE,
        Some(at) if at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric() => START,
        Some(_) => INSIDE,
    }
}

/// How well the last components match a word with dots.
fn consecutive(parts: &[&str], path: &[String]) -> u32 {
    let Some(above) = path.len().checked_sub(parts.len()) else { return 0 };
    let last = parts.len() - 1;
    let fits = |(place, (part, text)): (usize, (&&str, &String))| {
        if has_glob(part) {
            let before = if place == 0 { "*" } else { "" };
            let after = if place == last { "*" } else { "" };
            return Pattern::parse(&format!("{before}{part}{after}")).unwrap().matches(text);
        }
        match place {
            0 => text.ends_with(part),
            place if place == last => text.starts_with(part),
            _ => text == part,
        }
    };
    match parts.iter().zip(&path[above..]).enumerate().all(fits) {
        false => 0,
        true if !has_glob(parts[last]) && parts[last].len() == path[path.len() - 1].len() => WHOLE,
        true => START,
    }
}

fn of_path(word: &str, path: &[String]) -> u32 {
    let parts: Vec<&str> = word.split('.').collect();
    let of_end = |end: usize| match parts.as_slice() {
        [word] => anywhere(word, &path[end - 1]),
        parts => consecutive(parts, &path[..end]),
    };
    (1..=path.len()).map(of_end).max().unwrap_or(0)
}

/// How well a tagged series matches a word: as well as the best of its pairs.
fn of_series(word: &str, name: &str) -> u32 {
    let word = if has_glob(word) { word.replace('.', "?") } else { word.to_owned() };
    name.to_lowercase().split(';').map(|pair| anywhere(&word, pair).min(START)).max().unwrap_or(0)
}

/// All names and directories that match, best first.
fn expected(names: &[String], text: &str) -> Vec<Node> {
    let words: Vec<String> = text.split_whitespace().take(7).map(str::to_lowercase).collect();
    let mut tree: BTreeMap<Vec<&str>, (bool, bool)> = BTreeMap::new();
    for name in names.iter().filter(|name| !name.contains(';')) {
        let path: Vec<&str> = name.split('.').collect();
        (1..path.len()).for_each(|end| tree.entry(path[..end].to_vec()).or_default().1 = true);
        tree.entry(path).or_default().0 = true;
    }
    let mut found: Vec<(u32, usize, Node)> = Vec::new();
    let mut add = |qualities: Vec<u32>, length: usize, path: String, (leaf, branch): (bool, bool)| {
        if qualities.iter().all(|quality| *quality > 0) {
            found.push((qualities.iter().sum(), length, Node { path, leaf, branch }));
        }
    };
    for (path, kind) in tree {
        let lower: Vec<String> = path.iter().map(|part| part.to_lowercase()).collect();
        add(words.iter().map(|word| of_path(word, &lower)).collect(), path.len(), path.join("."), kind);
    }
    for name in names.iter().filter(|name| name.contains(';')) {
        let qualities = words.iter().map(|word| of_series(word, name)).collect();
        add(qualities, name.split(';').count(), name.clone(), (true, false));
    }
    // The sort keeps the order of equal elements.
    found.sort_by_key(|(sum, length, _)| (Reverse(*sum), *length));
    found.into_iter().map(|(_, _, node)| node).collect()
}

/// Names as they occur in practice: most hosts have the same metrics, some have more.
fn names() -> impl Strategy<Value = Vec<String>> {
    let text = || {
        prop::sample::select(
            &["web", "Web01", "cpu", "CPU-idle", "a", "b", "ab", "\u{dc}n", "x_y", "user"][..],
        )
    };
    let below = prop::collection::vec(prop::collection::vec(text(), 1..4), 1..6);
    let hosts = prop::collection::vec((0..40_u8, text(), 0..3_usize), 0..30);
    let others = prop::collection::vec(prop::collection::vec(text(), 1..6), 0..20);
    let tagged = prop::collection::vec((text(), prop::collection::vec(text(), 0..4)), 0..20);
    (prop::collection::vec(below, 3), hosts, others, tagged).prop_map(|(templates, hosts, others, tagged)| {
        let hosts = hosts.iter().flat_map(|(number, text, template)| {
            templates[*template].iter().map(move |end| format!("dc.{text}{number}.{}", end.join(".")))
        });
        let others = others.iter().map(|parts| parts.join("."));
        let tagged = tagged.iter().map(|(name, values)| {
            let pairs = values
                .iter()
                .enumerate()
                .map(|(place, value)| format!(";{}={value}", ["dc", "Host", "x"][place]));
            format!("{name}{}", pairs.collect::<String>())
        });
        let mut seen = std::collections::HashSet::new();
        hosts.chain(others).chain(tagged).filter(|name| seen.insert(name.clone())).collect()
    })
}

fn words() -> impl Strategy<Value = String> {
    let known = prop::sample::select(
        &[
            "WEB",
            "cpu",
            "u",
            "\u{fc}",
            "-I",
            "b0",
            "a.",
            ".b",
            "b.c",
            "dc.web1.cpu",
            "w*1",
            "*.a",
            "a?",
            "[ab].",
            "{web,ab}",
            "host=",
            "host=w",
            "c=a*",
            "=",
            "\\\\a",
        ][..],
    );
    let word = prop_oneof![3 => known.prop_map(str::to_owned), 2 => "[abuw1x_.*?\u{fc}-]{1,5}"];
    prop::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// The number of matches, the best matches and their order equal those of a plain pass over all names, in
    /// a tree to which names were added and from which names were removed.
    #[test]
    fn the_best_are_those_of_a_look_at_all_names(
        names in names(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        texts in prop::collection::vec(words(), 1..5),
        results in prop_oneof![1..6_usize, Just(1000)],
    ) {
        let index = Index::new(&Registry::new());
        index.insert(names.iter().map(String::as_str));
        let compare = |names: &[String]| {
            for text in &texts {
                let Ok(found) = index.search_words(text, results, usize::MAX) else {
                    return Err(TestCaseError::fail(format!("{text} is refused")));
                };
                let expected = expected(names, text);
                prop_assert_eq!(found.total, expected.len(), "total of {}", text);
                prop_assert_eq!(&found.best[..], &expected[..results.min(expected.len())], "{}", text);
                prop_assert!(!found.is_cut);
            }
            Ok(())
        };
        compare(&names)?;
        let mut left = names.clone();
        for place in lost.iter().filter(|_| !names.is_empty()) {
            let name = place.get(&names);
            index.remove(name);
            left.retain(|other| other != name);
        }
        compare(&left)?;
    }
}
