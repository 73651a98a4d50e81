//! Entry points for fuzzers. They accept any bytes and assert what must always hold.

use crate::point::Points;
use crate::{kairos, opentsdb};

/// Reads the bytes as bodies of points.
pub fn bodies(data: &[u8]) {
    check(&kairos::datapoints(data));
    check(&opentsdb::put(data));
}

/// Reads the bytes as lines of port 4242.
pub fn lines(data: &[u8]) {
    let mut lines = opentsdb::Lines::default();
    for line in String::from_utf8_lossy(data).lines() {
        if let Ok(opentsdb::Line::Put(put)) = lines.read(line) {
            assert!(put.value.is_finite());
            assert_eq!(plumbago_model::sanitize(lines.name()).as_deref(), Ok(lines.name()), "{line}");
        }
    }
}

/// Reads the bytes as queries of OpenTSDB, as a body and as a query string, and answers them over a few series.
pub fn opentsdb_queries(data: &[u8]) {
    use opentsdb::{Query, answer};

    use crate::kairos::Amount;
    const NOW_MS: i64 = 1_500_000_000_000;
    let text = String::from_utf8_lossy(data);
    let pairs = || text.split('&').filter_map(|pair| pair.split_once('='));
    let _ = opentsdb::Lookup::parse(&text, None).map(|lookup| lookup.answer(&["m;a=1".to_owned()], 0));
    let _ = opentsdb::Lookup::parse_body(data);
    for query in [Query::parse(data, NOW_MS), Query::parse_pairs(pairs(), NOW_MS)].into_iter().flatten() {
        let mut most = answer::Most { buckets: 10_000, steps: 100_000 };
        for (at, sub) in query.subs.iter().enumerate() {
            let (from, until) = query.scan(sub);
            assert!(from * 1000 <= query.start_ms && query.end_ms < until * 1000, "{from} {until} {query:?}");
            let points = |step: i64| {
                (0..20).map(|at| (query.end_ms - at * step, Amount::from(at as f64))).rev().collect()
            };
            let column = |name: &str, step| answer::Column { name: name.to_owned(), points: points(step) };
            let columns = vec![column("m;a=1", 7_000), column("m;a=2;b=3", 3_600_000), column("m", 1000)];
            if let Ok(results) = answer::results(&query, at, columns, &mut most) {
                let whole = answer::whole(&[results]);
                assert!(serde_json::from_str::<serde_json::Value>(&whole).is_ok(), "{whole}");
            }
        }
    }
}

fn check(points: &Points) {
    for point in points.points() {
        assert!(point.value.is_finite());
        let name = points.name(point.series);
        assert_eq!(plumbago_model::sanitize(name).as_deref(), Ok(name));
    }
    assert!(points.refused().len() as u64 <= points.refused_len() * 11);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Texts that are nearly valid bodies.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::sample::select(vec![
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "\"name\":",
            "\"m\"",
            "\"tags\":",
            "{\"a\":\"1\"}",
            "\"datapoints\":",
            "[[0,1]]",
            "[0,\"x\"]",
            "\"value\":",
            "\"metric\":",
            "\"timestamp\":",
            "1",
            "-1",
            "1e999",
            "null",
            "true",
            "\"\\ud800\"",
            "\u{e9}",
        ]);
        prop_oneof![
            prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..200),
        ]
    }

    /// Texts that are nearly valid queries in a body.
    fn query() -> impl Strategy<Value = String> {
        let time =
            prop::sample::select(vec!["1", "1h-ago", "2017/07/14", "1499990400000", "x", "0", "30d-ago"]);
        let downsample = prop::sample::select(vec![
            "",
            "1m-avg",
            "1h-sum-nan",
            "0all-count",
            "1dc-max-zero",
            "7mc-p99-null",
            "1ms-sum-zero",
            "9999yc-sum-nan",
            "1wc-dev",
        ]);
        let aggregator = prop::sample::select(vec!["sum", "none", "count", "mimmin", "p999", "last", "x"]);
        let filter = prop::sample::select(vec![
            "",
            "*",
            "a|b",
            "regexp(a.*)",
            "wildcard(*x)",
            "(",
            "not_literal_or(1)",
        ]);
        let zone = prop::sample::select(vec!["", "Europe/Rome", "America/Sao_Paulo", "Mars"]);
        (time.clone(), time, zone, downsample, aggregator, filter, any::<(bool, bool, bool)>()).prop_map(
            |(start, end, zone, downsample, aggregator, filter, (rate, explicit, ms))| {
                format!(
                    r#"{{"start":"{start}","end":"{end}","timezone":"{zone}","msResolution":{ms},"queries":[{{"metric":"m",
                    "aggregator":"{aggregator}","downsample":"{downsample}","rate":{rate},"explicitTags":{explicit},
                    "tags":{{"a":"{filter}"}}}}]}}"#
                )
            },
        )
    }

    /// Texts that are nearly valid query strings.
    fn query_string() -> impl Strategy<Value = String> {
        "start=(1h-ago|5|x)&(end=[0-9]{1,13}&)?m=(sum|none|p99)(:rate(\\{counter,[0-9]{0,3}\\})?)?(:[0-9]{1,2}[smhdc]{1,2}-(sum|avg)(-nan)?)?:m(\\{a=[*a|()]{0,3}\\}){0,2}"
    }

    proptest! {
        #[test]
        fn any_query_of_opentsdb_is_answered_or_refused(query in prop_oneof![query(), query_string()]) {
            super::opentsdb_queries(query.as_bytes());
        }

        #[test]
        fn any_body_is_read_or_refused(data in body()) {
            super::bodies(&data);
        }

        #[test]
        fn any_line_is_read_or_refused(line in "put[m]? [\\PC;=~. ]{0,20} [0-9.-]{0,15} [0-9.e-]{0,8}( [\\PC=;~.]{0,9}){0,4}") {
            super::lines(line.as_bytes());
        }
    }
}
