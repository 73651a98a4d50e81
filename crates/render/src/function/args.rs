//! Binds the arguments of a call to parameters.

use super::convert::{convert, one_of, wanted};
use super::param::{Default, Kind, Param};
use crate::aggregate::Aggregate;
use crate::fault::Mistake;
use crate::series::TimeSeries;
use crate::target::Literal;
use crate::value::Value;

/// Checked arguments by parameter, converted to the parameters' types.
#[derive(Debug)]
pub(crate) struct Args {
    params: &'static [Param],
    values: Vec<Vec<Value>>,
}

impl Args {
    /// Binds positional and named arguments to parameters, checks them, and converts them. `is_callback` says
    /// whether a function may be named as a callback.
    pub(crate) fn bind(
        params: &'static [Param],
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
        is_callback: fn(&str) -> bool,
    ) -> Result<Self, Mistake> {
        let mut values: Vec<Vec<Value>> = params.iter().map(|_| Vec::new()).collect();
        for (index, value) in positional.into_iter().enumerate() {
            let at = index.min(params.len().saturating_sub(1));
            match params.get(at) {
                Some(param) if index == at || param.is_multiple => values[at].push(value),
                _ => {
                    let most = format!("at most {} arguments", params.len());
                    return Err(Mistake::expecting(format!("takes {most}"), most));
                }
            }
        }
        for (name, value) in named {
            match params.iter().position(|param| [param.name, param.alias].contains(&name.as_str())) {
                Some(at) if values[at].is_empty() => values[at].push(value),
                Some(_) => return Err(format!("the argument {name} is given twice").into()),
                None => return Err(no_argument(params, &name)),
            }
        }
        for (param, values) in params.iter().zip(&mut values) {
            if param.kind == Kind::Boolean {
                // As in Python, `None` for a boolean is false, whatever the default is.
                let none = values.iter_mut().filter(|value| matches!(value, Value::Literal(Literal::None)));
                none.for_each(|value| *value = Value::Literal(Literal::Boolean(false)));
            }
            if !param.is_required && !param.is_multiple {
                values.retain(|value| !matches!(value, Value::Literal(Literal::None)));
            }
            if values.is_empty() && param.is_required {
                let expected = format!("{}: {}", param.name, wanted(param));
                return Err(Mistake::expecting(format!("the argument {} is missing", param.name), expected));
            }
            values.iter_mut().try_for_each(|value| convert(param, value, is_callback))?;
        }
        Ok(Self { params, values })
    }

    /// Takes all series of a parameter.
    pub(crate) fn series(&mut self, at: usize) -> Vec<TimeSeries> {
        let mut all = Vec::new();
        for value in self.values.get_mut(at).map(std::mem::take).unwrap_or_default() {
            match value {
                Value::Series(series) if all.is_empty() => all = series,
                Value::Series(series) => all.extend(series),
                _ => {}
            }
        }
        all
    }

    /// The number of arguments of a parameter.
    pub(crate) fn count(&self, at: usize) -> usize {
        self.values.get(at).map_or(0, Vec::len)
    }

    /// Takes the groups of a parameter.
    pub(crate) fn lists(&mut self, at: usize) -> Vec<Vec<TimeSeries>> {
        let mut all = Vec::new();
        for value in self.values.get_mut(at).map(std::mem::take).unwrap_or_default() {
            if let Value::Lists(lists) = value {
                all.extend(lists);
            }
        }
        all
    }

    /// Takes the only value of a parameter.
    pub(crate) fn value(&mut self, at: usize) -> Option<Value> {
        self.values.get_mut(at).and_then(Vec::pop)
    }

    /// The constants of a parameter.
    pub(crate) fn literals(&self, at: usize) -> impl Iterator<Item = &Literal> {
        self.values.get(at).into_iter().flatten().filter_map(|value| match value {
            Value::Literal(literal) => Some(literal),
            _ => None,
        })
    }

    /// The constants of a parameter as texts.
    pub(crate) fn texts(&self, at: usize) -> Vec<String> {
        self.literals(at).map(Literal::python).collect()
    }

    pub(crate) fn literal(&self, at: usize) -> Option<&Literal> {
        self.literals(at).next()
    }

    fn default(&self, at: usize) -> Default {
        self.params.get(at).map_or(Default::None, |param| param.default)
    }

    /// The number of a parameter, or its default.
    pub(crate) fn float(&self, at: usize) -> f64 {
        self.given_float(at).unwrap_or(match self.default(at) {
            Default::Float(number) => number,
            Default::Integer(number) => number as f64,
            _ => f64::NAN,
        })
    }

    /// The number of a parameter, if it was given.
    pub(crate) fn given_float(&self, at: usize) -> Option<f64> {
        match self.literal(at)? {
            Literal::Float(number) => Some(*number),
            Literal::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// The whole number of a parameter, or its default.
    pub(crate) fn int(&self, at: usize) -> i64 {
        self.given_int(at).unwrap_or(match self.default(at) {
            Default::Integer(number) => number,
            _ => 0,
        })
    }

    /// The whole number of a parameter, if it was given.
    pub(crate) fn given_int(&self, at: usize) -> Option<i64> {
        match self.literal(at)? {
            Literal::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The text of a parameter, or its default.
    pub(crate) fn text(&self, at: usize) -> &str {
        self.given_text(at).unwrap_or(match self.default(at) {
            Default::Text(text) => text,
            _ => "",
        })
    }

    /// The text of a parameter, if it was given.
    pub(crate) fn given_text(&self, at: usize) -> Option<&str> {
        match self.literal(at)? {
            Literal::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean of a parameter, or its default.
    pub(crate) fn flag(&self, at: usize) -> bool {
        match (self.literal(at), self.default(at)) {
            (Some(Literal::Boolean(flag)), _) => *flag,
            (None, Default::Boolean(flag)) => flag,
            _ => false,
        }
    }

    /// The aggregation of a parameter, and its name as it was given.
    pub(crate) fn aggregate(&self, at: usize) -> Result<(Aggregate, String), String> {
        let name = self.text(at).to_owned();
        match Aggregate::named(&name) {
            Some(aggregate) => Ok((aggregate, name)),
            None => Err(format!("{name:?} is not an aggregation function")),
        }
    }
}

fn no_argument(params: &[Param], name: &str) -> Mistake {
    let names: Vec<&str> = params.iter().map(|param| param.name).collect();
    let reason = format!("has no argument {name}");
    if names.is_empty() { reason.into() } else { Mistake::expecting(reason, one_of(&names)) }
}
