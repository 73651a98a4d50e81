//! What a function is: one declaration, which its calls are checked against, and one pure function.
//!
//! A new function is a constant in a file of `functions` and its name in `ALL`.

use crate::functions;
use crate::request::Request;
use crate::series::TimeSeries;
use crate::target::Literal;

/// A function of the target language.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its name, then its other names.
    pub(crate) names: &'static [&'static str],
    pub(crate) params: &'static [Param],
    /// Says in words what is wrong with the arguments.
    pub(crate) eval: fn(Args, &Request) -> Result<Vec<TimeSeries>, String>,
}

/// A parameter of a function.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) need: Need,
}

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Series,
    Float,
    String,
    /// A component's number or a tag's name.
    NodeOrTag,
}

/// How often an argument is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Once,
    /// One or more; only the last parameter.
    Some,
    /// Any number; only the last parameter.
    Any,
}

/// The functions there are.
const ALL: &[&Function] = &[
    &functions::alias::ALIAS,
    &functions::alias::ALIAS_BY_NODE,
    &functions::combine::AVERAGE_SERIES,
    &functions::combine::MAX_SERIES,
    &functions::combine::MIN_SERIES,
    &functions::combine::SUM_SERIES,
    &functions::special::CONSOLIDATE_BY,
    &functions::transform::SCALE,
];

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    ALL.iter().find(|function| function.names.contains(&name)).copied()
}

/// What an argument gave.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Series(Vec<TimeSeries>),
    Literal(Literal),
}

/// Arguments by parameter.
#[derive(Debug)]
pub(crate) struct Args(Vec<Vec<Value>>);

impl Args {
    /// Sorts positional and named arguments into parameters, and checks their kinds.
    pub(crate) fn bind(
        params: &[Param],
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Result<Self, String> {
        let mut bound: Vec<Vec<Value>> = params.iter().map(|_| Vec::new()).collect();
        for (index, value) in positional.into_iter().enumerate() {
            let at = index.min(params.len().saturating_sub(1));
            match params.get(at) {
                Some(param) if index == at || param.need != Need::Once => bound[at].push(value),
                _ => return Err(format!("takes at most {} arguments", params.len())),
            }
        }
        for (name, value) in named {
            match params.iter().position(|param| param.name == name) {
                Some(at) if bound[at].is_empty() => bound[at].push(value),
                Some(_) => return Err(format!("the argument {name} is given twice")),
                None => return Err(format!("has no argument {name}")),
            }
        }
        for (param, values) in params.iter().zip(&mut bound) {
            if values.is_empty() && param.need != Need::Any {
                return Err(format!("the argument {} is missing", param.name));
            }
            values.iter_mut().try_for_each(|value| convert(param, value))?;
        }
        Ok(Self(bound))
    }

    /// All series of a parameter.
    pub(crate) fn series(&mut self, at: usize) -> Vec<TimeSeries> {
        let lists = self.0.get_mut(at).map(std::mem::take).unwrap_or_default();
        let mut all = Vec::new();
        for value in lists {
            match value {
                Value::Series(series) if all.is_empty() => all = series,
                Value::Series(series) => all.extend(series),
                Value::Literal(_) => {}
            }
        }
        all
    }

    /// The constants of a parameter.
    pub(crate) fn literals(&self, at: usize) -> impl Iterator<Item = &Literal> {
        self.0.get(at).into_iter().flatten().filter_map(|value| match value {
            Value::Literal(literal) => Some(literal),
            Value::Series(_) => None,
        })
    }

    /// The number of a parameter.
    pub(crate) fn float(&self, at: usize) -> f64 {
        match self.literals(at).next() {
            Some(Literal::Float(number)) => *number,
            _ => f64::NAN,
        }
    }

    /// The text of a parameter.
    pub(crate) fn text(&self, at: usize) -> &str {
        match self.literals(at).next() {
            Some(Literal::String(text)) => text,
            _ => "",
        }
    }
}

/// Gives a value the kind of its parameter; numbers may come as text.
fn convert(param: &Param, value: &mut Value) -> Result<(), String> {
    let converted = match (param.kind, &*value) {
        (Kind::Series, Value::Series(_)) => return Ok(()),
        (Kind::Float, Value::Literal(Literal::Integer(number))) => Some(Literal::Float(*number as f64)),
        (Kind::Float, Value::Literal(Literal::Float(number))) => Some(Literal::Float(*number)),
        (Kind::Float, Value::Literal(Literal::String(text))) => text.trim().parse().ok().map(Literal::Float),
        (Kind::String | Kind::NodeOrTag, Value::Literal(literal @ Literal::String(_))) => {
            Some(literal.clone())
        }
        (Kind::String, Value::Literal(literal)) => Some(Literal::String(literal.python())),
        (Kind::NodeOrTag, Value::Literal(literal @ Literal::Integer(_))) => Some(literal.clone()),
        _ => None,
    };
    let wanted = match param.kind {
        Kind::Series => "series",
        Kind::Float => "a number",
        Kind::String => "text",
        Kind::NodeOrTag => "the number of a component or the name of a tag",
    };
    *value =
        Value::Literal(converted.ok_or_else(|| format!("the argument {} must be {wanted}", param.name))?);
    Ok(())
}
