use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::*;

fn apply(aggregator: Value, points: &[(i64, f64)]) -> Result<Vec<(i64, Option<f64>)>, String> {
    let points = points.iter().map(|(ms, value)| (*ms, Some(Amount::from(*value)))).collect();
    let span = Span { start_ms: 1000, end_ms: 6000, zone: &TimeZone::UTC, points_max: 100 };
    let made = Aggregator::of(&aggregator)?.apply(points, span)?;
    Ok(made.into_iter().map(|(ms, amount)| (ms, amount.map(|amount| amount.value))).collect())
}

fn made(aggregator: Value, points: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let made = apply(aggregator.clone(), points).unwrap_or_else(|error| panic!("{aggregator}: {error}"));
    made.into_iter().map(|(ms, value)| (ms, value.unwrap_or(f64::NAN))).collect()
}

const POINTS: &[(i64, f64)] = &[(1000, 1.0), (2000, 2.0), (2500, 6.0), (5000, 4.0)];

#[test]
fn ranges_fold_their_points() {
    let two = |name: &str| json!({"name": name, "sampling": {"value": "2", "unit": "SECONDS"}});
    for (name, expected) in [
        ("sum", [(1000, 1.0), (2000, 8.0), (5000, 4.0)]),
        ("min", [(1000, 1.0), (2000, 2.0), (5000, 4.0)]),
        ("max", [(1000, 1.0), (2000, 6.0), (5000, 4.0)]),
        ("avg", [(1000, 1.0), (2000, 4.0), (5000, 4.0)]),
        ("count", [(1000, 1.0), (2000, 2.0), (5000, 1.0)]),
        ("first", [(1000, 1.0), (2000, 2.0), (5000, 4.0)]),
        ("last", [(1000, 1.0), (2500, 6.0), (5000, 4.0)]),
        ("dev", [(1000, 0.0), (2000, 8.0_f64.sqrt()), (5000, 0.0)]),
    ] {
        assert_eq!(made(two(name), POINTS), expected, "{name}");
    }
    let from_start = json!({"name": "sum", "sampling": {"value": 2, "unit": "seconds"}, "align_sampling": false,
                            "align_start_time": true});
    assert_eq!(made(from_start, POINTS), [(1000, 9.0), (5000, 4.0)]);
    let end = json!({"name": "sum", "sampling": {"value": 2, "unit": "seconds"}, "align_end_time": true});
    assert_eq!(made(end, POINTS), [(2000, 1.0), (4000, 8.0), (6000, 4.0)]);
    let dev = json!({"name": "dev", "return_type": "pos_sd", "dev_count": 2, "sampling": {"value": 1, "unit": "days"}});
    let dev = made(dev, &[(1000, 1.0), (2000, 3.0)]);
    assert_eq!(dev, [(1000, 2.0 + 2.0 * 2.0_f64.sqrt())]);
    let percentile =
        |p: f64| json!({"name": "percentile", "percentile": p, "sampling": {"value": 1, "unit": "days"}});
    let at = |p| made(percentile(p), POINTS)[0].1;
    assert_eq!((at(0.5), at(0.1), at(0.99), at(0.3)), (3.0, 1.0, 6.0, 1.5));
    let line = json!({"name": "least_squares", "sampling": {"value": 1, "unit": "days"}});
    assert_eq!(made(line, &[(1000, 1.0), (2000, 2.0), (3000, 3.0)]), [(1000, 1.0), (3000, 3.0)]);
    let gaps = apply(json!({"name": "gaps", "sampling": {"value": 1, "unit": "seconds"}}), POINTS).unwrap();
    let expected = [
        (1000, Some(1.0)),
        (2000, Some(2.0)),
        (2500, Some(6.0)),
        (3000, None),
        (4000, None),
        (5000, Some(4.0)),
        (6000, None),
    ];
    assert_eq!(gaps, expected);
    let trimmed = json!({"name": "gaps", "trim": true, "sampling": {"value": 1, "unit": "seconds"}});
    assert_eq!(apply(trimmed, &POINTS[1..]).unwrap(), expected[1..6]);
    let behind = apply(
        json!({"name": "gaps", "sampling": {"value": 1, "unit": "seconds"}}),
        &[(5000, 1.0), (8000, 2.0)],
    );
    assert_eq!(behind.unwrap()[4..], [(5000, Some(1.0)), (6000, None), (7000, None), (8000, Some(2.0))]);
    let bomb = apply(json!({"name": "gaps"}), POINTS);
    assert!(bomb.unwrap_err().contains("api.limits.points"));
}

#[test]
fn points_one_by_one() {
    for (aggregator, expected) in [
        (json!({"name": "rate", "unit": "seconds"}), vec![(2000, 1.0), (2500, 8.0), (5000, -0.8)]),
        (json!({"name": "sampler", "unit": "seconds"}), vec![(2000, 2.0), (2500, 12.0), (5000, 1.6)]),
        (json!({"name": "diff"}), vec![(2000, 1.0), (2500, 4.0), (5000, -2.0)]),
        (json!({"name": "scale", "factor": 2}), vec![(1000, 2.0), (2000, 4.0), (2500, 12.0), (5000, 8.0)]),
        (json!({"name": "div", "divisor": "2"}), vec![(1000, 0.5), (2000, 1.0), (2500, 3.0), (5000, 2.0)]),
        (json!({"name": "sma", "size": 3}), vec![(2500, 3.0), (5000, 4.0)]),
        (json!({"name": "trim"}), POINTS.to_vec()),
        (json!({"name": "trim", "trim": "both"}), vec![(2000, 2.0), (2500, 6.0)]),
        (json!({"name": "filter", "filter_op": "gte", "threshold": 4}), vec![(1000, 1.0), (2000, 2.0)]),
        (
            json!({"name": "score", "thresholds": [{"value": 5}, {"value": 2, "boundary": "inferior"}]}),
            vec![(1000, 0.0), (2000, 1.0), (2500, 2.0), (5000, 1.0)],
        ),
        (
            json!({"name": "score", "thresholds": [{"value": 2}, {"value": 5}], "order": "descending"}),
            vec![(1000, 2.0), (2000, 2.0), (2500, 0.0), (5000, 1.0)],
        ),
    ] {
        assert_eq!(made(aggregator.clone(), POINTS), expected, "{aggregator}");
    }
    assert!(apply(json!({"name": "rate"}), &[(1000, 1.0), (1000, 2.0)]).is_err());
}

/// The time that a moving mean takes does not depend on the number of points in its window.
#[test]
fn means_of_very_many_points() {
    let points: Vec<(i64, f64)> = (0..400_000).map(|at| (at, (at % 7) as f64)).collect();
    let of = |size: usize| made(json!({"name": "sma", "size": size}), &points);
    for size in [1, 2, 6, 1000, 399_999] {
        let made = of(size);
        assert_eq!(made.len(), points.len() + 1 - size);
        for at in [0, made.len() / 3, made.len() - 1] {
            let wanted = points[at..at + size].iter().map(|(_, value)| value).sum::<f64>() / size as f64;
            assert_eq!(made[at], (points[at + size - 1].0, wanted), "{size} {at}");
        }
    }
    let half = of(200_000);
    assert_eq!(half.len(), 200_001);
    assert!(half.iter().all(|(_, mean)| (mean - 3.0).abs() < 1e-3));
    assert!(of(400_001).is_empty());
}

#[test]
fn a_sum_of_negative_zeros_is_zero() {
    let all = |name: &str| json!({"name": name, "sampling": {"value": 1, "unit": "days"}});
    for aggregator in [all("sum"), all("avg"), json!({"name": "sma", "size": 2})] {
        let value = made(aggregator.clone(), &[(1000, -0.0), (2000, -0.0)])[0].1;
        assert_eq!(value.to_bits(), 0.0_f64.to_bits(), "{aggregator}");
    }
}

#[test]
fn wrong_aggregators_are_named() {
    for aggregator in [
        json!({"name": "nothing"}),
        json!({"sampling": 1}),
        json!({"name": "sum", "size": 1}),
        json!({"name": "sum", "sampling": {"value": 0, "unit": "seconds"}}),
        json!({"name": "sum", "sampling": {"value": 1, "unit": "fortnights"}}),
        json!({"name": "div", "divisor": 0}),
        json!({"name": "percentile", "percentile": 2}),
        json!({"name": "percentile", "percentile": 0}),
        json!({"name": "score", "thresholds": [1]}),
        json!({"name": "sampler", "sampling": {"value": 1, "unit": "hours"}}),
        json!({"name": "sum", "time_zone": "Nowhere"}),
        json!({"name": "save_as", "metric_name": "x"}),
        json!({"name": "trim", "trim": "x"}),
        json!({"name": "trim", "trim": "none"}),
        json!({"name": "trim", "trim": 5}),
        json!({"name": "filter", "filter_op": 5, "threshold": 1}),
        json!({"name": "score", "thresholds": [{"value": 1, "boundary": "INFERIOR"}]}),
    ] {
        assert!(Aggregator::of(&aggregator).is_err(), "{aggregator}");
    }
}

#[test]
fn properties_in_other_spellings() {
    let same = |one: Value, other: Value| {
        let read = |aggregator: Value| format!("{:?}", Aggregator::of(&aggregator).unwrap());
        assert_eq!(read(one), read(other));
    };
    let score = |threshold: Value| json!({"name": "score", "thresholds": [threshold]});
    same(score(json!({"value": null})), score(json!({"value": 0})));
    let dev = |count: f64| json!({"name": "dev", "return_type": "pos_sd", "dev_count": count});
    same(dev(1.5), dev(1.0));
    same(json!({"name": "trim", "trim": null}), json!({"name": "trim"}));
}
