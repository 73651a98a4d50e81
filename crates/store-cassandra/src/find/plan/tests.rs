use proptest::prelude::*;

use super::*;

fn queries(glob: &str) -> Vec<String> {
    let planned = plan(&Pattern::parse(glob).unwrap(), 64);
    planned
        .iter()
        .map(|query| {
            let mut text = query.text("k", "t").replace("SELECT name, token(name) FROM \"k\".\"t\"", "");
            for before in [" AND", " WHERE"] {
                text = text.replace(&format!("{before} token(name) >= ? AND token(name) <= ?"), "");
            }
            for value in query.values() {
                text = text.replacen('?', &value, 1);
            }
            text.trim().replace(" ALLOW FILTERING", "")
        })
        .collect()
}

#[test]
fn queries_are_few_and_narrow() {
    for (glob, wanted) in [
        ("a.b.c", vec!["WHERE name = a.b.c"]),
        ("*", vec!["WHERE parent = ."]),
        ("a.*", vec!["WHERE parent = a."]),
        ("a.b*c", vec!["WHERE parent = a. AND component_1 LIKE b%"]),
        ("a.*.c", vec!["WHERE component_0 = a AND component_2 = c"]),
        ("a.b.*.d", vec!["WHERE parent LIKE a.b.% AND component_3 = d"]),
        ("*.*", vec!["WHERE component_2 = __END__"]),
        ("a.*.*", vec!["WHERE component_0 = a AND component_3 = __END__"]),
        ("a.{b,c}.*", vec!["WHERE parent = a.b.", "WHERE parent = a.c."]),
        ("a.{b,c}.d", vec!["WHERE name = a.b.d", "WHERE name = a.c.d"]),
        ("a.b.**", vec!["WHERE component_0 = a AND component_1 = b"]),
        ("**", vec![""]),
        ("**.*", vec![""]),
        ("", vec![]),
        // BigGraphite misses names with each of these globs.
        ("foo.{bar*,bli}", vec!["WHERE name = foo.bli", "WHERE parent = foo. AND component_1 LIKE bar%"]),
        ("{{a,b}c,d}", vec!["WHERE name = ac", "WHERE name = bc", "WHERE name = d"]),
        (r"a.\*.c", vec!["WHERE name = a.*.c"]),
        // A comma outside braces is plain text.
        ("a,b.c", vec!["WHERE name = a,b.c"]),
        // A leading % would turn the prefix into another kind of search.
        ("a.%x*.c", vec!["WHERE component_0 = a AND component_2 = c"]),
        ("a.%x.*", vec!["WHERE parent = a.%x."]),
        ("%x.**.*", vec!["WHERE component_0 = %x"]),
    ] {
        assert_eq!(queries(glob), wanted, "{glob}");
    }
}

#[test]
fn many_alternatives_are_widened() {
    let hosts: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let glob = format!("srv{{{}}}-x.cpu", hosts.join(","));
    assert_eq!(queries(&glob), ["WHERE component_0 LIKE srv% AND component_1 = cpu"]);
    let glob = format!("*.{{{}}}.cpu", hosts.join(","));
    assert_eq!(queries(&glob), ["WHERE component_2 = cpu"]);
}

#[test]
fn every_depth_of_a_globstar_is_asked_for() {
    let all = queries("**.x.**.last");
    assert!(
        all.contains(&"WHERE component_1 = last".to_owned())
            && all.contains(&"WHERE component_62 = last".to_owned())
    );
    assert_eq!(all.len(), 62);
    let all = queries("a.**.{b,c,d,e,f}");
    assert!(all.len() <= 62 * 5, "{}", all.len());
}

/// Whether the row of `name` satisfies all terms of a query, including those not in the statement, as the
/// server evaluates them: `=` or `LIKE 'x%'`, on values short enough for SASI.
fn holds(query: &Query, name: &str) -> bool {
    let terms = match query {
        Query::All => return true,
        Query::Name(wanted) => return wanted == name,
        Query::Terms(terms) => terms,
    };
    let row = names::tree_row(name);
    terms.every().all(|term| {
        let Some(value) = row.get(term.component.map_or(1, |n| n + 2)) else { return false };
        let indexed = value.len() < 1024;
        match &term.test {
            Test::Is(text) => indexed && text == value,
            Test::Begins(text) => indexed && !text.starts_with('%') && value.starts_with(text.as_str()),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn queries_never_miss_a_name(
        glob in r"([ab%]|\*|\*\*|\?|\[ab\]|\[!a\]|\{a,b\*,\}|\{ab,ba.a\}|\\|\.|_|,){1,12}",
        names in prop::collection::vec("[ab%_]{1,3}(\\.[ab%_]{1,3}){0,4}", 1..20),
    ) {
        let Ok(pattern) = Pattern::parse(&glob) else { return Ok(()) };
        let planned = plan(&pattern, 12);
        for name in names.iter().filter(|name| pattern.matches(name)) {
            prop_assert!(planned.iter().any(|query| holds(query, name)), "{name} by {glob}: {planned:?}");
        }
    }
}
