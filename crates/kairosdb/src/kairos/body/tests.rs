use super::*;

/// Names, times and values of a body, and its refusals.
fn read(body: &str) -> (Vec<(String, u32, f64)>, Vec<String>) {
    let points = datapoints(body.as_bytes());
    let taken =
        points.points().iter().map(|p| (points.name(p.series).to_owned(), p.timestamp, p.value)).collect();
    (taken, points.refused().iter().map(|refused| refused.text.clone()).collect())
}

fn one(value: &str) -> Result<f64, String> {
    let (points, refused) =
        read(&format!(r#"{{"name":"m","tags":{{"h":"a"}},"datapoints":[[1500000000000,{value}]]}}"#));
    match (&points[..], &refused[..]) {
        ([(name, 1_500_000_000, value)], []) if name == "m;h=a" => Ok(*value),
        ([], [refusal]) => Err(refusal.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_of_all_kinds() {
    for (value, kept) in [
        ("1", Some(1.0)),
        ("2.5", Some(2.5)),
        ("\"3\"", Some(3.0)),
        ("\"4.0\"", Some(4.0)),
        ("1e3", Some(1000.0)),
        ("9223372036854775808", Some(9_223_372_036_854_775_808.0)),
        ("5,\"long\"", Some(5.0)),
        ("5,\"double\",7", Some(5.0)),
        ("\"hello\"", None),
        ("\"NaN\"", None),
        ("true", None),
        ("null", None),
        ("[]", None),
        ("\"x\",\"string\"", None),
        ("1,\"kairos_complex\"", None),
    ] {
        assert_eq!(one(value).ok(), kept, "{value}");
    }
    assert_eq!(one("null").unwrap_err(), "metric[0](name=m).datapoints[0].value may not be empty.");
    let points = datapoints(
        br#"{"name":"m","tags":{"h":1.0,"i":true,"j":2.5},"datapoints":[[1500000000000,"9223372036854775809"],["-99999999999999999999",1]]}"#,
    );
    assert_eq!((points.rounded, points.points().len(), points.count(Reason::Timestamp)), (1, 1, 1));
    assert_eq!(points.name(0), "m;h=1.0;i=true;j=2.5");
    let points = datapoints(
        br#"{"name":"m","tags":{"h":"a"},"ttl":5,"datapoints":[[1500000000001,9007199254740993]]}"#,
    );
    assert_eq!((points.cut, points.rounded, points.with_ttl), (1, 1, 1));
    // Whole numbers beyond 64 bits are handled like those in texts.
    let points = datapoints(
        br#"{"name":"m","tags":{"h":"a"},"datapoints":[[1000,18446744073709551617],[2000,-9223372036854775809],
           [3000,"18446744073709551617"],[4000,1e30],[5000,36893488147419103232]]}"#,
    );
    assert_eq!((points.rounded, points.points().len()), (3, 5));
}

#[test]
fn metrics_in_all_forms() {
    let m = |name: &str, time, value| (name.to_owned(), time, value);
    for (body, expected) in [
        (r#"{"name":"m","tags":{"a":"1"},"timestamp":1000,"value":1}"#, vec![m("m;a=1", 1, 1.0)]),
        (r#"{"value":"1","time":"1000","tags":{"a":1},"name":"m"} junk"#, vec![m("m;a=1", 1, 1.0)]),
        (r#"{"name":"m","tags":{"a":"1"},"time":1000,"timestamp":2000,"value":1}"#, vec![m("m;a=1", 1, 1.0)]),
        ("\u{feff}{\"name\":\"m\",\"tags\":{\"a\":\"1\"},\"datapoints\":[[0,1]]}", vec![m("m;a=1", 0, 1.0)]),
        (
            r#"{"datapoints":[[1000.9,1],[2000,2]],"tags":{"b":"x","a":"y"},"name":"m"}"#,
            vec![m("m;a=y;b=x", 1, 1.0), m("m;a=y;b=x", 2, 2.0)],
        ),
        (
            r#"[{"name":"m","tags":{"a":"1"},"datapoints":[[0,1]],"skip_validate":true,"x":[{}]},{"name":"n","tags":{"a":"1"},"datapoints":[[0,2]]}]"#,
            vec![m("m;a=1", 0, 1.0), m("n;a=1", 0, 2.0)],
        ),
        (
            r#"{"name":"m;\n","tags":{"name":"a=b"},"datapoints":[[0,1]]}"#,
            vec![m("m%3B%0A;%6Eame=a=b", 0, 1.0)],
        ),
        (r#"{"name":"m","tags":{"a":"1"},"datapoints":[],"ttl":"5"}"#, vec![]),
        (r#"{"name":"m","tags":{"a":"1"}}"#, vec![]),
        ("[]", vec![]),
    ] {
        assert_eq!(read(body), (expected, vec![]), "{body}");
    }
}

#[test]
fn what_is_refused_is_named() {
    for (body, text) in [
        ("", "EOF"),
        ("null", "invalid type: null"),
        ("\"x\"", "invalid type: string"),
        ("{\"name\":", "EOF"),
        (r#"{"tags":{"a":"1"},"datapoints":[[0,1]]}"#, "metric[0].name may not be empty."),
        (r#"{"name":"","tags":{"a":"1"},"datapoints":[[0,1]]}"#, "metric[0].name may not be empty."),
        (
            r#"{"name":"m","datapoints":[[0,1]]}"#,
            "metric[0](name=m).tags count must be greater than or equal to 1.",
        ),
        (r#"{"name":"m","tags":{},"datapoints":[[0,1]]}"#, "metric[0](name=m).tags count"),
        (
            r#"{"name":"m","tags":{"a":""},"datapoints":[[0,1]]}"#,
            "metric[0](name=m).tag[a].value may not be empty.",
        ),
        (
            r#"{"name":"m","tags":{"a":null},"datapoints":[[0,1]]}"#,
            "metric[0](name=m).tag[a].value may not be empty.",
        ),
        (
            r#"{"name":"m","tags":{"a":"1","a":"2"},"datapoints":[[0,1]]}"#,
            "metric[0](name=m).tag[a] has two values.",
        ),
        (
            r#"{"name":"m","tags":{"":"a"},"datapoints":[[0,1]]}"#,
            "metric[0](name=m).tag[].name may not be empty.",
        ),
        (r#"{"name":"m","tags":{"a":"1"},"datapoints":[[]]}"#, "metric[0](name=m).datapoints[0].needs a"),
        (r#"{"name":"m","tags":{"a":"1"},"datapoints":[[0]]}"#, "metric[0](name=m).datapoints[0].needs a"),
        (
            r#"{"name":"m","tags":{"a":"1"},"datapoints":[[-1,1]]}"#,
            "metric[0](name=m).datapoints[0].timestamp must not",
        ),
        (r#"{"name":"m","tags":{"a":"1"},"value":1}"#, "metric[0](name=m).timestamp is required"),
        (r#"{"name":"m","tags":{"a":"1"},"timestamp":1}"#, "metric[0](name=m).value is required"),
        (
            r#"{"name":"m","tags":{"a":"1"},"type":"x","datapoints":[[0,1]]}"#,
            "metric[0](name=m).type 'x' is not known.",
        ),
        (
            r#"{"name":"m","tags":{"a":"1"},"datapoints":[[0,1e999]]}"#,
            "metric[0](name=m).datapoints[0].value must be finite.",
        ),
        (
            r#"{"name":"m","tags":{"a":"1"},"datapoints":[[0,NaN]]}"#,
            "metric[0](name=m).datapoints[0].value must be a number",
        ),
    ] {
        let (points, refused) = read(body);
        assert!(points.is_empty(), "{body}");
        assert!(refused.len() == 1 && refused[0].starts_with(text), "{body}: {refused:?}");
    }
}

#[test]
fn good_points_of_a_bad_body_count() {
    let good = |name: &str| format!(r#"{{"name":"{name}","tags":{{"a":"1"}},"datapoints":[[0,1]]}}"#);
    let bad = r#"{"name":"b","tags":{"a":"1"},"datapoints":[[0,1],[0,"x"],[1000,2]]}"#;
    let (points, refused) = read(&format!("[{},{bad},{}]", good("a"), good("c")));
    assert_eq!(points.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), ["a;a=1", "b;a=1", "b;a=1", "c;a=1"]);
    assert_eq!(refused, ["metric[1](name=b).datapoints[1].value must be a number: text is not kept here."]);
    // Half a body: metrics that arrived completely are accepted, the metric that was cut off is not.
    let (points, refused) = read(&format!("[{},{}", good("a"), &good("b")[..45]));
    assert_eq!((points.len(), refused.len()), (1, 1));
}

#[test]
fn hostile_bodies_are_refused_in_little_memory() {
    let nested = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(read(&nested).0, []);
    let deep =
        format!(r#"{{"name":"m","x":{}1{},"tags":{{"a":"1"}}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(read(&deep).0, []);
    let tags: String = (0..200_000).map(|i| format!("\"t{i}\":\"v\",")).collect();
    let body = format!(r#"{{"name":"m","tags":{{{tags}"a":"1"}},"datapoints":[[0,1],[1,2]]}}"#);
    let points = datapoints(body.as_bytes());
    assert_eq!((points.points().len(), points.count(Reason::NameTooLong)), (0, 2));
    let body = format!(r#"{{"name":"{}","tags":{{"a":"1"}},"datapoints":[[0,1]]}}"#, "n".repeat(3 << 20));
    let points = datapoints(body.as_bytes());
    assert_eq!((points.points().len(), points.count(Reason::NameTooLong)), (0, 1));
    assert!(points.refused()[0].text.len() < 200);
    let many =
        format!(r#"{{"name":"m","tags":{{"a":"1"}},"datapoints":[{}[0,1]]}}"#, "[0,\"x\"],".repeat(5000));
    let points = datapoints(many.as_bytes());
    assert_eq!((points.points().len(), points.refused().len(), points.refused_len()), (1, 100, 5000));
}

/// The numbers as Python's `json.dumps` writes values that are not finite.
#[test]
fn numbers_that_json_does_not_have_cost_no_other_point() {
    let (points, refused) = read(
        r#"[{"name":"NaN","tags":{"h":"a"},"datapoints":[[1000,1],[2000,NaN],[3000,-Infinity],[4000,1e999],[5000,2]]},
            {"name":"b","tags":{"h":"a"},"timestamp":1000,"value":Infinity},null,
            {"name":"c","tags":{"h":"a"},"timestamp":1000,"value":3}]"#,
    );
    let of = |name: &str, time: u32, value: f64| (name.to_owned(), time, value);
    assert_eq!(points, [of("NaN;h=a", 1, 1.0), of("NaN;h=a", 5, 2.0), of("c;h=a", 1, 3.0)]);
    let starts = ["datapoints[1].value", "datapoints[2].value", "datapoints[3].value"];
    let mut starts = Vec::from(starts.map(|start| format!("metric[0](name=NaN).{start}")));
    starts.extend(["metric[1](name=b).value".to_owned(), "entry 2 of the array is null".to_owned()]);
    assert_eq!(refused.len(), starts.len(), "{refused:?}");
    for (refused, start) in refused.iter().zip(&starts) {
        assert!(refused.starts_with(start.as_str()), "{refused}");
    }
}

/// Some languages write an empty list as null.
#[test]
fn null_costs_no_other_point() {
    let (points, refused) = read(
        r#"[{"name":"a","tags":{"h":"a"},"datapoints":null},
            {"name":"b","tags":{"h":"a"},"datapoints":[[1000,1],null,[2000,2]]}]"#,
    );
    assert_eq!(points, [("b;h=a".to_owned(), 1, 1.0), ("b;h=a".to_owned(), 2, 2.0)]);
    assert_eq!(refused, ["metric[1](name=b).datapoints[1].needs a timestamp and a value."]);
}
