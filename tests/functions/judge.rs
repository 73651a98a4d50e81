//! Whether a difference was agreed upon.

use std::collections::BTreeMap;
use std::time::Instant;

use plumbago_tests::differences::Differences;
use serde_json::Value;

use crate::cases::Case;
use crate::compare::{self, Texts};
use crate::engine::{Engine, Mode};
use crate::ours;
use crate::world::{self, Stored};

/// Differences that show in the target itself: the id, and a text that it contains.
const BY_TARGET: &[(&str, &[&str])] = &[
    ("functions.by-time", &["weightedAverage(group(fine", "weightedAverage(dense.a, fine"]),
    ("functions.reference", &["transformNull(hour.h, 5, sparse", "transformNull(kept.*, 5, sparse"]),
    (
        "functions.percent-step",
        &[
            "asPercent(group(fine",
            "pct(group(fine",
            "asPercent(fine.*",
            "asPercent(hour.h",
            "asPercent(kept.*",
            "asPercent(dense.a, fine",
            "asPercent(group(dense.a, fine",
        ],
    ),
    (
        "functions.again",
        &[
            "dense.a|scale(2)|movingAverage(5)",
            "template(movingAverage(dense.$x, 5), x='a')",
            "transformNull(dense.a, 5, referenceSeries=ended.e)",
        ],
    ),
    ("functions.no-name", &["alias(dense.a, none)", "alias(dense.a, 5)", "verticalLine('-30min')"]),
];

/// Compares cases and counts.
#[derive(Debug)]
pub(crate) struct Judge {
    engine: Engine,
    world: Vec<Stored>,
    differences: Differences,
    agreed: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
    cases: usize,
    equal: usize,
    started: Instant,
}

impl Judge {
    /// `None` (a recorded skip) where graphite-web is missing.
    pub(crate) fn start() -> Option<Self> {
        Some(Self {
            engine: Engine::start()?,
            world: world::world(),
            differences: Differences::listed("functions."),
            agreed: BTreeMap::new(),
            wrong: Vec::new(),
            cases: 0,
            equal: 0,
            started: Instant::now(),
        })
    }

    /// Compares one case.
    pub(crate) fn judge(&mut self, case: &Case) {
        self.cases += 1;
        let theirs = self.engine.evaluate(case, Mode::Plain);
        let ours = ours::evaluated(&self.world, case);
        let Some(difference) = difference(case, &ours, &theirs, Texts::Exact) else {
            self.equal += 1;
            return;
        };
        match self.agreed(case, &ours, &theirs) {
            Some(id) => {
                if std::env::var_os("PLUMBAGO_SHOW_AGREED").is_some() {
                    println!("{id} {case}\n    {difference}{}", refusal("theirs", &theirs));
                }
                if !self.agreed.contains_key(id) {
                    self.differences.seen(id);
                }
                *self.agreed.entry(id).or_default() += 1;
            }
            None => self.wrong.push(format!(
                "{case}\n    {difference}{}{}",
                refusal("ours", &ours),
                refusal("theirs", &theirs)
            )),
        }
    }

    fn agreed(&mut self, case: &Case, ours: &Value, theirs: &Value) -> Option<&'static str> {
        if let Some((id, _)) = BY_TARGET.iter().find(|(_, texts)| {
            texts.iter().any(|text| case.targets.iter().any(|target| target.contains(text)))
        }) {
            return Some(id);
        }
        if difference(case, ours, theirs, Texts::ByNumber).is_none() {
            return Some("functions.number-text?");
        }
        if theirs["failed"].is_string() {
            return ours["series"].is_array().then_some("functions.no-500");
        }
        if ours["refused"].is_string() {
            if theirs["series"].as_array().is_some_and(|series| series.is_empty()) {
                // Arguments are checked also where there are no series.
                return case.targets[0].contains("missing.none").then_some("functions.strict");
            }
            let strict = self.engine.evaluate(case, Mode::Strict);
            return strict["refused"].is_string().then_some("functions.strict");
        }
        let aligned = self.engine.evaluate(case, Mode::Aligned);
        difference(case, ours, &aligned, Texts::ByNumber).is_none().then_some("functions.by-time")
    }

    /// Prints the counts; fails on a difference that was not agreed upon, or on one that was and did not
    /// show, among those whose id begins so.
    pub(crate) fn finish(self, at_least: usize, all_seen: &str) {
        let share = 100.0 * self.equal as f64 / self.cases as f64;
        println!(
            "{} cases, {} equal ({share:.2} %), agreed differences {:?}, {:.1} s",
            self.cases,
            self.equal,
            self.agreed,
            self.started.elapsed().as_secs_f64()
        );
        let shown = std::env::var("PLUMBAGO_SHOWN").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
        let first: Vec<&str> = self.wrong.iter().take(shown).map(String::as_str).collect();
        assert!(self.wrong.is_empty(), "{} cases differ:\n{}", self.wrong.len(), first.join("\n"));
        assert!(self.cases >= at_least, "{} cases", self.cases);
        if !all_seen.is_empty() {
            self.differences.assert_all_seen();
        }
    }
}

fn difference(case: &Case, ours: &Value, theirs: &Value, texts: Texts) -> Option<String> {
    let difference = compare::difference(ours, theirs, texts);
    if case.is_random && difference.as_ref().is_some_and(|difference| difference.contains(": value ")) {
        return None;
    }
    difference.or_else(|| compare::points(ours, theirs))
}

fn refusal(whose: &str, answer: &Value) -> String {
    let text = answer["refused"].as_str().or(answer["failed"].as_str());
    text.map_or_else(String::new, |text| format!("\n    {whose}: {text}"))
}
