//! Compares two answers.

use plumbago_render::describe::{Constant, Description};
use serde_json::Value;

/// How names and tags are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// The texts must be equal byte by byte.
    Exact,
    /// Numbers in the texts may differ after the ninth digit.
    ByNumber,
}

/// Describes the first difference; `None` if the answers are equal.
pub(crate) fn difference(ours: &Value, theirs: &Value, texts: Texts) -> Option<String> {
    let (Some(ours), Some(theirs)) = (ours["series"].as_array(), theirs["series"].as_array()) else {
        return (ours["series"].is_array() != theirs["series"].is_array())
            .then(|| "an error and none".to_owned());
    };
    if ours.len() != theirs.len() {
        return Some(format!("{} series, theirs {}", ours.len(), theirs.len()));
    }
    ours.iter().zip(theirs).enumerate().find_map(|(index, (ours, theirs))| {
        of_series(ours, theirs, texts).map(|difference| format!("series {index}: {difference}"))
    })
}

fn of_series(ours: &Value, theirs: &Value, texts: Texts) -> Option<String> {
    for field in ["name", "path", "tags", "start", "end", "step", "factor", "options"] {
        let is_text = matches!(field, "name" | "path" | "tags");
        let same = match texts {
            Texts::ByNumber if is_text => same_text(&ours[field], &theirs[field]),
            _ => is_equal(&ours[field], &theirs[field]),
        };
        if !same {
            return Some(format!("{field} {} theirs {}", ours[field], theirs[field]));
        }
    }
    let consolidation =
        theirs["consolidation"].as_str().map(|name| if name == "avg" { "average" } else { name });
    if ours["consolidation"].as_str() != consolidation {
        return Some(format!("consolidation {}, theirs {consolidation:?}", ours["consolidation"]));
    }
    of_values(&ours["values"], &theirs["values"])
}

fn of_values(ours: &Value, theirs: &Value) -> Option<String> {
    let (ours, theirs) = (ours.as_array()?, theirs.as_array()?);
    if ours.len() != theirs.len() {
        return Some(format!("{} values, theirs {}", ours.len(), theirs.len()));
    }
    let different = ours.iter().zip(theirs).position(|(ours, theirs)| !is_equal(ours, theirs))?;
    Some(format!("value {different} {} theirs {}", ours[different], theirs[different]))
}

/// Describes the first difference between consolidated points.
pub(crate) fn points(ours: &Value, theirs: &Value) -> Option<String> {
    let (ours, theirs) = (ours["points"].as_array()?, theirs["points"].as_array()?);
    (!ours.iter().zip(theirs).all(|(ours, theirs)| is_equal(ours, theirs)) || ours.len() != theirs.len())
        .then(|| format!("points {ours:?} theirs {theirs:?}"))
}

/// Compares values; numbers may differ after the ninth digit.
fn is_equal(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Compares texts or tags; numbers in them may differ after the ninth digit.
fn same_text(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::String(a), Value::String(b)) => {
            let (a, b) = (pieces(a), pieces(b));
            let same = |(a, b): (&&str, &&str)| match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(x), Ok(y)) => a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()),
                _ => a == b,
            };
            a.len() == b.len() && a.iter().zip(&b).all(same)
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_text(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Splits a text before and after each number.
fn pieces(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| is_part(c) != is_part(first)).unwrap_or(rest.len());
        pieces.push(&rest[..length]);
        rest = &rest[length..];
    }
    pieces
}

/// A parameter: name, type, required, multiple, default, options.
pub(crate) type Declared = (String, String, bool, bool, Option<String>, Vec<String>);

/// A declaration of Plumbago: its group and parameters.
pub(crate) fn declaration(ours: &Description) -> (String, Vec<Declared>) {
    let params = ours.params.iter().map(|param| {
        let default = param.default.map(|default| match default {
            Constant::Boolean(flag) => flag.to_string(),
            Constant::Integer(number) => number.to_string(),
            Constant::Float(number) => number.to_string(),
            Constant::Text(text) => text.to_owned(),
        });
        (
            param.name.to_owned(),
            param.kind.to_owned(),
            param.is_required,
            param.is_multiple,
            default,
            Vec::new(),
        )
    });
    (ours.group.to_owned(), params.collect())
}

/// A parameter of graphite-web's declaration. Its options are not compared: they include values that its
/// functions refuse.
pub(crate) fn declared(param: &Value) -> Declared {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (
        text(&param["name"]),
        text(&param["type"]),
        param["required"] == true,
        param["multiple"] == true,
        param.get("default").map(text),
        Vec::new(),
    )
}
