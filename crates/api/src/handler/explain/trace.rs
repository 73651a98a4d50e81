//! What each part of the targets gave, and how long it took.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use plumbago_render::{Expr, ExprKind, Observer, Place, Target, TimeSeries};
use serde_json::{Value, json};

/// The parts of one round of an evaluation.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The parts that are being evaluated, the innermost last: when each began, and the time of its own parts so far.
    open: RefCell<Vec<(Instant, Duration)>>,
    seen: RefCell<HashMap<Place, Seen>>,
    pub(super) calls: Cell<usize>,
    pub(super) points: Cell<usize>,
}

/// What a part gave.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// How often it was evaluated: once for each range over which it is needed.
    evaluations: usize,
    total: Duration,
    own: Duration,
    /// The result of the last evaluation; `None` if that gave no series.
    result: Option<Amount>,
}

/// Series, and values in all of them.
#[derive(Debug, Default, Clone, Copy)]
struct Amount {
    series: usize,
    values: usize,
    known: usize,
}

impl Amount {
    fn of(series: &[TimeSeries]) -> Self {
        let values = || series.iter().flat_map(|one| one.values.iter());
        let known = values().filter(|value| !value.is_nan()).count();
        Self { series: series.len(), values: values().count(), known }
    }
}

impl Observer for Trace {
    fn begins(&self, _: &Place) {
        self.open.borrow_mut().push((Instant::now(), Duration::ZERO));
    }

    fn ends(&self, place: &Place, series: Option<&[TimeSeries]>) {
        let mut open = self.open.borrow_mut();
        let Some((began, of_parts)) = open.pop() else { return };
        let total = began.elapsed();
        if let Some((_, of_parts)) = open.last_mut() {
            *of_parts += total;
        }
        let mut seen = self.seen.borrow_mut();
        let seen = seen.entry(place.clone()).or_default();
        seen.evaluations += 1;
        seen.total += total;
        seen.own += total.saturating_sub(of_parts);
        seen.result = series.map(Amount::of);
    }

    fn is_done(&self, calls: usize, points: usize) {
        self.calls.set(calls);
        self.points.set(points);
    }
}

impl Trace {
    /// The tree of a target's parts. `fetches` returns the numbers of the fetches with an expression.
    pub(super) fn tree(&self, number: usize, target: &Target, fetches: &dyn Fn(&str) -> Vec<usize>) -> Value {
        self.node(number, target, &target.expr, fetches)
    }

    fn node(
        &self,
        number: usize,
        target: &Target,
        expr: &Expr,
        fetches: &dyn Fn(&str) -> Vec<usize>,
    ) -> Value {
        let part = |expr: &Expr| self.node(number, target, expr, fetches);
        let text = target.text.get(expr.span.clone()).unwrap_or_default();
        let begin = target.text.get(..expr.span.start).unwrap_or_default().chars().count();
        let mut node = json!({"text": text, "begin": begin, "end": begin + text.chars().count()});
        match &expr.kind {
            ExprKind::Literal(_) => node["kind"] = json!("literal"),
            ExprKind::Path(path) => {
                node["kind"] = json!("name");
                node["fetches"] = json!(fetches(path));
            }
            ExprKind::Call { name, .. } if name == "seriesByTag" => {
                node["kind"] = json!("tags");
                node["fetches"] = json!(fetches(text));
            }
            ExprKind::Call { name, args, kwargs } => {
                node["kind"] = json!("call");
                node["function"] = json!(name);
                let named = kwargs.iter().map(|(_, expr)| expr);
                node["arguments"] = args.iter().chain(named).map(part).collect();
            }
            ExprKind::Template { body, .. } => {
                node["kind"] = json!("template");
                node["arguments"] = json!([part(body)]);
            }
        }
        if let Some(seen) = self.seen.borrow().get(&Place { target: number, span: expr.span.clone() }) {
            node["evaluations"] = json!(seen.evaluations);
            node["ms"] = millis(seen.total);
            node["own_ms"] = millis(seen.own);
            if let Some(Amount { series, values, known }) = seen.result {
                node["series"] = json!(series);
                node["values"] = json!(values);
                node["known"] = json!(known);
            }
        }
        node
    }
}

/// A time in milliseconds, to the microsecond.
pub(super) fn millis(time: Duration) -> Value {
    json!(time.as_micros() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use plumbago_render::{
        Fetched, Limits, Request, Step, TimeRange, TimeZone, Watch, evaluate_observed, parse,
    };

    use super::*;

    #[derive(Debug)]
    struct Always;

    impl Watch for Always {
        fn may_hold(&self, _: usize) -> bool {
            true
        }
    }

    #[test]
    fn every_call_of_a_target_is_in_the_tree() {
        let targets = [parse("alias(sum(constantLine(2), constantLine(3)), 'ä')").unwrap()];
        let request = Request {
            range: TimeRange { from: 0, until: 600 },
            now: 600,
            zone: TimeZone::utc(),
            x_files_factor: 0.0,
            templates: Vec::new(),
            limits: Limits::default(),
        };
        let trace = Trace::default();
        let step = evaluate_observed(&targets, &request, &Fetched::default(), &Always, &trace).unwrap();
        assert!(matches!(step, Step::Done(series) if series.len() == 1));
        let tree = trace.tree(0, &targets[0], &|_| Vec::new());
        assert_eq!(tree["function"], "alias");
        assert_eq!((&tree["begin"], &tree["end"]), (&json!(0), &json!(49)));
        assert_eq!(tree["arguments"][1], json!({"text": "'ä'", "begin": 45, "end": 48, "kind": "literal"}));
        let sum = &tree["arguments"][0];
        assert_eq!((&sum["series"], &sum["evaluations"]), (&json!(1), &json!(1)));
        assert_eq!(sum["arguments"].as_array().unwrap().len(), 2);
        assert_eq!(sum["arguments"][1]["known"], sum["arguments"][1]["values"]);
        assert_eq!(trace.calls.get(), 4);
        assert!(trace.open.borrow().is_empty());
    }
}
