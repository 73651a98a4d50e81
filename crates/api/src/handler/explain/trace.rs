//! The result of each part of the targets, and how long it took.

mod made;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use plumbago_render::{Expr, ExprKind, Observer, Place, Target, TimeSeries};
use serde_json::{Value, json};

use self::made::MadeTargets;

/// The parts of the targets in one round of an evaluation.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The parts that are being evaluated, the innermost last.
    open: RefCell<Vec<Open>>,
    seen: RefCell<HashMap<Place, Seen>>,
    made: RefCell<MadeTargets>,
    pub(super) calls: Cell<usize>,
    pub(super) points: Cell<usize>,
}

/// A part that is being evaluated.
#[derive(Debug)]
struct Open {
    /// The place of the part in its target; `None` for a target that a function made.
    place: Option<Place>,
    began: Instant,
    /// The total time of its inner parts so far.
    of_parts: Duration,
}

/// The result of a part.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// How often the part was evaluated: once for each range over which it is needed.
    evaluations: usize,
    total: Duration,
    own: Duration,
    /// The result of the last evaluation; `None` if that evaluation returned no series.
    result: Option<Amount>,
}

/// Number of series, and number of values in all of them.
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

impl Seen {
    fn add(&mut self, (total, of_parts): (Duration, Duration), series: Option<&[TimeSeries]>) {
        self.evaluations += 1;
        self.total += total;
        self.own += total.saturating_sub(of_parts);
        self.result = series.map(Amount::of);
    }

    fn show(&self, node: &mut Value) {
        node["evaluations"] = json!(self.evaluations);
        node["ms"] = millis(self.total);
        node["own_ms"] = millis(self.own);
        if let Some(Amount { series, values, known }) = self.result {
            node["series"] = json!(series);
            node["values"] = json!(values);
            node["known"] = json!(known);
        }
    }
}

impl Observer for Trace {
    fn begins(&self, place: &Place) {
        self.open(Some(place.clone()));
    }

    fn ends(&self, place: &Place, series: Option<&[TimeSeries]>) {
        let Some(time) = self.close() else { return };
        self.seen.borrow_mut().entry(place.clone()).or_default().add(time, series);
    }

    fn begins_made(&self, _: &Target) {
        self.open(None);
    }

    fn ends_made(&self, target: &Target, series: Option<&[TimeSeries]>) {
        let Some(time) = self.close() else { return };
        let open = self.open.borrow();
        let Some(maker) = open.iter().rev().find_map(|open| open.place.as_ref()) else { return };
        if let Some(seen) = self.made.borrow_mut().seen(maker, target) {
            seen.add(time, series);
        }
    }

    fn is_done(&self, calls: usize, points: usize) {
        self.calls.set(calls);
        self.points.set(points);
    }
}

impl Trace {
    fn open(&self, place: Option<Place>) {
        let open = Open { place, began: Instant::now(), of_parts: Duration::ZERO };
        self.open.borrow_mut().push(open);
    }

    /// Closes the innermost open part. Returns the time that it took, and the time of its inner parts.
    fn close(&self) -> Option<(Duration, Duration)> {
        let mut open = self.open.borrow_mut();
        let Open { began, of_parts, .. } = open.pop()?;
        let total = began.elapsed();
        if let Some(outer) = open.last_mut() {
            outer.of_parts += total;
        }
        Some((total, of_parts))
    }

    /// The tree of a target's parts. `fetches` returns the numbers of the fetches of an expression.
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
        let place = Place { target: number, span: expr.span.clone() };
        if let Some(seen) = self.seen.borrow().get(&place) {
            seen.show(&mut node);
        }
        self.made.borrow().show(&place, &mut node, fetches);
        node
    }
}

/// Converts a time to milliseconds, rounded to the microsecond.
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

    /// The trace and the tree of a target that needs no fetch and has `count` series as its result.
    fn traced(text: &str, count: usize) -> (Trace, Value) {
        let targets = [parse(text).unwrap()];
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
        assert!(matches!(step, Step::Done(series) if series.len() == count));
        assert!(trace.open.borrow().is_empty());
        let tree = trace.tree(0, &targets[0], &|_| Vec::new());
        (trace, tree)
    }

    #[test]
    fn every_call_of_a_target_is_in_the_tree() {
        let (trace, tree) = traced("alias(sum(constantLine(2), constantLine(3)), 'ä')", 1);
        assert_eq!(tree["function"], "alias");
        assert_eq!((&tree["begin"], &tree["end"]), (&json!(0), &json!(49)));
        assert_eq!(tree["arguments"][1], json!({"text": "'ä'", "begin": 45, "end": 48, "kind": "literal"}));
        let sum = &tree["arguments"][0];
        assert_eq!((&sum["series"], &sum["evaluations"]), (&json!(1), &json!(1)));
        assert_eq!(sum["arguments"].as_array().unwrap().len(), 2);
        assert_eq!(sum["arguments"][1]["known"], sum["arguments"][1]["values"]);
        assert_eq!(trace.calls.get(), 4);
        assert_eq!((&tree["made"], &sum["made"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn targets_that_a_function_made_are_below_its_call() {
        let text = "alias(applyByNode(constantLine(2), 0, \"scale(constantLine(%), 3)\"), 'x')";
        let (_, tree) = traced(text, 1);
        assert_eq!(tree["made"], Value::Null);
        let call = &tree["arguments"][0];
        let made = call["made"].as_array().unwrap();
        assert_eq!(made.len(), 1, "{call}");
        assert_eq!(made[0]["text"], "scale(constantLine(2), 3)");
        assert_eq!((&made[0]["kind"], &made[0]["plots"]), (&json!("made"), &json!(true)));
        assert_eq!((&made[0]["series"], &made[0]["evaluations"]), (&json!(1), &json!(1)));
        assert_eq!((&made[0]["fetches"], &call["more_made"]), (&json!([]), &json!(0)));
        assert!(made[0]["ms"].as_f64().unwrap() <= call["ms"].as_f64().unwrap());
    }

    #[test]
    fn what_one_function_made_belongs_to_the_call_even_inside_another() {
        let inner = "applyByNode(constantLine(%), 0, 'constantLine(5)')";
        let (_, tree) = traced(&format!("applyByNode(constantLine(2), 0, \"{inner}\")"), 1);
        let texts: Vec<_> = tree["made"].as_array().unwrap().iter().map(|made| &made["text"]).collect();
        assert_eq!(texts, ["constantLine(5)", &inner.replace('%', "2")]);
    }

    #[test]
    fn only_the_first_dozens_are_shown() {
        let lines: Vec<_> = (100..140).map(|value| format!("constantLine({value})")).collect();
        let (_, tree) = traced(&format!("applyByNode(group({}), 0, 'constantLine(%)')", lines.join(",")), 40);
        assert_eq!(tree["made"].as_array().unwrap().len(), made::SHOWN);
        assert_eq!(tree["more_made"], 40 - made::SHOWN);
    }
}
