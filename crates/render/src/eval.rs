//! From fetched series to the series of the answer.

use std::collections::HashMap;

use crate::function::{self, Args, Function, Value};
use crate::plan::{Fetch, Source};
use crate::request::{Request, TimeRange};
use crate::series::TimeSeries;
use crate::target::{Expr, ExprKind, Literal, Target};
use crate::template::{Replacements, Resolved, TooLong};

/// Why targets cannot be evaluated: something in the request is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// There is no such function.
    #[error("unknown function {name} at character {position}")]
    UnknownFunction {
        /// As it was written.
        name: String,
        /// Characters before it, plus one.
        position: usize,
    },
    /// The arguments do not fit the function.
    #[error("{function}: {reason}")]
    Argument {
        /// The function.
        function: String,
        /// What is wrong.
        reason: String,
    },
    /// A target or an argument that must give series gives a constant.
    #[error("expected a path or a function at character {position}, not a constant")]
    NoSeries {
        /// Characters before it, plus one.
        position: usize,
    },
    /// A template's parameters.
    #[error(transparent)]
    Template(#[from] TooLong),
}

/// An error, and the target that it is in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct TargetError {
    /// Its place in the list of targets, from 0.
    pub target: usize,
    /// What is wrong with it.
    #[source]
    pub error: EvalError,
}

/// The series that were fetched, by what they were fetched for.
#[derive(Debug, Default)]
pub struct Fetched(HashMap<Fetch, Vec<TimeSeries>>);

impl Fetched {
    /// The answer to one fetch; series come sorted by name, each once.
    pub fn insert(&mut self, fetch: Fetch, series: Vec<TimeSeries>) {
        self.0.insert(fetch, series);
    }

    fn get(&self, expression: &str, source: Source, range: TimeRange) -> Vec<TimeSeries> {
        let fetch = Fetch { expression: expression.into(), source, range };
        self.0.get(&fetch).cloned().unwrap_or_default()
    }
}

/// Evaluates targets in their order; the answer is their results one after the other.
pub fn evaluate(
    targets: &[Target],
    request: &Request,
    fetched: &Fetched,
) -> Result<Vec<TimeSeries>, TargetError> {
    let mut all = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let evaluation = Evaluation { target, request, fetched };
        let series = evaluation
            .series(&target.expr, &Replacements::default())
            .map_err(|error| TargetError { target: index, error })?;
        if all.is_empty() {
            all = series;
        } else {
            all.extend(series);
        }
    }
    Ok(all)
}

struct Evaluation<'a> {
    target: &'a Target,
    request: &'a Request,
    fetched: &'a Fetched,
}

impl Evaluation<'_> {
    /// The value of an expression that must give series.
    fn series(&self, expr: &Expr, replacements: &Replacements) -> Result<Vec<TimeSeries>, EvalError> {
        match self.value(expr, replacements)? {
            Value::Series(series) => Ok(series),
            Value::Literal(Literal::String(path)) if matches!(expr.kind, ExprKind::Path(_)) => {
                Ok(self.fetched.get(&path, Source::Glob, self.request.range))
            }
            Value::Literal(_) => Err(EvalError::NoSeries { position: position(self.target, expr) }),
        }
    }

    /// The value of any expression.
    fn value(&self, expr: &Expr, replacements: &Replacements) -> Result<Value, EvalError> {
        let range = self.request.range;
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Value::Literal(literal.clone())),
            ExprKind::Path(path) => Ok(match replacements.resolve(path)? {
                Resolved::Path(path) => Value::Series(self.fetched.get(&path, Source::Glob, range)),
                Resolved::Literal(literal) => Value::Literal(literal),
            }),
            ExprKind::Template { body, params } => {
                let replacements = Replacements::new(params, &self.request.templates);
                Ok(Value::Series(self.series(body, &replacements)?))
            }
            ExprKind::Call { name, .. } if name == "seriesByTag" => {
                let raw = &self.target.text[expr.span.clone()];
                Ok(Value::Series(self.fetched.get(raw, Source::Tags, range)))
            }
            ExprKind::Call { name, args, kwargs } => {
                let function = known_function(self.target, expr, name)?;
                let values = |exprs: &[Expr]| -> Result<Vec<Value>, EvalError> {
                    exprs.iter().map(|expr| self.value(expr, replacements)).collect()
                };
                let named = |(key, expr): &(String, Expr)| Ok((key.clone(), self.value(expr, replacements)?));
                let kwargs = kwargs.iter().map(named).collect::<Result<_, EvalError>>()?;
                Args::bind(function.params, values(args)?, kwargs)
                    .and_then(|args| (function.eval)(args, self.request))
                    .map(Value::Series)
                    .map_err(|reason| EvalError::Argument { function: name.clone(), reason })
            }
        }
    }
}

/// The function of a call.
pub(crate) fn known_function(
    target: &Target,
    call: &Expr,
    name: &str,
) -> Result<&'static Function, EvalError> {
    function::find(name)
        .ok_or_else(|| EvalError::UnknownFunction { name: name.to_owned(), position: position(target, call) })
}

fn position(target: &Target, expr: &Expr) -> usize {
    let before = target.text.get(..expr.span.start).unwrap_or_default();
    before.chars().count() + 1
}
