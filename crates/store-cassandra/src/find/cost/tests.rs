use super::*;

fn term(text: &str) -> (Term, f64) {
    let (term, rows) = text.split_once(' ').unwrap();
    let test = match term.strip_suffix('*') {
        Some(prefix) => Test::Begins(prefix.to_owned()),
        None => Test::Is(term.to_owned()),
    };
    let level = |text: &str| ["dc", "rack", "host", "cpu"].iter().position(|kind| text.starts_with(kind));
    let component = (!term.contains('.')).then_some(level(term).unwrap_or(4));
    (Term { component, test }, rows.parse().unwrap())
}

fn chosen(all: f64, terms: &[&str]) -> Vec<String> {
    let terms: Vec<(Term, f64)> = terms.iter().map(|text| term(text)).collect();
    let count = |wanted: &Term| terms.iter().find(|(term, _)| term == wanted).map(|(_, rows)| *rows);
    let chosen = choose(terms.iter().map(|(term, _)| term), count, all).unwrap();
    chosen
        .into_iter()
        .map(|term| match term.test {
            Test::Is(text) => text,
            Test::Begins(text) => text + "*",
        })
        .collect()
}

#[test]
fn long_lists_are_left_out() {
    // 200,000 names, 100 for each host. On a real server this choice was twice as fast as a query with all
    // terms.
    let wide = ["dc1 50000", "rack0* 100000", "host00* 10000", "cpu 40000", "3 50000", "m3 40000"];
    assert_eq!(chosen(200_000.0, &wide), ["host00*", "cpu", "m3", "dc1"]);
    let wide = ["dc1 50000", "host0* 100000", "cpu 40000", "3 50000", "m3 40000"];
    assert_eq!(chosen(200_000.0, &wide), ["cpu", "m3", "dc1", "3"]);
}

#[test]
fn the_end_makes_the_server_look_up() {
    let terms = ["dc1 50000", "host001* 1000", "cpu 40000", "m3 40000", "__END__ 200000"];
    assert_eq!(chosen(200_000.0, &terms), ["host001*", "cpu", "m3", "dc1", "__END__"]);
    // No large list is added if lookups are used without it, or if it would not cause them.
    let terms = ["dc1 50000", "host0009 400", "__END__ 200000"];
    assert_eq!(chosen(200_000.0, &terms), ["host0009", "dc1"]);
    let terms = ["dc1 50000", "host00* 3000", "cpu 40000", "__END__ 200000"];
    assert_eq!(chosen(200_000.0, &terms), ["host00*", "cpu"]);
}

#[test]
fn a_parent_stands_for_its_components() {
    let terms = [
        "dc1.rack02.* 1300",
        "rack02 5000",
        "dc1 25000",
        "cpu 20000",
        "3 25000",
        "m3 20000",
        "__END__ 100000",
    ];
    assert_eq!(chosen(100_000.0, &terms), ["dc1.rack02.*", "cpu", "m3"]);
    let terms = ["dc1.rack02.* 90000", "rack02 5000", "dc1 95000", "cpu 20000", "m3 20000"];
    assert_eq!(chosen(100_000.0, &terms), ["rack02", "cpu", "m3"]);
}

#[test]
fn one_that_narrows_is_enough() {
    assert_eq!(chosen(200_000.0, &["x.y.z. 10", "cpu 50000", "x* 100000"]), ["x.y.z."]);
    assert_eq!(chosen(200_000.0, &["nothing 0", "dc1 50000"]), ["nothing"]);
    assert_eq!(chosen(0.0, &["nothing 0", "dc1 0"]).len(), 1);
}

#[test]
fn nothing_is_chosen_before_all_are_counted() {
    let known = term("a 1").0;
    let other = term("b 1").0;
    let count = |wanted: &Term| (*wanted == known).then_some(1.0);
    assert_eq!(choose([&known, &other].into_iter(), count, 10.0), None);
    assert_eq!(choose([].into_iter(), count, 10.0), None);
}
