//! Compares answers by value.

use std::collections::BTreeSet;

use plumbago_tests::http::Response;
use serde_json::Value;

use super::queries::Query;

/// The result of comparing two answers.
#[derive(Debug)]
pub(super) enum Verdict {
    Equal,
    /// The answers differ on purpose, for this reason, which is in docs/kairosdb.md too.
    OnPurpose(&'static str),
    Different(String),
}

/// The reason why the answers differ on purpose, if they do.
pub(super) fn on_purpose(query: &Query, real: &Response, ours: &Response) -> Option<&'static str> {
    if real.status == 500 && ours.status == 400 {
        return Some("KairosDB answers 500 to what the client did wrong, we 400");
    }
    if query.is_fitted && real.status == 500 && real.body.contains("NaN or Infinity") {
        return Some("KairosDB fails where least_squares gets points of one time only, we take their mean");
    }
    query.has_descending_ranges.then_some("KairosDB puts all points of a descending query into one range")
}

/// Compares the answers to a query.
pub(super) fn compare(query: &Query, real: &Response, ours: &Response) -> Verdict {
    let Err(what) = equal(query, real, ours) else { return Verdict::Equal };
    match on_purpose(query, real, ours) {
        Some(reason) => Verdict::OnPurpose(reason),
        None => Verdict::Different(what),
    }
}

/// Compares the answers to a query that may be wrong: their status, and if `has_same_text` the text too.
pub(super) fn refusal(real: &Response, ours: &Response, has_same_text: bool) -> Verdict {
    let shown =
        || Verdict::Different(format!("{} {} / {} {}", real.status, real.body, ours.status, ours.body));
    match (real.status, ours.status) {
        (500, 400) => Verdict::OnPurpose("KairosDB answers 500 to what the client did wrong, we 400"),
        (real, ours) if real != ours => shown(),
        (200, _) => match (parse(real), parse(ours)) {
            (Ok(real), Ok(ours)) if same_answers(&real, &ours, 1e-9).is_ok() => Verdict::Equal,
            _ => shown(),
        },
        _ if has_same_text && parse(real).ok() != parse(ours).ok() => shown(),
        _ => Verdict::Equal,
    }
}

fn parse(response: &Response) -> Result<Value, String> {
    serde_json::from_str(&response.body).map_err(|error| format!("{error}: {}", response.body))
}

fn equal(query: &Query, real: &Response, ours: &Response) -> Result<(), String> {
    if (real.status, ours.status) != (200, 200) {
        return Err(format!("{} {} / {} {}", real.status, real.body, ours.status, ours.body));
    }
    let within = if query.is_fitted { 1e-3 } else { 1e-9 };
    same_answers(&parse(real)?, &parse(ours)?, within)
}

fn same_answers(real: &Value, ours: &Value, within: f64) -> Result<(), String> {
    let (real, ours) = (list(&real["queries"]), list(&ours["queries"]));
    same("queries", &real.len(), &ours.len())?;
    for (real, ours) in real.iter().zip(ours) {
        same("sample_size", &real["sample_size"], &ours["sample_size"])?;
        let (real, ours) = (list(&real["results"]), list(&ours["results"]));
        same("results", &real.len(), &ours.len())?;
        for (real, ours) in real.iter().zip(ours) {
            same_result(real, ours, within)?;
        }
    }
    Ok(())
}

fn same_result(real: &Value, ours: &Value, within: f64) -> Result<(), String> {
    same("name", &real["name"], &ours["name"])?;
    same_group("group_by", &real["group_by"], &ours["group_by"])?;
    same("tags", &tags(&real["tags"]), &tags(&ours["tags"]))?;
    let (real, ours) = (list(&real["values"]), list(&ours["values"]));
    let shown = || format!("\n      {}\n      {}", shortened(real), shortened(ours));
    same("values", &real.len(), &ours.len()).map_err(|what| what + &shown())?;
    for (real, ours) in real.iter().zip(ours) {
        let times = (real[0].as_i64(), ours[0].as_i64());
        let alike = match (real[1].as_f64(), ours[1].as_f64()) {
            (Some(real), Some(ours)) => near(real, ours, within),
            _ => real[1] == ours[1],
        };
        if times.0 != times.1 || !alike {
            return Err(format!("{real} / {ours}{}", shown()));
        }
    }
    Ok(())
}

/// Whether two numbers are nearly equal. KairosDB's standard deviation of equal values is not exactly 0.
fn near(real: f64, ours: f64, within: f64) -> bool {
    let most = real.abs().max(ours.abs());
    (real - ours).abs() <= within * most || most < 2e-6
}

/// Groups, with numbers that may be written in two ways.
fn same_group(what: &str, real: &Value, ours: &Value) -> Result<(), String> {
    let alike = match (real, ours) {
        (Value::Array(real), Value::Array(ours)) => {
            real.len() == ours.len()
                && real.iter().zip(ours).all(|(real, ours)| same_group(what, real, ours).is_ok())
        }
        (Value::Object(real), Value::Object(ours)) => {
            real.len() == ours.len()
                && real
                    .iter()
                    .all(|(key, real)| ours.get(key).is_some_and(|ours| same_group(key, real, ours).is_ok()))
        }
        (Value::Number(real), Value::Number(ours)) => real.as_f64() == ours.as_f64(),
        _ => real == ours,
    };
    if alike { Ok(()) } else { Err(format!("{what}: {real} / {ours}")) }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, real: &T, ours: &T) -> Result<(), String> {
    if real == ours { Ok(()) } else { Err(format!("{what}: {real:?} / {ours:?}")) }
}

/// Tags and their values, in any order. An absent list differs from an empty one.
fn tags(tags: &Value) -> Option<Vec<(String, BTreeSet<String>)>> {
    let values =
        |values: &Value| list(values).iter().map(|value| value.as_str().unwrap().to_owned()).collect();
    let mut all: Vec<_> = tags.as_object()?.iter().map(|(tag, all)| (tag.clone(), values(all))).collect();
    all.sort();
    Some(all)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn shortened(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().take(12).map(Value::to_string).collect();
    format!("{} of {}", shown.join(","), values.len())
}
