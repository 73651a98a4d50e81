use super::*;
use crate::config::Config;

fn relabel(blacklist: &str, whitelist: &str, rewrite_rules: &str) -> Relabel {
    let (relabel, problems) = Relabel::parse(blacklist, whitelist, rewrite_rules);
    assert_eq!(problems, [const { Vec::new() }; 3]);
    relabel
}

#[test]
fn lists_search_and_the_blacklist_is_asked_first() {
    let lists = relabel("# no\n\n^test\\.\n  debug  \n", "^test\\.\n^prod\\.(?!secret)\n", "");
    for (name, expected) in [
        ("prod.a", Ok("prod.a")),
        ("test.a", Err(Reject::Blacklist)),
        ("prod.debug.a", Err(Reject::Blacklist)),
        ("prod.secret", Err(Reject::Whitelist)),
        ("other", Err(Reject::Whitelist)),
    ] {
        assert_eq!(lists.apply(name).as_deref(), expected.as_ref().copied(), "{name}");
    }
    // An empty whitelist accepts every name.
    assert!(relabel("", "# nothing\n", "").is_empty());
    assert_eq!(relabel("x", "", "").apply("a").as_deref(), Ok("a"));
}

/// The expected results are those of Python's `re.sub`.
#[test]
fn rules_replace_as_python_does() {
    for (rule, name, expected) in [
        (r"^collectd\.([^.]+)\. = hosts.\1.", "collectd.web01.cpu", "hosts.web01.cpu"),
        (r"_ = .", "a_b_c", "a.b.c"),
        (r"^ = prefix.", "a", "prefix.a"),
        (r"(\w+)\.(\w+) = \2.\1", "a.b.c.d", "b.a.d.c"),
        (r"(?P<host>\w+)\.x = \g<host>.\g<1>", "web.x", "web.web"),
        (r"a(b)? = [\1]", "a.ab", "[].[b]"),
        (r"a = $1", "a", "$1"),
        (r"a = \\\.", "a", r"\\."),
        (r"(?<!x)cpu\d+$ = cpu", "a.cpu12", "a.cpu"),
        (r"a =", "banana", "bnn"),
        (r"a = b=c", "a", "b=c"),
    ] {
        let rules = relabel("", "", &format!("[pre]\n{rule}\n"));
        assert_eq!(rules.apply(name).as_deref(), Ok(expected), "{rule}");
    }
}

#[test]
fn rules_apply_in_order_pre_before_post() {
    let rules = relabel("", "", "[post]\nb = c\n[PRE]\n# first\na = b\n\nx = a\n");
    assert_eq!(rules.apply("ax").as_deref(), Ok("ca"));
    assert!(matches!(rules.apply("yyy"), Ok(Cow::Borrowed("yyy"))));
}

#[test]
fn names_do_not_grow_without_end() {
    let doubling = "(.+) = \\1\\1\n".repeat(40);
    assert_eq!(relabel("", "", &format!("[pre]\n{doubling}")).apply("a"), Err(Reject::NameTooLong));
}

#[test]
fn a_pattern_that_explodes_refuses_the_point() {
    let slow = r"^((a|aa)*)*\1b$";
    let name = "a".repeat(40) + "c";
    assert_eq!(relabel(slow, "", "").apply(&name), Err(Reject::Rule));
    assert_eq!(relabel("", "", &format!("[pre]\n{slow} = x")).apply(&name), Err(Reject::Rule));
}

#[test]
fn every_problem_is_reported_with_its_line() {
    let rules =
        "a = b\n[pre]\n( = x\nno equals sign\na = \\1\n[aggregate]\n(a) = \\g<x>\n[post]\na = \\q\na = \\\n";
    let (_, [blacklist, whitelist, rewrite_rules]) = Relabel::parse("ok\n(\n*", "[", rules);
    let lines = |problems: &[(usize, String)]| problems.iter().map(|(line, _)| *line).collect::<Vec<_>>();
    assert_eq!(lines(&blacklist), [2, 3]);
    assert_eq!(lines(&whitelist), [1]);
    assert_eq!(lines(&rewrite_rules), [1, 3, 4, 5, 6, 7, 9, 10], "{rewrite_rules:?}");
}

#[test]
fn a_reload_with_a_bad_file_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let config = Config { blacklist: file("black"), whitelist: file("white"), ..Config::default() };
    std::fs::write(&config.blacklist, "^a\n").unwrap();
    std::fs::write(&config.whitelist, "").unwrap();
    let rules = Rules::load(config.rule_files()).unwrap();
    let outcome = |name: &str| rules.current().apply(name).map(Cow::into_owned);

    std::fs::write(&config.blacklist, "^b\n").unwrap();
    std::fs::write(&config.whitelist, "^c\n(\n").unwrap();
    let error = rules.reload(config.rule_files()).unwrap_err();
    assert!(error.to_string().contains("white:2: pattern \"(\""), "{error}");
    assert_eq!(outcome("a"), Err(Reject::Blacklist));
    assert_eq!(outcome("b"), Ok("b".to_owned()));

    std::fs::write(&config.whitelist, "^c\n").unwrap();
    rules.reload(config.rule_files()).unwrap();
    assert_eq!(outcome("b"), Err(Reject::Blacklist));
    assert_eq!(outcome("a"), Err(Reject::Whitelist));

    std::fs::remove_file(&config.blacklist).unwrap();
    assert!(rules.reload(config.rule_files()).unwrap_err().to_string().contains("black"));
    assert_eq!(outcome("b"), Err(Reject::Blacklist));
    assert!(Rules::load(config.rule_files()).is_err());
    let config = Config { blacklist: String::new(), ..config };
    rules.reload(config.rule_files()).unwrap();
    assert_eq!(outcome("b"), Err(Reject::Whitelist));
}
