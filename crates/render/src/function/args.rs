//! The arguments of a call, sorted into parameters.

use super::convert::convert;
use super::param::{Default, Kind, Param};
use crate::aggregate::Aggregate;
use crate::series::TimeSeries;
use crate::target::Literal;

/// What an argument or a call gave.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Series(Vec<TimeSeries>),
    /// Series in groups; only `reduceSeries` takes them.
    Lists(Vec<Vec<TimeSeries>>),
    Literal(Literal),
    /// Series that are not fetched yet: what an argument must be is checked before that.
    Missing,
}

impl From<Vec<TimeSeries>> for Value {
    fn from(series: Vec<TimeSeries>) -> Self {
        Self::Series(series)
    }
}

impl Value {
    pub(crate) fn points(&self) -> usize {
        let points = |series: &Vec<TimeSeries>| series.iter().map(|s| s.values.len()).sum::<usize>();
        match self {
            Self::Series(series) => points(series),
            Self::Lists(lists) => lists.iter().map(points).sum(),
            Self::Literal(_) | Self::Missing => 0,
        }
    }

    /// Memory that is this value's alone: values that are shared are what was fetched.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |series: &Vec<TimeSeries>| series.iter().map(TimeSeries::own_bytes).sum::<usize>();
        match self {
            Self::Series(series) => bytes(series),
            Self::Lists(lists) => lists.iter().map(bytes).sum(),
            Self::Literal(_) | Self::Missing => 0,
        }
    }
}

/// Arguments by parameter, checked, in the type of their kind.
#[derive(Debug)]
pub(crate) struct Args {
    params: &'static [Param],
    values: Vec<Vec<Value>>,
}

impl Args {
    /// Sorts positional and named arguments into parameters, and checks their kinds.
    pub(crate) fn bind(
        params: &'static [Param],
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Result<Self, String> {
        let mut values: Vec<Vec<Value>> = params.iter().map(|_| Vec::new()).collect();
        for (index, value) in positional.into_iter().enumerate() {
            let at = index.min(params.len().saturating_sub(1));
            match params.get(at) {
                Some(param) if index == at || param.is_multiple => values[at].push(value),
                _ => return Err(format!("takes at most {} arguments", params.len())),
            }
        }
        for (name, value) in named {
            match params.iter().position(|param| [param.name, param.alias].contains(&name.as_str())) {
                Some(at) if values[at].is_empty() => values[at].push(value),
                Some(_) => return Err(format!("the argument {name} is given twice")),
                None => return Err(format!("has no argument {name}")),
            }
        }
        for (param, values) in params.iter().zip(&mut values) {
            if param.kind == Kind::Boolean {
                // As Python takes it: whatever the default is.
                let none = values.iter_mut().filter(|value| matches!(value, Value::Literal(Literal::None)));
                none.for_each(|value| *value = Value::Literal(Literal::Boolean(false)));
            }
            if !param.is_required && !param.is_multiple {
                values.retain(|value| !matches!(value, Value::Literal(Literal::None)));
            }
            if values.is_empty() && param.is_required {
                return Err(format!("the argument {} is missing", param.name));
            }
            values.iter_mut().try_for_each(|value| convert(param, value))?;
        }
        Ok(Self { params, values })
    }

    /// All series of a parameter, taken.
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

    /// How many arguments a parameter got.
    pub(crate) fn count(&self, at: usize) -> usize {
        self.values.get(at).map_or(0, Vec::len)
    }

    /// The groups of a parameter, taken.
    pub(crate) fn lists(&mut self, at: usize) -> Vec<Vec<TimeSeries>> {
        let mut all = Vec::new();
        for value in self.values.get_mut(at).map(std::mem::take).unwrap_or_default() {
            if let Value::Lists(lists) = value {
                all.extend(lists);
            }
        }
        all
    }

    /// The one value of a parameter, taken.
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

    /// The texts of a parameter.
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

    /// The number of a parameter.
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

    /// The whole number of a parameter.
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

    /// The text of a parameter.
    pub(crate) fn given_text(&self, at: usize) -> Option<&str> {
        match self.literal(at)? {
            Literal::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth of a parameter, or its default.
    pub(crate) fn flag(&self, at: usize) -> bool {
        match (self.literal(at), self.default(at)) {
            (Some(Literal::Boolean(flag)), _) => *flag,
            (None, Default::Boolean(flag)) => flag,
            _ => false,
        }
    }

    /// The aggregation that a parameter names, and the name.
    pub(crate) fn aggregate(&self, at: usize) -> Result<(Aggregate, String), String> {
        let name = self.text(at).to_owned();
        match Aggregate::named(&name) {
            Some(aggregate) => Ok((aggregate, name)),
            None => Err(format!("{name:?} is no aggregation function here")),
        }
    }
}
