use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const TABLE: &str = include_str!("../../testdata/targets.json");

/// Deliberate differences to graphite-web, which cuts these targets short or refuses them. An expected error is
/// its text, an expected tree its JSON.
fn differences() -> Vec<(&'static str, Result<Value, &'static str>)> {
    let path = |path: &str| json!(["path", path]);
    let call = |args: Value| Ok(json!(["call", "f", args, []]));
    vec![
        ("f(", Err("the text ends where a path or a function was expected at character 3")),
        ("sumSeries(a", Err("expected , or ) in the arguments of sumSeries at character 12")),
        ("a.b.c junk", Err("unexpected 'j' after the end of the expression at character 7")),
        ("a..b", Err("empty path component at character 3")),
        ("a,b", Err("unexpected ',' after the end of the expression at character 2")),
        ("f(a,)", Err("unexpected ')', expected a path or a function at character 5")),
        ("f(a,,b)", Err("unexpected ',', expected a path or a function at character 5")),
        ("f(a b)", Err("expected , or ) in the arguments of f at character 5")),
        ("f(a, .5)", Err("empty path component at character 6")),
        ("f(a, 5.)", Err("empty path component at character 8")),
        ("f(inf.a)", call(json!([path("inf.a")]))),
        ("f(true.a)", call(json!([path("true.a")]))),
        ("f(a, \"x", Err("this string is not closed at character 6")),
        ("f(a, \"x')", Err("this string is not closed at character 6")),
        ("f(key=1)", Ok(json!(["call", "f", [], [["key", ["integer", 1]]]]))),
        ("f(a, key=1, b)", Err("a positional argument after a keyword argument at character 13")),
        ("f(a=b)", Ok(json!(["call", "f", [], [["a", ["path", "b"]]]]))),
        ("a|b", Err("expected a function call after | at character 3")),
        ("a|", Err("expected a function call after | at character 3")),
        ("a\\ b", Err("a backslash escapes one of ( ) { } , . ' \" \\ | = at character 2")),
        ("a\\xb", Err("a backslash escapes one of ( ) { } , . ' \" \\ | = at character 2")),
        ("a.{b,{c,d}}", Ok(path("a.{b,{c,d}}"))),
        ("a.{b,}", Ok(path("a.{b,}"))),
        ("a.{b, c}", Ok(path("a.{b,c}"))),
        ("a.{b,c.d}", Ok(path("a.{b,c.d}"))),
        ("a.{b", Err("this brace is not closed at character 3")),
        ("a.b}", Err("unexpected '}' after the end of the expression at character 4")),
        ("template(a.$1, b)", Err("template() parameters are strings or numbers at character 16")),
        ("template(a, x=b)", Err("template() parameters are strings or numbers at character 15")),
        (
            "template(a.$1.$x, \"b\", x=\"c\")",
            Err(
                "template() takes a path or a call, then either positional or keyword parameters at character 1",
            ),
        ),
        ("1f(a)", Err("unexpected '(' after the end of the expression at character 3")),
        ("f-g(a)", Err("unexpected '(' after the end of the expression at character 4")),
        ("f((a))", Err("unexpected '(', expected a path or a function at character 3")),
        ("a'b", Err("unexpected '\\'' after the end of the expression at character 2")),
        ("f(a'b')", Err("expected , or ) in the arguments of f at character 4")),
    ]
}

#[test]
fn targets_are_read_as_graphite_web_reads_them() {
    let table: Vec<Value> = serde_json::from_str(TABLE).unwrap();
    let differences = differences();
    let mut wrong = Vec::new();
    for row in &table {
        let text = row["target"].as_str().unwrap();
        let ours = parse(text).map(|target| tree(&target.expr)).map_err(|error| error.to_string());
        let right = match differences.iter().find(|(target, _)| *target == text) {
            Some((_, expected)) => ours == expected.clone().map_err(str::to_owned),
            None if row["tree"].is_null() => ours.is_err(),
            None => ours.as_ref() == Ok(&row["tree"]),
        };
        if !right {
            wrong.push(format!("{text:?}\n    ours {ours:?}\n    Graphite's {}", row["tree"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (text, _) in differences {
        assert!(table.iter().any(|row| row["target"] == text), "{text} is not in the table");
    }
}

fn tree(expr: &Expr) -> Value {
    match &expr.kind {
        ExprKind::Path(path) => json!(["path", path]),
        ExprKind::Literal(literal) => constant(literal),
        ExprKind::Call { name, args, kwargs } => {
            let args: Vec<Value> = args.iter().map(tree).collect();
            let kwargs: Vec<Value> = kwargs.iter().map(|(key, value)| json!([key, tree(value)])).collect();
            json!(["call", name, args, kwargs])
        }
        ExprKind::Template { body, params } => {
            let params: Vec<Value> =
                params.iter().map(|(key, value)| json!([key, constant(value)])).collect();
            json!(["template", tree(body), params])
        }
    }
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Integer(number) => json!(["integer", number]),
        Literal::Float(number) if number.is_infinite() => json!(["inf"]),
        Literal::Float(number) => json!(["float", number]),
        Literal::String(text) => json!(["string", text]),
        Literal::Boolean(value) => json!(["boolean", value]),
        Literal::None => json!(["none"]),
    }
}

#[test]
fn nesting_and_length_have_limits() {
    let nested = |levels| format!("{}a{}", "f(".repeat(levels), ")".repeat(levels));
    assert!(parse(&nested(TARGET_DEPTH_MAX)).is_ok());
    let error = parse(&nested(TARGET_DEPTH_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "calls are nested deeper than 64 at character 131");
    assert!(parse(&nested(100_000)).is_err());

    assert!(parse(&format!("a{}", "|f()".repeat(TARGET_DEPTH_MAX - 1))).is_ok());
    assert!(parse(&format!("a{}", "|f()".repeat(TARGET_DEPTH_MAX + 1))).is_err());
    let pipes_in_pipes = (0..40).fold("a".to_owned(), |inner, _| format!("a|f({inner})|f()|f()"));
    assert!(parse(&pipes_in_pipes).is_err());

    assert!(parse(&"a".repeat(TARGET_BYTES_MAX + 1)).unwrap_err().reason.contains("longer than"));
    assert!(parse(&format!("a.{}", "{".repeat(100_000))).is_err());
}

#[test]
fn the_raw_text_of_a_call_is_kept() {
    let target = parse("sum( seriesByTag( 'a=b' ,\"c!=~d\" ) )").unwrap();
    let ExprKind::Call { args, .. } = &target.expr.kind else { panic!("{target:?}") };
    assert_eq!(&target.text[args[0].span.clone()], "seriesByTag( 'a=b' ,\"c!=~d\" )");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn text_like_targets_is_read_or_refused(text in r#"[abf.{}(),|"'\\=$ 15emé-]{0,60}"#) {
        crate::fuzzing::target(text.as_bytes());
    }

    #[test]
    fn paths_come_back_as_they_are(path in r"[a-z*?\[\]!;=:$é][a-z0-9*?\[\]!;=:$é-]{0,8}(\.[a-z0-9*?\[\]!:$é-]{1,8}){0,4}") {
        let target = parse(&path).unwrap();
        prop_assert_eq!(target.expr.kind, ExprKind::Path(path));
    }
}
