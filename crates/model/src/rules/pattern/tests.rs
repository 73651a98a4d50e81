use proptest::prelude::*;

use super::*;

fn check(pattern: &str, matching: &[&str], others: &[&str]) {
    let compiled = Pattern::new(pattern).unwrap();
    for text in matching {
        assert_eq!(compiled.is_match(text), Some(true), "{pattern} in {text}");
    }
    for text in others {
        assert_eq!(compiled.is_match(text), Some(false), "{pattern} in {text}");
    }
}

#[test]
fn beginnings() {
    let of = |pattern: &str| Pattern::new(pattern).unwrap().beginnings();
    let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(of("^(a.*)"), texts(&["a"]));
    assert_eq!(of("^((web|db)-[12]$)"), texts(&["web-1", "web-2", "db-1", "db-2"]));
    assert_eq!(of("^(\u{e4}|x?y)"), texts(&["\u{e4}", "xy", "y"]));
    for unknown in ["a", "^a|b", "^(.*b)", "^(?=a)", "(?:^a|)b"] {
        assert_eq!(of(unknown), None, "{unknown}");
    }
}

/// The results are those of `re.sub` since Python 3.7.
#[test]
fn replacing() {
    for (pattern, text, replaced) in [
        ("a", "banana", "b<a>n<a>n<a>"),
        (".*", "abc", "<abc><>"),
        ("x*", "abxd", "<>a<>b<x><>d<>"),
        ("^", "ab", "<>ab"),
        ("$", "ab", "ab<>"),
        ("(?<=b)", "\u{e4}b\u{e4}", "\u{e4}b<>\u{e4}"),
        ("z", "ab", "ab"),
        ("x*", "", "<>"),
        // After an empty match, a longer one may begin at the same character.
        ("|a", "aba", "<><a><>b<><a><>"),
        ("x*|b", "abxb", "<>a<><b><x><><b><>"),
        (r"(?=a)|a(?!b)", "aab", "<><a><>ab"),
    ] {
        let with = |out: &mut String, group: &dyn Fn(usize) -> &'static str| {
            out.push('<');
            out.push_str(group(0));
            out.push('>');
        };
        let compiled = Pattern::new(pattern).unwrap();
        assert_eq!(compiled.replace_all(text, with).as_deref(), Some(replaced), "{pattern} in {text}");
    }
}

#[test]
fn python_spellings() {
    check(r"\Aa\Z", &["a"], &["ab", "ba"]);
    check(r"a{,2}b", &["b", "aab"], &["a"]);
    check(r"^a{2}$", &["aa"], &["a", "a{2}"]);
    check(r"x{a}", &["x{a}"], &["xa"]);
    check(r"[[]", &["["], &["a"]);
    check(r"[]a]", &["]", "a"], &["b"]);
    check(r"[^]a]", &["b"], &["]a"]);
    check(r"^[a&&b]$", &["a", "&", "b"], &["c"]);
    check(r"^[+--]$", &["+", ",", "-"], &["."]);
    check(r"^[\w-]+$", &["a-b"], &["a.b"]);
    check(r"\<a\>", &["<a>"], &["a"]);
    check(r"a(?#no, really)b", &["ab"], &["a"]);
    check(r"(?i)CPU", &["cpu"], &["cup"]);
    check(r"(?P<x>a)(?P=x)", &["aa"], &["ab"]);
    check(r"^\101\0$", &["A\0"], &["101"]);
    check(r"^[\61\7]$", &["1", "\u{7}"], &["6"]);
}

#[test]
fn possessive_quantifiers() {
    check(r"^a*+a", &[], &["aaa"]);
    check(r"^a++b", &["aab"], &["aac"]);
    check(r"^[a-c]?+b$", &["ab"], &["b"]);
    check(r"^(?:ab){1,2}+ab$", &["ababab"], &["abab"]);
    check(r"^\++$", &["+", "++"], &[]);
    check(r"^(?>a|ab)c", &["ac"], &["abc"]);
}

#[test]
fn ascii_classes() {
    check(r"(?a)^\w+$", &["a_9"], &["\u{e4}"]);
    check(r"(?a)^[\w.]+$", &["a.9"], &["\u{e4}"]);
    check(r"(?a)^[^\W]$", &["a"], &["\u{e4}", "."]);
    check(r"(?a)^\d\s\S\D$", &["1 \u{e4}\u{e4}"], &["\u{663} ab"]);
    check(r"(?ai)^A\W$", &["a\u{e4}"], &["ab"]);
    check(r"^(?a:\w)\w$", &["a\u{e4}"], &["\u{e4}a"]);
    check(r"(?a)^.\bb\B.$", &["\u{e4}bb"], &["abb", "\u{e4}b\u{e4}"]);
    check(r"(?u)^\w$", &["\u{e4}"], &["."]);
}

#[test]
fn look_around_and_back_references() {
    check(r"^(?!carbon\.)", &["servers.a"], &["carbon.a"]);
    check(r"(?<!\.5)\.max$", &["a.max"], &["a.5.max"]);
    check(r"^(\w+)\.\1\.", &["a.a.b"], &["a.b.b"]);
}

#[test]
fn replacing_what_was_found() {
    for (pattern, text, expected) in [
        (r"(\w+)\.(\w+)", "a.b.c.d", "<b><a>.<d><c>"),
        (r"(?P<x>a)(b)?", "a.c", "<><a>.c"),
        (r"(?<=\.)(a)(b)", "ab.ab", "ab.<b><a>"),
        (r"x(y)(z)", "a.b", "a.b"),
        (r"^()()", "a", "<><>a"),
    ] {
        let pattern = Pattern::new(pattern).unwrap();
        let replaced = pattern.replace_all(text, |out, group| {
            out.push_str(&format!("<{}><{}>", group(2), group(1)));
        });
        assert_eq!(replaced.as_deref(), Some(expected), "{text}");
        assert_eq!(pattern.groups(), 3);
    }
    assert_eq!(Pattern::new(r"(a)(?P<x>b)").unwrap().group("x"), Some(2));
    let slow = Pattern::new(r"^((a|aa)*)*\1b$").unwrap();
    assert_eq!(slow.replace_all(&("a".repeat(40) + "c"), |_, _| {}), None);
}

#[test]
fn what_python_refuses() {
    for pattern in ["*.cpu", "(", "[a", "a)", r"(?P=x)", r"\"] {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn a_pattern_that_explodes_gives_up() {
    let pattern = Pattern::new(r"^((a|aa)*)*\1b$").unwrap();
    assert_eq!(pattern.is_match(&("a".repeat(40) + "c")), None);
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(pattern in "[\\[\\]\\\\(){}^$.*+?|&~a-c0-9,#:!<=P-]{0,24}", name in "[a-c.]{0,8}") {
        if let Ok(compiled) = Pattern::new(&pattern) {
            compiled.is_match(&name);
        }
    }

    #[test]
    fn the_first_match_is_what_a_loop_finds(picks in prop::collection::vec(0usize..8, 0..8), name in "[a-c.]{0,8}") {
        let all = ["a", "^b", "c$", ".*", r"(?!a)b", r"(\w)\1", r"\.", "[^a]"];
        let patterns: Vec<Pattern> = picks.iter().map(|i| Pattern::new(all[*i]).unwrap()).collect();
        let expected = patterns.iter().position(|p| p.is_match(&name) == Some(true));
        prop_assert_eq!(FirstMatch::new(patterns).unwrap().find(&name), expected);
    }
}
