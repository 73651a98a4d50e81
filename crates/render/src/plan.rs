//! What has to be fetched before targets can be evaluated.

use std::collections::HashSet;
use std::sync::Arc;

use crate::eval::{EvalError, TargetError, known_function};
use crate::request::{Request, TimeRange};
use crate::target::{Expr, ExprKind, Literal, Target};
use crate::template::{Replacements, Resolved};

/// How the metrics of a fetch are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The expression is a name or a glob.
    Glob,
    /// The expression is the raw text of a `seriesByTag(…)` call.
    Tags,
}

/// One expression over one range.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fetch {
    /// The text as it names results, and as cluster front ends expect it back.
    pub expression: Arc<str>,
    /// How to find its metrics.
    pub source: Source,
    /// For when.
    pub range: TimeRange,
}

/// All fetches of a request, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which the targets name them.
    pub fetches: Vec<Fetch>,
}

impl Plan {
    /// Goes through the targets.
    pub fn new(targets: &[Target], request: &Request) -> Result<Self, TargetError> {
        let mut planner = Planner { request, plan: Self::default(), seen: HashSet::new() };
        for (index, target) in targets.iter().enumerate() {
            planner
                .expression(target, &target.expr, &Replacements::default())
                .map_err(|error| TargetError { target: index, error })?;
        }
        Ok(planner.plan)
    }
}

struct Planner<'a> {
    request: &'a Request,
    plan: Plan,
    seen: HashSet<Fetch>,
}

impl Planner<'_> {
    fn expression(
        &mut self,
        target: &Target,
        expr: &Expr,
        replacements: &Replacements,
    ) -> Result<(), EvalError> {
        match &expr.kind {
            ExprKind::Literal(_) => {}
            ExprKind::Path(path) => match replacements.resolve(path)? {
                Resolved::Path(path) | Resolved::Literal(Literal::String(path)) => {
                    self.fetch(&path, Source::Glob);
                }
                Resolved::Literal(_) => {}
            },
            ExprKind::Template { body, params } => {
                let replacements = Replacements::new(params, &self.request.templates);
                self.expression(target, body, &replacements)?;
            }
            ExprKind::Call { name, .. } if name == "seriesByTag" => {
                self.fetch(&target.text[expr.span.clone()], Source::Tags);
            }
            ExprKind::Call { name, args, kwargs } => {
                known_function(target, expr, name)?;
                for arg in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
                    self.expression(target, arg, replacements)?;
                }
            }
        }
        Ok(())
    }

    fn fetch(&mut self, expression: &str, source: Source) {
        let fetch = Fetch { expression: expression.into(), source, range: self.request.range };
        if self.seen.insert(fetch.clone()) {
            self.plan.fetches.push(fetch);
        }
    }
}
