//! The points that rules make are those of a plain model, in which each buffer has all of its values for itself.

use std::sync::Arc;

use plumbago_model::rules::{AggregationRule, AggregationRules, RuleMethod};
use plumbago_model::{Clock, PointBatch};
use proptest::prelude::*;

use super::tests::{NAMES, Rig};
use crate::interval::tests::sorted_percentile;

/// Rules whose buffers get the same points or some of the same points, buffers that get a point twice, and buffers
/// that take another frequency or method when another rule feeds them.
const RULES: [&str; 15] = [
    "all (10) = count *.*",
    "<x>.sum (10) = sum <x>.*",
    "<x>.avg (10) = avg <x>.*",
    "<x>.min (10) = min <x>.a",
    "<x>.max (10) = max <x>.*",
    "<x>.slow (20) = sum <x>.*",
    "<x>.p50 (10) = p50 <x>.*",
    "<x>.p999 (10) = p999 <x>.*",
    "<x>.p75 (10) = p75 <x>.b",
    "of.<y>.p90 (10) = p90 *.<y>",
    "of.<y>.p50 (10) = p50 *.<y>",
    "<x>.twice (10) = sum <x>.*\n<x>.twice (10) = sum <x>.a",
    "<x>.often (10) = p80 <x>.a\n<x>.often (10) = p80 <x>.a",
    "<x>.mixed (10) = p80 <x>.a\n<x>.mixed (20) = count <x>.*",
    "mixed (10) = p95 s.*\nmixed (10) = min *.b",
];

fn text(chosen: u16) -> String {
    let chosen = RULES.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
    chosen.map(|(_, rule)| format!("{rule}\n")).collect()
}

#[derive(Debug, Clone)]
enum Step {
    /// Points: the number of the name, seconds before now, and the value.
    Feed(Vec<(usize, u32, f64)>),
    /// This many seconds pass.
    Pass(i64),
    Compute,
    Close,
    /// These rules, one for each bit, replace the present ones.
    Reload(u16),
    Forget,
    Rewrite,
    Restart,
}

fn some_rules() -> impl Strategy<Value = u16> {
    prop_oneof![Just(u16::MAX), any::<u16>(), any::<(u16, u16)>().prop_map(|(a, b)| a | b)]
}

fn some_steps() -> impl Strategy<Value = Vec<Step>> {
    let value = prop_oneof![
        1 => Just(0.0_f64), 1 => Just(-0.0), 1 => Just(f64::INFINITY), 1 => Just(f64::NEG_INFINITY),
        6 => -9.0..9.0_f64, 3 => (-3..3_i8).prop_map(f64::from),
    ];
    let points = prop::collection::vec((0..NAMES.len(), 0..60_u32, value), 1..=9);
    let step = prop_oneof![
        9 => points.prop_map(Step::Feed),
        3 => (1..60_i64).prop_map(Step::Pass),
        4 => Just(Step::Compute),
        2 => Just(Step::Close),
        1 => some_rules().prop_map(Step::Reload),
        1 => Just(Step::Forget),
        1 => Just(Step::Rewrite),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..50)
}

/// An open interval.
struct Open {
    start: u32,
    values: Vec<f64>,
    is_active: bool,
    is_closing: bool,
}

struct Buffer {
    name: String,
    output: Arc<str>,
    frequency: u32,
    method: RuleMethod,
    open: Vec<Open>,
    due_ms: i64,
    is_retired: bool,
}

/// A point that a rule made: name, time, and the bits of the value; `None` if that is not a number.
type Made = (String, u32, Option<u64>);

#[derive(Default)]
struct Model {
    rules: AggregationRules,
    buffers: Vec<Buffer>,
}

impl Model {
    fn feed(&mut self, name: &str, timestamp: u32, value: f64, now_ms: i64) {
        let Self { rules, buffers } = self;
        rules.visit(name, |at, output| {
            let rule = &rules.rules()[at];
            let found = buffers.iter().position(|buffer| buffer.name == output && !buffer.is_retired);
            let found = found.unwrap_or_else(|| {
                buffers.push(Buffer::new(output, rule));
                buffers.len() - 1
            });
            buffers[found].add(rule, timestamp, value, now_ms);
        });
    }

    fn compute(&mut self, now_ms: i64) -> Vec<Made> {
        self.close();
        let due = |buffer: &&mut Buffer| !buffer.open.is_empty() && buffer.due_ms <= now_ms;
        let mut made: Vec<Made> =
            self.buffers.iter_mut().filter(due).flat_map(|buffer| buffer.compute(now_ms)).collect();
        made.sort();
        made
    }

    fn close(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| buffer.open.retain(|open| !open.is_closing));
        self.buffers.retain(|buffer| !buffer.open.is_empty());
    }

    fn reload(&mut self, text: &str, now_ms: i64) {
        self.rules = AggregationRules::parse(text).0;
        for buffer in &mut self.buffers {
            let has_rule = self.rules.rules().iter().any(|rule| buffer.is_of(rule));
            if !has_rule && !buffer.is_retired {
                (buffer.is_retired, buffer.due_ms) = (true, now_ms);
            } else if has_rule && buffer.is_retired {
                buffer.is_retired = false;
                buffer.open.iter_mut().for_each(|open| open.is_closing = false);
            }
        }
    }

    fn restart(&mut self, now_ms: i64) {
        for buffer in &mut self.buffers {
            buffer.due_ms = now_ms;
            for open in &mut buffer.open {
                (open.is_active, open.is_closing) = (true, false);
            }
        }
    }

    /// Buffers with open intervals, open intervals, all values in them, and those that percentiles need.
    fn counts(&self) -> [u64; 4] {
        let count = |buffer: &Buffer| buffer.open.iter().map(|open| open.values.len() as u64).sum::<u64>();
        let kept = self.buffers.iter().filter(|buffer| matches!(buffer.method, RuleMethod::Percentile(_)));
        [
            self.buffers.len() as u64,
            self.buffers.iter().map(|buffer| buffer.open.len() as u64).sum(),
            self.buffers.iter().map(count).sum(),
            kept.map(count).sum(),
        ]
    }
}

impl Buffer {
    fn new(name: String, rule: &AggregationRule) -> Self {
        let (output, frequency, method) = (Arc::clone(&rule.output), rule.frequency, rule.method);
        Self { name, output, frequency, method, open: Vec::new(), due_ms: 0, is_retired: false }
    }

    fn is_of(&self, rule: &AggregationRule) -> bool {
        (&self.output, self.frequency, self.method) == (&rule.output, rule.frequency, rule.method)
    }

    fn add(&mut self, rule: &AggregationRule, timestamp: u32, value: f64, now_ms: i64) {
        if self.open.is_empty() {
            *self = Self::new(self.name.clone(), rule);
            self.due_ms = now_ms + i64::from(rule.frequency) * 1000;
        }
        let start = timestamp - timestamp % self.frequency;
        let at = self.open.iter().position(|open| open.start == start).unwrap_or_else(|| {
            self.open.push(Open { start, values: Vec::new(), is_active: false, is_closing: false });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        open.values.push(value);
        (open.is_active, open.is_closing) = (true, false);
    }

    fn compute(&mut self, now_ms: i64) -> Vec<Made> {
        let (now, frequency) = (now_ms / 1000, i64::from(self.frequency));
        let mut made = Vec::new();
        for open in &mut self.open {
            if std::mem::take(&mut open.is_active) {
                let value = value(self.method, &open.values);
                made.push((self.name.clone(), open.start, (!value.is_nan()).then_some(value.to_bits())));
            }
            let is_old = i64::from(open.start) < now - now % frequency - 5 * frequency;
            open.is_closing |= is_old || self.is_retired;
        }
        self.due_ms += frequency * 1000;
        if self.due_ms <= now_ms {
            self.due_ms = now_ms + frequency * 1000;
        }
        made
    }
}

fn value(method: RuleMethod, values: &[f64]) -> f64 {
    let all = values.iter().copied();
    match method {
        RuleMethod::Sum => all.fold(0.0, |sum, value| sum + value),
        RuleMethod::Avg => all.fold(0.0, |sum, value| sum + value) / values.len() as f64,
        RuleMethod::Min => all.reduce(|min, value| if value < min { value } else { min }).unwrap(),
        RuleMethod::Max => all.reduce(|max, value| if value > max { value } else { max }).unwrap(),
        RuleMethod::Count => values.len() as f64,
        RuleMethod::Percentile(thousandths) => sorted_percentile(thousandths, values),
    }
}

/// The aggregation and the model, step by step.
struct Pair {
    rig: Rig,
    model: Model,
}

impl Pair {
    fn apply(&mut self, step: &Step) {
        let Self { rig, model } = self;
        let now_ms = rig.clock.now_ms();
        match step {
            Step::Feed(points) => {
                rig.feed(points);
                for (name, age, value) in points {
                    let now = u32::try_from(rig.clock.now()).unwrap();
                    model.feed(NAMES[*name], now - age, *value, now_ms);
                }
            }
            Step::Pass(seconds) => rig.pass(*seconds),
            Step::Compute => {
                let computed = rig.compute();
                let found = made(&computed.points);
                let (numbers, not_numbers): (Vec<Made>, Vec<Made>) =
                    model.compute(now_ms).into_iter().partition(|(_, _, bits)| bits.is_some());
                assert_eq!((found, computed.nan), (numbers, not_numbers.len() as u64));
            }
            Step::Close => {
                rig.close();
                model.close();
            }
            Step::Reload(chosen) => {
                if rig.is_reloaded {
                    model.close();
                }
                rig.reload(&text(*chosen));
                model.reload(&text(*chosen), now_ms);
            }
            Step::Forget => rig.running().0.state().forget_names(),
            Step::Rewrite => rig.rewrite(true),
            Step::Restart => {
                rig.restart();
                model.restart(now_ms);
            }
        }
        let state = rig.running().0.state();
        let buffers = &state.buffers;
        let counts = [buffers.active(), buffers.open(), buffers.folded(), buffers.values()];
        assert_eq!(counts, model.counts(), "after {step:?}");
    }
}

fn made(points: &PointBatch) -> Vec<Made> {
    let made = points.points().iter();
    let mut made: Vec<Made> = made
        .map(|point| (points.name(point).to_owned(), point.timestamp, Some(point.value.to_bits())))
        .collect();
    made.sort();
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn buffers_that_share_make_the_points_of_buffers_that_do_not(
        rules in some_rules(),
        steps in some_steps(),
    ) {
        let mut pair = Pair { rig: Rig::new(&text(rules), (100_000, 100_000)), model: Model::default() };
        pair.model.reload(&text(rules), 0);
        let end = [Step::Pass(1000), Step::Compute, Step::Restart, Step::Compute, Step::Close, Step::Compute];
        for step in steps.iter().chain(&end) {
            pair.apply(step);
        }
        prop_assert_eq!(pair.model.counts(), [0; 4]);
    }
}

#[test]
fn the_numbers_of_cohorts_are_used_again() {
    let mut rig = Rig::new("<x>.sum (10) = sum <x>.*\n<x>.max (10) = max <x>.a\n", (1000, 1000));
    let mut lengths = Vec::new();
    for cycle in 0..20 {
        // The first name of a host has both of its buffers, the second divides them.
        let host = cycle % 2 * 2;
        rig.feed(&[(host, 0, 1.0), (host + 1, 0, 2.0)]);
        // Those of the other host are empty by now.
        drop(rig.compute());
        rig.close();
        rig.running().0.state().forget_names();
        let state = rig.running().0.state();
        assert_eq!((state.buffers.cohorts(), state.buffers.active()), (2, 2));
        lengths.push(state.buffers.cohorts_end());
        drop(state);
        rig.pass(1000);
    }
    assert!(lengths[1..].iter().all(|length| *length == lengths[1]), "{lengths:?}");
}
