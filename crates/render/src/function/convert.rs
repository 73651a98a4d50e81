//! Converts arguments to the types of their parameters.

use super::param::{Kind, Param};
use crate::aggregate::Aggregate;
use crate::attime::parse_interval;
use crate::fault::Mistake;
use crate::target::Literal;
use crate::value::Value;

/// Checks a value, and converts it to the type of its parameter. Numbers may be given as text.
pub(super) fn convert(
    param: &Param,
    value: &mut Value,
    is_callback: fn(&str) -> bool,
) -> Result<(), Mistake> {
    let literal = match (param.kind, &mut *value) {
        (_, Value::Missing)
        | (Kind::Series | Kind::Any, Value::Series(_))
        | (Kind::Lists, Value::Lists(_)) => {
            return Ok(());
        }
        (Kind::Lists, Value::Series(none)) if none.is_empty() => {
            *value = Value::Lists(Vec::new());
            return Ok(());
        }
        (Kind::Series | Kind::Any, Value::Lists(none)) if none.is_empty() => {
            *value = Value::Series(Vec::new());
            return Ok(());
        }
        (_, Value::Literal(literal)) => literal,
        _ => return Err(must_be(param)),
    };
    let converted = literal_as(param, literal, is_callback).ok_or_else(|| must_be(param))?;
    if let (false, Literal::String(text)) = (param.options.is_empty(), &converted)
        && !param.options.contains(&text.as_str())
    {
        let reason = format!(
            "the argument {} is {text:?}; it must be one of {}",
            param.name,
            param.options.join(", ")
        );
        return Err(Mistake::expecting(reason, wanted(param)));
    }
    *literal = converted;
    Ok(())
}

fn must_be(param: &Param) -> Mistake {
    let reason = format!("the argument {} must be {}", param.name, of_kind(param.kind));
    Mistake::expecting(reason, wanted(param))
}

/// What a parameter takes, in words.
pub(super) fn wanted(param: &Param) -> String {
    if param.options.is_empty() { of_kind(param.kind).to_owned() } else { one_of(param.options) }
}

pub(super) fn one_of(options: &[&str]) -> String {
    match options {
        [only] => (*only).to_owned(),
        _ => format!("one of {}", options.join(", ")),
    }
}

fn of_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Series | Kind::OneSeries => "series",
        Kind::Lists => "groups of series, as mapSeries makes them",
        Kind::Any => "series or a number",
        Kind::Boolean => "true or false",
        Kind::Date => "a time",
        Kind::Float => "a number",
        Kind::Integer | Kind::Node => "a whole number",
        Kind::IntOrInf => "a whole number or inf",
        Kind::IntOrInterval => "a number of points or an amount of time",
        Kind::Interval => "an amount of time, like 1h",
        Kind::NodeOrTag => "the number of a component or the name of a tag",
        Kind::String | Kind::Tag => "text",
        Kind::AggFunc => "an aggregation function",
        Kind::AggOrSeriesFunc => "an aggregation function or one of those that combine series",
    }
}

fn literal_as(param: &Param, literal: &Literal, is_callback: fn(&str) -> bool) -> Option<Literal> {
    let text = || Some(Literal::String(literal.python()));
    match param.kind {
        Kind::Series | Kind::Lists | Kind::OneSeries => None,
        Kind::Any => Some(literal.clone()),
        Kind::Boolean => boolean(literal).map(Literal::Boolean),
        Kind::Float => float(literal).map(Literal::Float),
        Kind::Integer | Kind::Node => integer(literal).map(Literal::Integer),
        Kind::IntOrInf => match (integer(literal), float(literal)) {
            (Some(number), _) => Some(Literal::Integer(number)),
            (None, Some(f64::INFINITY)) => Some(Literal::Float(f64::INFINITY)),
            _ => None,
        },
        Kind::IntOrInterval => match literal {
            Literal::Integer(_) | Literal::Float(_) => Some(literal.clone()),
            Literal::String(text) => parse_interval(text).is_ok().then(|| literal.clone()),
            _ => None,
        },
        Kind::Interval => match literal {
            Literal::String(text) => parse_interval(text).is_ok().then(|| literal.clone()),
            _ => None,
        },
        Kind::NodeOrTag => match literal {
            Literal::Integer(_) | Literal::String(_) => Some(literal.clone()),
            _ => None,
        },
        Kind::Date | Kind::Tag => match literal {
            Literal::Boolean(_) | Literal::None => None,
            _ => text(),
        },
        Kind::String => text(),
        Kind::AggFunc => match literal {
            Literal::String(name) => Aggregate::named_or_deprecated(name).map(|_| literal.clone()),
            _ => None,
        },
        Kind::AggOrSeriesFunc => match literal {
            Literal::String(name) => {
                (is_callback(name) || Aggregate::named_or_deprecated(name).is_some()).then(|| literal.clone())
            }
            _ => None,
        },
    }
}

fn boolean(literal: &Literal) -> Option<bool> {
    match literal {
        Literal::Boolean(flag) => Some(*flag),
        Literal::Integer(0) => Some(false),
        Literal::Integer(1) => Some(true),
        Literal::Float(number) if *number == 0.0 => Some(false),
        Literal::Float(number) if *number == 1.0 => Some(true),
        Literal::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn float(literal: &Literal) -> Option<f64> {
    match literal {
        Literal::Float(number) => Some(*number),
        Literal::Integer(number) => Some(*number as f64),
        Literal::Boolean(flag) => Some(f64::from(u8::from(*flag))),
        Literal::String(text) => text.trim().parse().ok(),
        Literal::None => None,
    }
}

fn integer(literal: &Literal) -> Option<i64> {
    match literal {
        Literal::Integer(number) => Some(*number),
        Literal::Boolean(flag) => Some(i64::from(*flag)),
        Literal::String(text) => text.trim().parse().ok(),
        // Template parameters that look like numbers are floats, even whole ones.
        Literal::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => Some(*number as i64),
        _ => None,
    }
}
