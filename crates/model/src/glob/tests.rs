use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, name: &str) -> bool {
    Pattern::parse(pattern).unwrap().matches(name)
}

#[test]
fn table_made_by_graphite_and_python() {
    let table = include_str!("../../testdata/glob/fnmatch.txt");
    let mut wrong = Vec::new();
    for line in table.lines() {
        let [pattern, text, hit] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if matches(pattern, text) != (hit == "1") {
            wrong.push(line);
        }
    }
    assert!(table.lines().count() >= 8000);
    assert!(wrong.is_empty(), "{} lines differ, e.g. {:?}", wrong.len(), &wrong[..wrong.len().min(10)]);
}

#[test]
fn names_and_patterns() {
    for (pattern, yes, no) in [
        ("a.b", &["a.b"][..], &["a", "a.b.c", "A.b", "ab", "xa.b"][..]),
        ("a.*", &["a.b", "a.*"], &["a", "a.b.c"]),
        ("*.b", &["a.b"], &["b", "a.b.b"]),
        ("a?c", &["abc", "aéc", "a世c"], &["ac", "abbc"]),
        ("[é-ü]x", &["éx", "ôx"], &["ex", "x"]),
        ("[^x]", &["^", "x"], &["a"]),
        ("[!x]", &["a", "^", "!"], &["x", ""]),
        ("a[b", &["a[b"], &["ab"]),
        ("a.[b.c]", &["a.[b.c]"], &["a.b", "a.c"]),
        ("a.{b,c}.d", &["a.b.d", "a.c.d"], &["a.{b,c}.d", "a.d"]),
        ("a.{b,{c,d}e}", &["a.b", "a.ce", "a.de"], &["a.c", "a.be"]),
        ("a{,b}", &["a", "ab"], &["a{", "a,b"]),
        // As in Graphite's finder, an empty component does not count.
        ("a.{b,}.c", &["a.b.c", "a.c"], &["a..c"]),
        ("a..b", &["a.b"], &["a.x.b"]),
        (".a.", &["a"], &[]),
        ("{a.b,c}.d", &["a.b.d", "c.d"], &["a.d", "b.d"]),
        ("{a.*,c}.d", &["a.x.d", "c.d"], &["a.d"]),
        ("a{b.c", &["a{b.c"], &["ab.c"]),
        ("a.b}", &["a.b}"], &["a.b"]),
        ("{a}", &["a"], &["{a}"]),
        ("a.**", &["a.b", "a.b.c"], &["a", "b.a"]),
        ("**", &["a", "a.b.c"], &[]),
        ("**.b", &["b", "a.b", "a.a.b"], &["a", "b.a"]),
        ("a.**.b", &["a.b", "a.x.b", "a.x.y.b", "a.b.b"], &["b", "a", "a.b.x"]),
        ("a.**.**.b", &["a.b", "a.x.b"], &["a"]),
        ("**.x.**", &["x.a", "b.x.a", "x.x"], &["x", "a.x"]),
        ("a**b", &["ab", "axb"], &["a.b"]),
        ("{**,a}.b", &["b", "x.y.b"], &["a"]),
        (r"a\*", &["a*"], &["ab"]),
        (r"\{a,b\}", &["{a,b}"], &["a"]),
        (r"{a\,b,c}", &["a,b", "c"], &["a"]),
        (r"[\]]", &["]"], &["x"]),
        (r"[a\-z]", &["a", "-", "z"], &["b"]),
        (r"[\!a]", &["!", "a"], &["b"]),
        (r"\a", &[r"\a"], &["a"]),
        (r"a\\b", &[r"a\b"], &["ab"]),
        (r"a\.b", &["a.b"], &[]),
        (r"a\", &[r"a\"], &["a"]),
        (r"\*\*.a", &["**.a"], &["x.a"]),
        ("", &[], &["", "a"]),
        (".", &[], &["", "a"]),
    ] {
        for name in yes {
            assert!(matches(pattern, name), "{pattern} should match {name}");
        }
        for name in no {
            assert!(!matches(pattern, name), "{pattern} should not match {name}");
        }
    }
}

#[test]
fn alternatives_of_one_component_stay_one_path() {
    let pattern = Pattern::parse("a.{b,c*,{d,e}}.*").unwrap();
    let [path] = pattern.paths() else { panic!("{pattern:?}") };
    let Step::Component(second) = &path.steps()[1] else { panic!("{path:?}") };
    assert_eq!(second.literals(), ["b", "d", "e"]);
    assert_eq!(second.wildcards().len(), 1);
    assert_eq!(Pattern::parse("{a.b,c.d,e}").unwrap().paths().len(), 3);
}

#[test]
fn exact_names_are_known() {
    assert!(!has_glob("a.b-c"));
    assert!(!has_glob("a}.b]"));
    for text in ["a*", "a?", "a[", "{a", r"a\b"] {
        assert!(has_glob(text), "{text}");
    }
    assert_eq!(Pattern::parse(r"a.\*.b").unwrap().literal().as_deref(), Some("a.*.b"));
    assert_eq!(Pattern::parse("a.{b}").unwrap().literal().as_deref(), Some("a.b"));
    for text in ["a.{b,c}", "a.*", "a.**", "", "{a.b,c}"] {
        assert_eq!(Pattern::parse(text).unwrap().literal(), None, "{text}");
    }
}

#[test]
fn size_is_bounded() {
    let twos = "{a,b}".repeat(14);
    assert_eq!(Pattern::parse(&twos).unwrap_err(), GlobError::TooManyAlternatives);
    let dotted = "{a.a,b}.".repeat(14);
    assert_eq!(Pattern::parse(&dotted).unwrap_err(), GlobError::TooManyAlternatives);
    assert_eq!(Pattern::parse(&"{,}".repeat(64)).unwrap_err(), GlobError::TooManyAlternatives);
    let hosts = |count: usize| {
        let hosts: Vec<String> = (0..count).map(|n| format!("host-{n}")).collect();
        format!("servers.{{{}}}.load", hosts.join(","))
    };
    assert!(Pattern::parse(&hosts(10_000)).unwrap().matches("servers.host-77.load"));
    assert_eq!(Pattern::parse(&hosts(10_001)).unwrap_err(), GlobError::TooManyAlternatives);
    let long = format!("{{{}}}{}", vec!["a,b"; 1000].join(","), "x".repeat(200_000));
    assert_eq!(Pattern::parse(&long).unwrap_err(), GlobError::TooMuchText);
    assert_eq!(Pattern::parse(&"*.".repeat(200)).unwrap_err(), GlobError::TooDeep);
    assert_eq!(Pattern::parse(&"a".repeat(PATTERN_BYTES_MAX + 1)).unwrap_err(), GlobError::TooLong);
    // Deep nesting does not overflow the stack.
    let deep = format!("{}a{}", "{".repeat(100_000), "}".repeat(100_000));
    assert!(Pattern::parse(&deep).unwrap().matches("a"));
}

#[test]
fn stars_take_no_exponential_time() {
    let pattern = "*a".repeat(60) + "*b";
    assert!(!matches(&pattern, &"a".repeat(4000)));
    assert!(matches(&pattern, &("a".repeat(4000) + "b")));
    assert!(!matches(&"[".repeat(200_000), "a"));
}

/// Matches a wildcard by trying every possibility.
fn slow(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
        Some(('?', rest)) => !text.is_empty() && slow(rest, &text[1..]),
        Some((own, rest)) => text.first() == Some(own) && slow(rest, &text[1..]),
    }
}

/// Matches a whole name with `**` by trying every possibility.
fn slow_name(pattern: &[&str], name: &[&str]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((&"**", [])) => !name.is_empty(),
        Some((&"**", rest)) => (0..=name.len()).any(|skip| slow_name(rest, &name[skip..])),
        Some((part, rest)) => name.split_first().is_some_and(|(first, below)| {
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            slow(&characters(part), &characters(first)) && slow_name(rest, below)
        }),
    }
}

proptest! {
    #[test]
    fn every_text_is_read(text in any::<String>(), name in any::<String>()) {
        if let Ok(pattern) = Pattern::parse(&text) {
            pattern.matches(&name);
        }
    }

    #[test]
    fn wildcards_mean_what_they_mean(pattern in "[ab*?é]{1,8}", text in "[abé]{1,10}") {
        prop_assume!(pattern != "**");
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(matches(&pattern, &text), slow(&characters(&pattern), &characters(&text)));
    }

    #[test]
    fn levels_mean_what_they_mean(
        pattern in prop::collection::vec(prop::sample::select(&["a", "b", "*", "**", "a*"][..]), 1..6),
        name in prop::collection::vec(prop::sample::select(&["a", "b", "ab"][..]), 1..7),
    ) {
        prop_assert_eq!(matches(&pattern.join("."), &name.join(".")), slow_name(&pattern, &name));
    }

    /// Every name can be escaped into a pattern that matches only this name.
    #[test]
    fn backslashes_take_every_meaning(name in "[a*?\\[\\]{},!\\\\^-]{1,12}", other in "[a*?\\[\\]{},!\\\\^-]{1,12}") {
        let escaped = escaped(&name);
        prop_assert!(matches(&escaped, &name));
        prop_assert_eq!(matches(&escaped, &other), name == other);
    }
}
