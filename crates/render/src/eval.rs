//! From fetched series to the series of the answer.

use std::collections::HashMap;
use std::rc::Rc;

use crate::context::{Call, Context, Fault, Shared};
use crate::function::{self, Args, Value};
use crate::plan::{Fetch, Plan, Source};
use crate::request::{Limited, Request, TimeRange};
use crate::series::TimeSeries;
use crate::target::{Expr, ExprKind, Literal, Target};
use crate::template::{Replacements, Resolved, TooLong};
use crate::watch::{Unwatched, Watch};

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
    #[error("{function}: {reason}, at character {position}")]
    Argument {
        /// The function.
        function: String,
        /// What is wrong.
        reason: String,
        /// Characters before the call, plus one.
        position: usize,
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
    /// One of the [`crate::request::Limits`].
    #[error("the targets need more than {limit} {what}")]
    Limit {
        /// Of what.
        what: Limited,
        /// The limit.
        limit: usize,
    },
    /// Stopped by who watches it.
    #[error("the evaluation was stopped")]
    Stopped,
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

    /// How many fetches there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when nothing was fetched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, fetch: &Fetch) -> Option<&Vec<TimeSeries>> {
        self.0.get(fetch)
    }
}

/// How far an evaluation came.
#[derive(Debug)]
pub enum Step {
    /// To its end.
    Done(Vec<TimeSeries>),
    /// These are missing, none of them among those that were given; fetch them and start again.
    Fetch(Plan),
}

/// Evaluates targets in their order; the answer is their results one after the other.
///
/// Nothing is kept between two rounds: a round that misses something stops wherever the missing
/// series would be read, so the work is done in the last one.
pub fn evaluate(targets: &[Target], request: &Request, fetched: &Fetched) -> Result<Step, TargetError> {
    evaluate_watched(targets, request, fetched, &Unwatched)
}

/// As [`evaluate`], for as long as `watch` lets it.
pub fn evaluate_watched(
    targets: &[Target],
    request: &Request,
    fetched: &Fetched,
    watch: &dyn Watch,
) -> Result<Step, TargetError> {
    let shared = Shared::new(request, fetched, watch);
    let mut context = Context::new(&shared);
    let mut all = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let wrong = |error| TargetError { target: index, error };
        match series(&mut context, target, &target.expr, &Rc::default()) {
            Ok(series) if all.is_empty() => all = series,
            Ok(series) => all.extend(series),
            Err(Fault::Missing) => {}
            Err(Fault::Error(error)) => return Err(wrong(error)),
            Err(Fault::Argument(reason)) => {
                return Err(wrong(EvalError::Argument {
                    function: "target".to_owned(),
                    reason,
                    position: 1,
                }));
            }
        }
    }
    let missing = shared.into_missing();
    Ok(if missing.is_empty() { Step::Done(all) } else { Step::Fetch(Plan { fetches: missing }) })
}

/// The value of an expression that must give series.
pub(crate) fn series<'a>(
    context: &mut Context<'a>,
    target: &'a Target,
    expr: &'a Expr,
    replacements: &Rc<Replacements>,
) -> Result<Vec<TimeSeries>, Fault> {
    match value(context, target, expr, replacements)? {
        Value::Series(series) => Ok(series),
        Value::Literal(Literal::String(path)) if matches!(expr.kind, ExprKind::Path(_)) => {
            context.fetched(&path, Source::Glob)
        }
        Value::Literal(_) | Value::Lists(_) | Value::Missing => {
            Err(EvalError::NoSeries { position: position(target, expr) }.into())
        }
    }
}

/// The value of any expression.
fn value<'a>(
    context: &mut Context<'a>,
    target: &'a Target,
    expr: &'a Expr,
    replacements: &Rc<Replacements>,
) -> Result<Value, Fault> {
    match &expr.kind {
        ExprKind::Literal(literal) => Ok(Value::Literal(literal.clone())),
        ExprKind::Path(path) => Ok(match replacements.resolve(path).map_err(EvalError::from)? {
            Resolved::Path(path) => Value::Series(context.fetched(&path, Source::Glob)?),
            Resolved::Literal(literal) => Value::Literal(literal),
        }),
        ExprKind::Template { body, params } => {
            let replacements = Replacements::new(params, &context.request().templates);
            Ok(Value::Series(series(context, target, body, &Rc::new(replacements))?))
        }
        ExprKind::Call { name, .. } if name == "seriesByTag" => {
            let raw = &target.text[expr.span.clone()];
            Ok(Value::Series(context.fetched(raw, Source::Tags)?))
        }
        ExprKind::Call { name, args, kwargs } => {
            let at = || position(target, expr);
            let function = function::find(name)
                .ok_or_else(|| EvalError::UnknownFunction { name: name.clone(), position: at() })?;
            context.count_call()?;
            let held = context.held();
            let mut is_missing = false;
            let mut argument = |expr: &'a Expr| match value(context, target, expr, replacements) {
                Err(Fault::Missing) => {
                    is_missing = true;
                    Ok(Value::Missing)
                }
                other => other,
            };
            let positional = args.iter().map(&mut argument).collect::<Result<Vec<_>, Fault>>()?;
            let named = kwargs
                .iter()
                .map(|(key, expr)| Ok((key.clone(), argument(expr)?)))
                .collect::<Result<Vec<_>, Fault>>()?;
            let first =
                args.first().map(|first| Call { target, first, replacements: Rc::clone(replacements) });
            let named_fault = |fault| match fault {
                Fault::Argument(reason) => {
                    Fault::Error(EvalError::Argument { function: name.clone(), reason, position: at() })
                }
                other => other,
            };
            let mut args = Args::bind(function.params, positional, named)
                .map_err(|r| named_fault(Fault::Argument(r)))?;
            context.call = first;
            let result = if is_missing {
                context.look_ahead(function, &args).and(Err(Fault::Missing))
            } else {
                (function.eval)(&mut args, context)
            };
            let result = result.inspect_err(|_| context.let_go(held)).map_err(named_fault)?;
            context.count_made(result.points())?;
            context.keep(held, &result)?;
            Ok(result)
        }
    }
}

fn position(target: &Target, expr: &Expr) -> usize {
    let before = target.text.get(..expr.span.start).unwrap_or_default();
    before.chars().count() + 1
}

/// A fetch over a range.
pub(crate) fn fetch(expression: &str, source: Source, range: TimeRange) -> Fetch {
    Fetch { expression: expression.into(), source, range }
}
