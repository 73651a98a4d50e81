//! The context in which a function is evaluated.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::rc::Rc;

use crate::fault::{EvalError, Fault};
use crate::fetch::{Fetch, Fetched, Source};
use crate::request::{Limited, Request, TimeRange};
use crate::series::TimeSeries;
use crate::target::{Expr, ExprKind, Target, parse_beginning};
use crate::template::Replacements;
use crate::value::Value;
use crate::watch::{Observer, Pace, Place, Watch};

/// Evaluates expressions and calls for functions that need it.
pub(crate) trait Evaluator: Debug {
    /// Evaluates an expression whose value must be series.
    fn series<'a>(
        &self,
        context: &mut Context<'a>,
        target: &'a Target,
        expr: &'a Expr,
        replacements: &Rc<Replacements>,
    ) -> Result<Vec<TimeSeries>, Fault>;

    /// Calls a function with values in place of expressions. Its result must be series.
    fn call(
        &self,
        context: &mut Context<'_>,
        name: &str,
        values: Vec<Value>,
    ) -> Result<Vec<TimeSeries>, Fault>;

    /// Whether a function with this name exists that may be a callback.
    fn is_callback(&self, name: &str) -> bool;
}

/// State that all evaluations of a request share.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    request: &'a Request,
    fetched: &'a Fetched,
    missing: RefCell<(Vec<Fetch>, HashSet<Fetch>)>,
    calls: Cell<usize>,
    points: Cell<usize>,
    /// The memory of the values held now, in bytes, without the series that were fetched.
    held: Cell<usize>,
    /// The part of `held` that the running call has counted for points of its result, in bytes.
    ahead: Cell<usize>,
    watch: &'a dyn Watch,
    /// The targets and their observer, if there is one.
    observed: Option<(&'a [Target], &'a dyn Observer)>,
    evaluator: &'a dyn Evaluator,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(
        request: &'a Request,
        fetched: &'a Fetched,
        watch: &'a dyn Watch,
        observed: Option<(&'a [Target], &'a dyn Observer)>,
        evaluator: &'a dyn Evaluator,
    ) -> Self {
        Self {
            request,
            fetched,
            missing: RefCell::default(),
            calls: Cell::new(0),
            points: Cell::new(0),
            held: Cell::new(0),
            ahead: Cell::new(0),
            watch,
            observed,
            evaluator,
        }
    }

    /// Ends the evaluation. Returns the fetches that are missing.
    pub(crate) fn into_missing(self) -> Vec<Fetch> {
        if let Some((_, observer)) = self.observed {
            observer.is_done(self.calls.get(), self.points.get());
        }
        self.missing.into_inner().0
    }
}

/// The first argument of the current call, for functions that evaluate it again.
#[derive(Debug, Clone)]
pub(crate) struct Call<'a> {
    pub(crate) target: &'a Target,
    pub(crate) first: &'a Expr,
    pub(crate) replacements: Rc<Replacements>,
}

/// The running totals of `stacked()`, by the name of the stack.
pub(crate) type Stacks = Rc<RefCell<HashMap<String, Vec<f64>>>>;

/// The context of an evaluation. What functions change in it (`setXFilesFactor`, `stacked`) affects everything
/// evaluated later, also in later targets.
#[derive(Debug, Clone)]
pub(crate) struct Context<'a> {
    shared: &'a Shared<'a>,
    pub(crate) range: TimeRange,
    pub(crate) x_files_factor: f64,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) first_argument: Option<Call<'a>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Self {
        let request = shared.request;
        Self {
            shared,
            range: request.range,
            x_files_factor: request.x_files_factor,
            stacks: None,
            first_argument: None,
        }
    }

    pub(crate) fn request(&self) -> &'a Request {
        self.shared.request
    }

    /// The observer of this part of the request's targets, if there is one, and the place of the part.
    pub(crate) fn observer(&self, target: &Target, expr: &Expr) -> Option<(&'a dyn Observer, Place)> {
        let (targets, observer) = self.shared.observed?;
        if !matches!(expr.kind, ExprKind::Call { .. } | ExprKind::Path(_)) {
            return None;
        }
        let target = targets.iter().position(|other| std::ptr::eq(other, target))?;
        Some((observer, Place { target, span: expr.span.clone() }))
    }

    /// The series of an expression over the range of this context.
    pub(crate) fn fetched(&self, expression: &str, source: Source) -> Result<Vec<TimeSeries>, Fault> {
        let fetch = Fetch { expression: expression.into(), source, range: self.range };
        if let Some(series) = self.shared.fetched.get(&fetch) {
            let mut series = series.clone();
            series.iter_mut().for_each(|series| series.x_files_factor = self.x_files_factor);
            return Ok(series);
        }
        let (missing, seen) = &mut *self.shared.missing.borrow_mut();
        let limit = self.request().limits.fetches;
        if self.shared.fetched.len() + missing.len() >= limit {
            return Err(EvalError::Limit { what: Limited::Fetches, limit }.into());
        }
        if seen.insert(fetch.clone()) {
            missing.push(fetch);
        }
        Err(Fault::Missing)
    }

    /// Evaluates the first argument of the call again, over another range.
    pub(crate) fn again(&self, range: TimeRange) -> Result<Vec<TimeSeries>, Fault> {
        let Some(Call { target, first, replacements }) = self.first_argument.clone() else {
            return Err("the first argument is missing".into());
        };
        let mut context = Context { range, first_argument: None, ..self.clone() };
        self.shared.evaluator.series(&mut context, target, first, &replacements)
    }

    /// Evaluates a target that a function made from names, over the range of this context. Names may contain
    /// blanks and brackets; as in graphite-web, only the readable beginning of the target counts.
    pub(crate) fn target(&self, text: &str) -> Result<Vec<TimeSeries>, Fault> {
        self.count_call()?;
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let target = parse_beginning(text);
        let target = target.map_err(|error| format!("it made the target {text:?}, which failed: {error}"))?;
        let mut context = Context::new(self.shared);
        context.range = self.range;
        context.x_files_factor = self.x_files_factor;
        context.stacks = self.stacks.clone();
        let positioned = |fault| match fault {
            Fault::Error(error) => Fault::from(format!("it made the target {text:?}, which failed: {error}")),
            other => other,
        };
        let observer = self.shared.observed.map(|(_, observer)| observer);
        if let Some(observer) = observer {
            observer.begins_made(&target);
        }
        let result = self.shared.evaluator.series(&mut context, &target, &target.expr, &Rc::default());
        if let Some(observer) = observer {
            observer.ends_made(&target, result.as_ref().ok().map(Vec::as_slice));
        }
        result.map_err(positioned)
    }

    /// Calls a function with values in place of expressions.
    pub(crate) fn call(&mut self, name: &str, values: Vec<Value>) -> Result<Vec<TimeSeries>, Fault> {
        let evaluator = self.shared.evaluator;
        evaluator.call(self, name, values)
    }

    /// Whether a function with this name exists that may be a callback.
    pub(crate) fn is_callback(&self, name: &str) -> bool {
        self.shared.evaluator.is_callback(name)
    }

    pub(crate) fn count_call(&self) -> Result<(), Fault> {
        let calls = self.shared.calls.get() + 1;
        self.shared.calls.set(calls);
        let limit = self.request().limits.calls;
        if calls > limit { Err(EvalError::Limit { what: Limited::Calls, limit }.into()) } else { Ok(()) }
    }

    /// Counts points that a function is about to make, and checks that there is memory for them. They are held until
    /// the call ends, so that a call that makes many series cannot hold more than it may.
    pub(crate) fn count_points(&self, points: usize) -> Result<(), Fault> {
        self.count_made(points)?;
        self.may_hold_points(points)?;
        let bytes = points.saturating_mul(size_of::<f64>());
        self.shared.held.set(self.held().saturating_add(bytes));
        self.shared.ahead.set(self.shared.ahead.get().saturating_add(bytes));
        Ok(())
    }

    /// Begins the count of a call's points. Returns the count of the enclosing call, for [`Self::leave`].
    pub(crate) fn enter(&self) -> usize {
        self.shared.ahead.replace(0)
    }

    /// Ends the count of a call's points and releases them. The caller counts the result instead.
    pub(crate) fn leave(&self, around: usize) {
        let counted = self.shared.ahead.replace(around);
        self.shared.held.set(self.held().saturating_sub(counted));
    }

    /// Checks that there is memory for `points` temporary points.
    pub(crate) fn may_hold_points(&self, points: usize) -> Result<(), Fault> {
        self.may_hold(points.saturating_mul(size_of::<f64>()))
    }

    /// Checks that there is memory for `names` names of `bytes` bytes each.
    pub(crate) fn may_hold_names(&self, names: usize, bytes: usize) -> Result<(), Fault> {
        self.may_hold(names.saturating_mul(bytes))
    }

    /// Counts the points of a result.
    pub(crate) fn count_made(&self, points: usize) -> Result<(), Fault> {
        let made = self.shared.points.get().saturating_add(points);
        self.shared.points.set(made);
        let limit = self.request().limits.points;
        if made > limit {
            return Err(EvalError::Limit { what: Limited::Points, limit }.into());
        }
        Ok(())
    }

    /// Checks whether the evaluation may continue. Called between the series of long work.
    pub(crate) fn go_on(&self) -> Result<(), Fault> {
        self.may_hold(0)
    }

    /// A counter for long loops that checks whether the evaluation may continue.
    pub(crate) fn pace(&self) -> Pace<'a> {
        Pace::new(self.shared.watch, self.held())
    }

    /// The memory held now, in bytes. Pass this value to [`Self::keep`] or [`Self::let_go`] later.
    pub(crate) fn held(&self) -> usize {
        self.shared.held.get()
    }

    /// Replaces all memory held since `before` by that of the result.
    pub(crate) fn keep(&self, before: usize, result: &Value) -> Result<(), Fault> {
        let bytes = result.bytes();
        let went_on = self.may_hold(bytes);
        self.shared.held.set(before.saturating_add(bytes));
        went_on
    }

    /// Releases all memory held since `before`.
    pub(crate) fn let_go(&self, before: usize) {
        self.shared.held.set(before);
    }

    fn may_hold(&self, more: usize) -> Result<(), Fault> {
        if self.shared.watch.may_hold(self.held().saturating_add(more)) {
            Ok(())
        } else {
            Err(EvalError::Stopped.into())
        }
    }
}
