use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::tags::Tags;

const TABLE: &str = include_str!("../../testdata/widths.json");

fn consolidation(name: &str) -> Consolidation {
    match name {
        "average" | "avg" => Consolidation::Average,
        "avg_zero" => Consolidation::AvgZero,
        "sum" => Consolidation::Sum,
        "max" => Consolidation::Max,
        "min" => Consolidation::Min,
        "first" => Consolidation::First,
        "last" => Consolidation::Last,
        _ => panic!("{name}"),
    }
}

fn series(row: &Value, factor: f64) -> TimeSeries {
    let name: Arc<str> = "a".into();
    let values = row["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect();
    TimeSeries {
        tags: Tags::of(&name),
        options: crate::series::DrawOptions::default(),
        path_expression: Arc::clone(&name),
        name,
        start: row["start"].as_i64().unwrap(),
        end: row["end"].as_i64().unwrap(),
        step: row["step"].as_i64().unwrap(),
        values: Arc::new(values),
        consolidation: consolidation(row["function"].as_str().unwrap()),
        x_files_factor: factor,
        is_whole: false,
    }
}

/// Equal except for the last bit, which the JSON reader of the table sometimes gets wrong.
fn is_same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-14 * a.abs()
}

#[test]
fn widths_are_thinned_as_graphite_web_thins_them() {
    let table: Vec<Value> = serde_json::from_str(TABLE).unwrap();
    let mut compared = 0;
    for row in &table {
        let factor = row["factor"].as_f64().unwrap();
        let all: Vec<TimeSeries> =
            row["series"].as_array().unwrap().iter().map(|s| series(s, factor)).collect();
        let width = row["width"].as_u64().map(|w| usize::try_from(w).unwrap());
        let span = time_span(&all);
        let ours: Vec<Points<'_>> = all.iter().map(|s| points(s, span, width)).collect();
        let Some(answer) = row["answer"].as_array() else {
            continue; // a series shorter than what is cut off its start: an error 500 there
        };
        compared += 1;
        for (ours, theirs) in ours.iter().zip(answer) {
            let theirs: Vec<(i64, f64)> = theirs
                .as_array()
                .unwrap()
                .iter()
                .map(|point| (point[1].as_i64().unwrap(), point[0].as_f64().unwrap_or(f64::NAN)))
                .collect();
            let ours: Vec<(i64, f64)> = ours
                .values
                .iter()
                .enumerate()
                .map(|(i, v)| (ours.start + i as i64 * ours.step, *v))
                .collect();
            assert!(ours.len() == theirs.len(), "{row}");
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(ours.0 == theirs.0 && is_same(ours.1, theirs.1), "{ours:?} {theirs:?} {row}");
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn odd_widths_do_no_harm() {
    let empty = series(
        &serde_json::json!({"values": [], "start": 60, "end": 60, "step": 60, "function": "sum"}),
        0.0,
    );
    for width in [None, Some(0), Some(1), Some(2), Some(usize::MAX)] {
        assert!(points(&empty, time_span(std::slice::from_ref(&empty)), width).values.is_empty());
        assert!(points(&empty, i64::MAX, width).values.is_empty());
    }
}

/// Python's `sum` starts at 0; its `max` and `min` return the first of equal values.
#[test]
fn zeros_have_the_sign_that_graphite_web_gives_them() {
    let folded = |name: &str, values: &[f64]| fold(values, 2, consolidation(name), 0.0).to_bits();
    for (name, same, mixed) in [
        ("average", 0.0_f64, 0.0_f64),
        ("avg_zero", 0.0, 0.0),
        ("sum", 0.0, 0.0),
        ("max", -0.0, -0.0),
        ("min", -0.0, -0.0),
        ("first", -0.0, -0.0),
        ("last", -0.0, 0.0_f64),
    ] {
        assert_eq!(folded(name, &[-0.0, -0.0]), same.to_bits(), "{name}");
        assert_eq!(folded(name, &[-0.0, 0.0]), mixed.to_bits(), "{name}");
    }
}
