//! Decides whether a difference is in the list of agreed differences.

use std::collections::BTreeMap;
use std::time::Instant;

use plumbago_tests::differences::Differences;
use plumbago_tests::rounds::number;
use serde_json::Value;

use crate::cases::Case;
use crate::compare::{self, Texts};
use crate::engine::{Engine, Mode};
use crate::ours;
use crate::world::{self, Stored};

/// Agreed differences of certain targets: the id, and texts that such targets contain.
const BY_TARGET: &[(&str, &[&str])] = &[
    (
        "functions.again",
        &[
            "dense.a|scale(2)|movingAverage(5)",
            "template(movingAverage(dense.$x, 5), x='a')",
            "transformNull(dense.a, 5, referenceSeries=ended.e)",
        ],
    ),
    ("functions.no-delay", &["delay(dense.a, 0)"]),
    ("functions.no-name", &["alias(dense.a, none)", "alias(dense.a, 5)", "verticalLine('-30min')"]),
];

/// Compares cases and counts the results.
#[derive(Debug)]
pub(crate) struct Judge {
    engine: Engine,
    world: Vec<Stored>,
    differences: Differences,
    agreed: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
    cases: usize,
    equal: usize,
    /// Number of cases for which graphite-web has an answer.
    answered: usize,
    answered_equal: usize,
    started: Instant,
}

impl Judge {
    /// Starts graphite-web. `None` (a recorded skip) if it is missing.
    pub(crate) fn start() -> Option<Self> {
        Some(Self {
            engine: Engine::start()?,
            world: world::world(),
            differences: Differences::listed("functions."),
            agreed: BTreeMap::new(),
            wrong: Vec::new(),
            cases: 0,
            equal: 0,
            answered: 0,
            answered_equal: 0,
            started: Instant::now(),
        })
    }

    /// Compares one case.
    pub(crate) fn judge(&mut self, case: &Case) {
        self.cases += 1;
        let theirs = self.engine.evaluate(case, Mode::Plain);
        let ours = ours::evaluated(&self.world, case);
        let is_answered = theirs["series"].is_array();
        self.answered += usize::from(is_answered);
        let Some(difference) = difference(case, &ours, &theirs, Texts::Exact) else {
            self.equal += 1;
            self.answered_equal += usize::from(is_answered);
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
                // An answer of graphite-web to arguments that are wrong according to its own declarations is
                // not counted.
                self.answered -= usize::from(is_answered && id == "functions.strict");
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
        let has = |text: &str| case.targets.iter().any(|target| target.contains(text));
        if let Some((id, _)) = BY_TARGET.iter().find(|(_, texts)| texts.iter().any(|text| has(text))) {
            return Some(id);
        }
        if case.server_zone != case.zone {
            let same_zone = Case { server_zone: case.zone, ..case.clone() };
            let theirs = self.engine.evaluate(&same_zone, Mode::Plain);
            return difference(case, ours, &theirs, Texts::Exact).is_none().then_some("functions.zone");
        }
        if difference(case, ours, theirs, Texts::ByNumber).is_none() && !has("isNonNull(") && !has("changed(")
        {
            return Some("functions.number-text?");
        }
        if theirs["failed"].is_string() {
            return ours["series"].is_array().then_some("functions.no-500");
        }
        if ours["refused"].is_string() {
            if theirs["series"].as_array().is_some_and(|series| series.is_empty()) {
                // Plumbago checks arguments even if there are no series.
                return case.targets[0].contains("missing.none").then_some("functions.strict");
            }
            let strict = self.engine.evaluate(case, Mode::Strict);
            return strict["refused"].is_string().then_some("functions.strict");
        }
        difference(case, ours, theirs, Texts::ByNumber)
            .is_some_and(|difference| has("stdev(") && difference.contains(": value "))
            .then_some("functions.noise?")
    }

    /// Prints the counts. Fails on a difference that is not agreed, and on an agreed difference that did not
    /// occur, if its id begins with `all_seen`.
    pub(crate) fn finish(self, at_least: usize, all_seen: &str) {
        let share = |equal: usize, of: usize| 100.0 * equal as f64 / of as f64;
        println!(
            "{} cases, {} equal ({:.2} %); of {} that graphite-web answers {} equal ({:.3} %); agreed differences {:?}, {:.1} s",
            self.cases,
            self.equal,
            share(self.equal, self.cases),
            self.answered,
            self.answered_equal,
            share(self.answered_equal, self.answered),
            self.agreed,
            self.started.elapsed().as_secs_f64()
        );
        let shown = number("PLUMBAGO_SHOWN").unwrap_or(40);
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
