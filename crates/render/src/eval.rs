//! Evaluates targets over the series that were fetched.

use std::rc::Rc;

use crate::context::{Call, Context, Evaluator, Shared};
pub use crate::fault::{EvalError, TargetError};
use crate::fault::{Fault, Mistake};
use crate::fetch::{FetchPlan, Fetched, Source};
use crate::function::{Args, Function};
use crate::functions;
use crate::request::Request;
use crate::series::TimeSeries;
use crate::target::{Expr, ExprKind, Literal, Target};
use crate::template::{Replacements, Resolved};
use crate::value::Value;
use crate::watch::{Observer, Unwatched, Watch};

/// The result of one round of an evaluation.
#[derive(Debug)]
pub enum Step {
    /// The evaluation is complete. These are the series of the answer.
    Done(Vec<TimeSeries>),
    /// The evaluation needs more series. Fetch them, add them to the others, and evaluate again.
    Fetch(FetchPlan),
}

impl FetchPlan {
    /// The fetches of the first round.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError`] if a target is wrong, or if it exceeds a limit of the request.
    pub fn new(targets: &[Target], request: &Request) -> Result<Self, TargetError> {
        match evaluate(targets, request, &Fetched::default())? {
            Step::Fetch(plan) => Ok(plan),
            Step::Done(_) => Ok(Self::default()),
        }
    }
}

/// Evaluates targets in order, and returns the series of all of them.
///
/// Nothing is kept between two rounds. Each part of a round stops where a series is missing, so nearly all
/// work is done in the last round.
///
/// # Errors
///
/// Returns [`TargetError`] if a target is wrong, or if the evaluation exceeds a limit of the request.
pub fn evaluate(targets: &[Target], request: &Request, fetched: &Fetched) -> Result<Step, TargetError> {
    evaluate_watched(targets, request, fetched, &Unwatched)
}

/// Evaluates like [`evaluate`], until `watch` stops it.
///
/// # Errors
///
/// Returns [`TargetError`] as [`evaluate`] does, and [`EvalError::Stopped`] if the watch stops the evaluation.
pub fn evaluate_watched(
    targets: &[Target],
    request: &Request,
    fetched: &Fetched,
    watch: &dyn Watch,
) -> Result<Step, TargetError> {
    round(targets, request, fetched, watch, None)
}

/// Evaluates like [`evaluate_watched`], and reports the result of each part of the targets to `observer`.
///
/// # Errors
///
/// The same as [`evaluate_watched`].
pub fn evaluate_observed(
    targets: &[Target],
    request: &Request,
    fetched: &Fetched,
    watch: &dyn Watch,
    observer: &dyn Observer,
) -> Result<Step, TargetError> {
    round(targets, request, fetched, watch, Some(observer))
}

fn round(
    targets: &[Target],
    request: &Request,
    fetched: &Fetched,
    watch: &dyn Watch,
    observer: Option<&dyn Observer>,
) -> Result<Step, TargetError> {
    let observed = observer.map(|observer| (targets, observer));
    let shared = Shared::new(request, fetched, watch, observed, &Targets);
    let mut context = Context::new(&shared);
    let mut all = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let wrong = |error| TargetError { target: index, error };
        match series(&mut context, target, &target.expr, &Rc::default()) {
            Ok(series) if all.is_empty() => all = series,
            Ok(series) => all.extend(series),
            Err(Fault::Missing) => {}
            Err(Fault::Error(error)) => return Err(wrong(error)),
            Err(Fault::Argument(Mistake { reason, expected })) => {
                return Err(wrong(EvalError::Argument {
                    function: "target".to_owned(),
                    reason,
                    expected,
                    position: 1,
                }));
            }
        }
    }
    let missing = shared.into_missing();
    Ok(if missing.is_empty() { Step::Done(all) } else { Step::Fetch(FetchPlan { fetches: missing }) })
}

/// Evaluates an expression whose value must be series.
fn series<'a>(
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
        // In graphite-web an empty list of groups is an empty list of series.
        Value::Lists(lists) if lists.is_empty() => Ok(Vec::new()),
        Value::Literal(_) | Value::Lists(_) | Value::Missing => {
            Err(EvalError::NoSeries { position: position(target, expr) }.into())
        }
    }
}

/// Evaluates an expression, and reports it to the observer if there is one.
fn value<'a>(
    context: &mut Context<'a>,
    target: &'a Target,
    expr: &'a Expr,
    replacements: &Rc<Replacements>,
) -> Result<Value, Fault> {
    let Some((observer, place)) = context.observer(target, expr) else {
        return plain_value(context, target, expr, replacements);
    };
    observer.begins(&place);
    let result = plain_value(context, target, expr, replacements);
    let series = match &result {
        Ok(Value::Series(series)) => Some(series.as_slice()),
        _ => None,
    };
    observer.ends(&place, series);
    result
}

/// Evaluates an expression.
fn plain_value<'a>(
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
            let function = functions::find(name)
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
                Fault::Argument(Mistake { reason, expected }) => {
                    let function = name.clone();
                    Fault::Error(EvalError::Argument { function, reason, expected, position: at() })
                }
                other => other,
            };
            let mut args = Args::bind(function.params, positional, named, functions::is_callback)
                .map_err(|mistake| named_fault(Fault::Argument(mistake)))?;
            context.first_argument = first;
            let around = context.enter();
            let result = if is_missing {
                look_ahead(context, function, &args).and(Err(Fault::Missing))
            } else {
                (function.eval)(&mut args, context)
            };
            context.leave(around);
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

/// Records the ranges over which a function will read its first argument, while the argument's series are
/// not fetched yet.
fn look_ahead(context: &Context<'_>, function: &Function, args: &Args) -> Result<(), Fault> {
    let Some(ranges) = function.ranges else { return Ok(()) };
    for range in ranges(args, context)? {
        match context.again(range) {
            Err(Fault::Missing) | Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The evaluation as functions use it, through their context.
#[derive(Debug)]
struct Targets;

impl Evaluator for Targets {
    fn series<'a>(
        &self,
        context: &mut Context<'a>,
        target: &'a Target,
        expr: &'a Expr,
        replacements: &Rc<Replacements>,
    ) -> Result<Vec<TimeSeries>, Fault> {
        series(context, target, expr, replacements)
    }

    fn call(
        &self,
        context: &mut Context<'_>,
        name: &str,
        values: Vec<Value>,
    ) -> Result<Vec<TimeSeries>, Fault> {
        let function = functions::find(name).ok_or_else(|| format!("unknown function {name}"))?;
        context.count_call()?;
        let args = Args::bind(function.params, values, Vec::new(), functions::is_callback);
        let mut args = args.map_err(|mistake| format!("{name}: {}", mistake.reason))?;
        match (function.eval)(&mut args, context)? {
            Value::Series(series) => Ok(series),
            _ => Err(format!("{name} returns no series").into()),
        }
    }

    fn is_callback(&self, name: &str) -> bool {
        functions::is_callback(name)
    }
}
