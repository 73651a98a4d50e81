//! What a function knows beside its arguments.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::eval::{self, EvalError, Fetched};
use crate::function::{Args, Function, Value};
use crate::plan::{Fetch, Source};
use crate::request::{Limited, Request, TimeRange};
use crate::series::TimeSeries;
use crate::target::{Expr, Target, parse};
use crate::template::Replacements;
use crate::watch::{Pace, Watch};

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Series have to be fetched first; which ones is noted.
    Missing,
    /// The arguments do not fit the function that is being evaluated; says in words why.
    Argument(String),
    Error(EvalError),
}

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Self {
        Self::Error(error)
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Argument(reason)
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Argument(reason.to_owned())
    }
}

/// What all evaluations of a request share.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    request: &'a Request,
    fetched: &'a Fetched,
    missing: RefCell<(Vec<Fetch>, HashSet<Fetch>)>,
    calls: Cell<usize>,
    points: Cell<usize>,
    /// Bytes of the values that are held now, beside what was fetched.
    held: Cell<usize>,
    watch: &'a dyn Watch,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(request: &'a Request, fetched: &'a Fetched, watch: &'a dyn Watch) -> Self {
        Self {
            request,
            fetched,
            missing: RefCell::default(),
            calls: Cell::new(0),
            points: Cell::new(0),
            held: Cell::new(0),
            watch,
        }
    }

    pub(crate) fn into_missing(self) -> Vec<Fetch> {
        self.missing.into_inner().0
    }
}

/// The first argument of the call that is being evaluated, for functions that read it again.
#[derive(Debug, Clone)]
pub(crate) struct Call<'a> {
    pub(crate) target: &'a Target,
    pub(crate) first: &'a Expr,
    pub(crate) replacements: Rc<Replacements>,
}

/// Running totals of `stacked()`, by the name of the stack.
pub(crate) type Stacks = Rc<RefCell<HashMap<String, Vec<f64>>>>;

/// The circumstances of one evaluation. What functions change in it (`setXFilesFactor`, `stacked`)
/// holds for what is evaluated after them, also in later targets.
#[derive(Debug, Clone)]
pub(crate) struct Context<'a> {
    shared: &'a Shared<'a>,
    pub(crate) range: TimeRange,
    pub(crate) x_files_factor: f64,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) call: Option<Call<'a>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Self {
        let request = shared.request;
        Self {
            shared,
            range: request.range,
            x_files_factor: request.x_files_factor,
            stacks: None,
            call: None,
        }
    }

    pub(crate) fn request(&self) -> &'a Request {
        self.shared.request
    }

    /// The series of an expression over the range of this context.
    pub(crate) fn fetched(&self, expression: &str, source: Source) -> Result<Vec<TimeSeries>, Fault> {
        let fetch = eval::fetch(expression, source, self.range);
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

    /// The first argument of the call, evaluated over another range.
    pub(crate) fn again(&self, range: TimeRange) -> Result<Vec<TimeSeries>, Fault> {
        let Some(Call { target, first, replacements }) = self.call.clone() else {
            return Err("the first argument is missing".into());
        };
        let mut context = Context { range, call: None, ..self.clone() };
        eval::series(&mut context, target, first, &replacements)
    }

    /// A target that a function wrote, evaluated over the range of this context.
    pub(crate) fn target(&self, text: &str) -> Result<Vec<TimeSeries>, Fault> {
        self.count_call()?;
        let target = parse(text).map_err(|error| format!("the target {text:?} that it made: {error}"))?;
        let mut context = Context::new(self.shared);
        context.range = self.range;
        context.x_files_factor = self.x_files_factor;
        context.stacks = self.stacks.clone();
        let positioned = |fault| match fault {
            Fault::Error(error) => Fault::Argument(format!("in the target {text:?} that it made: {error}")),
            other => other,
        };
        eval::series(&mut context, &target, &target.expr, &Rc::default()).map_err(positioned)
    }

    /// Notes what a function will need of its first argument, while that argument is not there yet.
    pub(crate) fn look_ahead(&self, function: &Function, args: &Args) -> Result<(), Fault> {
        let Some(ranges) = function.ranges else { return Ok(()) };
        for range in ranges(args, self)? {
            match self.again(range) {
                Err(Fault::Missing) | Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn count_call(&self) -> Result<(), Fault> {
        let calls = self.shared.calls.get() + 1;
        self.shared.calls.set(calls);
        let limit = self.request().limits.calls;
        if calls > limit { Err(EvalError::Limit { what: Limited::Calls, limit }.into()) } else { Ok(()) }
    }

    /// Asked before points are made out of nothing.
    pub(crate) fn count_points(&self, points: usize) -> Result<(), Fault> {
        self.count_made(points)?;
        self.may_hold_points(points)
    }

    /// Asked before work that needs so much room for a while.
    pub(crate) fn may_hold_points(&self, points: usize) -> Result<(), Fault> {
        self.may_hold(points.saturating_mul(size_of::<f64>()))
    }

    /// Asked before names are made: so many, with so many bytes each.
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

    /// Asked between the series of work that takes long.
    pub(crate) fn go_on(&self) -> Result<(), Fault> {
        self.may_hold(0)
    }

    /// For loops that take long.
    pub(crate) fn pace(&self) -> Pace<'a> {
        Pace::new(self.shared.watch, self.held())
    }

    /// What is held now, to be given back to [`Self::keep`] or [`Self::let_go`].
    pub(crate) fn held(&self) -> usize {
        self.shared.held.get()
    }

    /// Takes a result for all that came to be held since `before`.
    pub(crate) fn keep(&self, before: usize, result: &Value) -> Result<(), Fault> {
        let bytes = result.bytes();
        let went_on = self.may_hold(bytes);
        self.shared.held.set(before.saturating_add(bytes));
        went_on
    }

    /// Forgets what came to be held since `before`.
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
