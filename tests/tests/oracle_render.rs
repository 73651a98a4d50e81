//! `/render` compared with the real graphite-web on whisper files of the same points, at every boundary of every
//! stage.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plumbago_tests::answer::{self, Series, alike, short};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::http;
use plumbago_tests::oracle::Oracle;
use plumbago_tests::rounds::{is_long, seeds};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::scenario::{self, STAGES, Scenario};

const GLOB: &str = "oracle.*.*";

#[test]
fn answers_are_graphites_at_every_stage_boundary() {
    let mut agreed = Differences::listed("render.");
    for seed in seeds(1, if is_long() { 4 } else { 1 }) {
        let Some(oracle) = Oracle::start() else { return };
        let mut setup = Setup::new();
        let scenario = Scenario::new(seed);
        setup.schemas(scenario::SCHEMAS).aggregation(&scenario::aggregation()).clock(scenario.now());
        let mut run = Run {
            daemon: setup.start(),
            oracle,
            scenario,
            sent: 0,
            random: StdRng::seed_from_u64(seed),
            complaints: String::new(),
            wrong: BTreeSet::new(),
        };
        run.all(seed, &mut agreed);
        assert!(run.complaints.is_empty(), "seed {seed}:\n{}", run.complaints);
        run.daemon.stop_well();
    }
    agreed.assert_all_seen();
}

/// A run with one seed: both servers get the same points and the same requests.
struct Run {
    daemon: Daemon,
    oracle: Oracle,
    scenario: Scenario,
    sent: u64,
    random: StdRng,
    complaints: String,
    /// Slots already reported, by name and step.
    wrong: BTreeSet<(String, i64, i64)>,
}

impl Run {
    fn all(&mut self, seed: u64, agreed: &mut Differences) {
        self.oracle.create(self.scenario.metrics());
        let mut sender = self.daemon.sender();
        // 700 steps of 13 seconds on average, which is longer than the longest stage.
        for step in 1..=700 {
            let step_points = self.scenario.step();
            self.daemon.set_clock(step_points.now);
            sender.send(&step_points.points);
            self.sent += step_points.points.len() as u64;
            self.oracle.update(step_points.now, &step_points.points);
            // The effect of a point depends on the clock, so the clock must not advance before the point is
            // applied.
            self.daemon.applied_at(self.sent);
            if step % 100 == 0 {
                // The answer must not depend on what has been flushed.
                if step % 200 == 0 {
                    self.daemon.flush();
                }
                self.daemon.wait_names(self.scenario.metrics().count());
                self.questions(&format!("seed {seed} step {step}"), agreed);
            }
        }
    }

    fn questions(&mut self, what: &str, agreed: &mut Differences) {
        for (from, until) in ranges(self.scenario.now(), &mut self.random) {
            let what = format!("{what} now={} from={from} until={until}", self.scenario.now());
            let Some(excused) = self.raw(&what, from, until, agreed) else { continue };
            self.json(&what, from, until, "", &excused);
            let points = [1, 2, 3, 7, 10, 29, 30, 100][self.random.random_range(0..8)];
            self.json(&what, from, until, &points.to_string(), &excused);
            self.csv(&what, from, until, &excused);
        }
    }

    /// Both answers to a request, if both succeed.
    fn both(&mut self, what: &str, path: &str) -> Option<(String, String)> {
        let ours = self.daemon.get(path);
        let theirs = self.oracle.get(self.scenario.now(), path);
        let ours_type = ours.header("content-type").unwrap_or("").to_owned();
        if ours.status != theirs.status {
            let (ours, theirs) = (format!("{} {}", ours.status, ours.body), format!("{theirs:?}"));
            self.complain(what, path, "status", &ours, &theirs);
            return None;
        }
        if ours.status != 200 {
            return None;
        }
        if bare(&ours_type) != bare(&theirs.content_type) {
            self.complain(what, path, "content type", &ours_type, &theirs.content_type);
        }
        Some((ours.body, theirs.body))
    }

    /// Compares values and grids exactly. Returns the names for which an agreed difference was seen.
    fn raw(
        &mut self,
        what: &str,
        from: i64,
        until: i64,
        agreed: &mut Differences,
    ) -> Option<BTreeSet<String>> {
        let path = path(self.scenario.now(), from, until, "raw", "");
        let (ours, theirs) = self.both(what, &path)?;
        let (Ok(our), Ok(their)) = (answer::raw(&ours), answer::raw(&theirs)) else {
            self.complain(what, &path, "raw format", &short(&ours), &short(&theirs));
            return None;
        };
        if grid(&our) != grid(&their) {
            self.complain(what, &path, "grid", &format!("{:?}", grid(&our)), &format!("{:?}", grid(&their)));
            return None;
        }
        let mut excused = BTreeSet::new();
        for (index, (our, their)) in our.iter().zip(&their).enumerate() {
            let differs = self.series(what, &path, our, their, agreed);
            if differs {
                excused.insert(our.name.clone());
            } else if our.step < STAGES[2].0 {
                // Values that were aggregated at most once are equal even as text.
                let (a, b) = (ours.lines().nth(index), theirs.lines().nth(index));
                if a != b {
                    self.complain(what, &path, "text", &format!("{a:?}"), &format!("{b:?}"));
                }
            }
        }
        Some(excused)
    }

    /// Compares a series slot by slot. Returns whether an agreed difference was seen.
    fn series(
        &mut self,
        what: &str,
        path: &str,
        our: &Series,
        their: &Series,
        agreed: &mut Differences,
    ) -> bool {
        let mut excused = false;
        let stage = STAGES.iter().position(|(step, _)| *step == our.step).unwrap();
        for ((slot, our_value), (_, their_value)) in our.slots.iter().zip(&their.slots) {
            let flat = self.scenario.flat(&our.name).shown(stage, *slot);
            let difference = self.difference(&our.name, stage, *slot);
            if difference.is_none() && !alike(flat, *their_value) {
                let (a, b) = (format!("{flat:?}"), format!("{their_value:?}"));
                self.complain(what, path, &format!("THE TEST'S FOLD of {} at {slot}", our.name), &a, &b);
            }
            if !alike(*our_value, flat) {
                excused = true;
                if !self.wrong.insert((our.name.clone(), our.step, *slot)) {
                    continue;
                }
                let sent = self.scenario.history(&our.name, *slot, our.step);
                let (a, b) =
                    (format!("{our_value:?}"), format!("{flat:?} (whisper {their_value:?}) {sent:?}"));
                self.complain(what, path, &format!("{} at {slot}", our.name), &a, &b);
            }
            if let Some(id) = difference
                && !alike(flat, *their_value)
            {
                agreed.seen(id);
                excused = true;
            }
        }
        excused
    }

    /// The agreed difference that a slot may have.
    fn difference(&self, name: &str, stage: usize, slot: i64) -> Option<&'static str> {
        let kept = self.scenario.kept(name);
        if stage < 2 || self.scenario.flat(name).full(stage, slot) {
            return None;
        }
        if kept.factor > 0.0 {
            return Some("render.factor-of-gaps");
        }
        matches!(kept.method.as_str(), "average").then_some("render.average-of-gaps")
    }

    fn json(&mut self, what: &str, from: i64, until: i64, points: &str, excused: &BTreeSet<String>) {
        let path = path(self.scenario.now(), from, until, "json", points);
        let Some((ours, theirs)) = self.both(what, &path) else { return };
        let (Ok(our), Ok(their)) = (answer::json(&ours), answer::json(&theirs)) else {
            self.complain(what, &path, "json", &short(&ours), &short(&theirs));
            return;
        };
        if grid(&our) != grid(&their) {
            self.complain(what, &path, "grid", &format!("{:?}", grid(&our)), &format!("{:?}", grid(&their)));
            return;
        }
        for (our, their) in our.iter().zip(&their).filter(|(o, _)| !excused.contains(&o.name)) {
            if our.slots.iter().zip(&their.slots).any(|(o, t)| !alike(o.1, t.1)) {
                self.complain(what, &path, &our.name, &format!("{our:?}"), &format!("{their:?}"));
            }
        }
    }

    fn csv(&mut self, what: &str, from: i64, until: i64, excused: &BTreeSet<String>) {
        let path = path(self.scenario.now(), from, until, "csv", "");
        let Some((ours, theirs)) = self.both(what, &path) else { return };
        let (Ok(our), Ok(their)) = (answer::csv(&ours), answer::csv(&theirs)) else {
            self.complain(what, &path, "csv", &short(&ours), &short(&theirs));
            return;
        };
        if our.len() != their.len() {
            self.complain(what, &path, "rows", &our.len().to_string(), &their.len().to_string());
            return;
        }
        for (our, their) in our.iter().zip(&their) {
            let value = excused.contains(&our.0) || alike(our.2, their.2);
            if (&our.0, &our.1) != (&their.0, &their.1) || !value {
                self.complain(what, &path, "row", &format!("{our:?}"), &format!("{their:?}"));
                return;
            }
        }
    }

    fn complain(&mut self, what: &str, path: &str, of: &str, ours: &str, theirs: &str) {
        // The first complaints are enough.
        if self.complaints.len() < 20_000 {
            let _ = writeln!(
                self.complaints,
                "{what}: {of}\n  ours   {}\n  theirs {}\n  {path}",
                short(ours),
                short(theirs)
            );
        }
    }
}

fn path(now: i64, from: i64, until: i64, format: &str, points: &str) -> String {
    let (now, from, until) = (now.to_string(), from.to_string(), until.to_string());
    let mut parameters =
        vec![("target", GLOB), ("from", &from), ("until", &until), ("now", &now), ("format", format)];
    if !points.is_empty() {
        parameters.push(("maxDataPoints", points));
    }
    http::url("/render", &parameters)
}

/// Name, first slot, step and number of slots of each series, in the order of the answer.
fn grid(series: &[Series]) -> Vec<(&str, Option<i64>, i64, usize)> {
    series.iter().map(|s| (s.name.as_str(), s.slots.first().map(|f| f.0), s.step, s.slots.len())).collect()
}

fn bare(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or("").trim()
}

/// Pairs of from and until around every boundary of every stage, and random pairs.
fn ranges(now: i64, random: &mut StdRng) -> Vec<(i64, i64)> {
    let mut ranges = Vec::new();
    for (step, slots) in STAGES {
        let length = step * slots;
        for from in [-601, -step - 1, -step, -1, 0, 1, step, step + 1].map(|d| now - length + d) {
            let some_time = random.random_range(from.min(now)..=now);
            let untils = [now, now + 1, now - 1, now - step, from + 1, from + step, some_time, now + 1000];
            let until = untils[random.random_range(0..untils.len())];
            ranges.push((from, now));
            if until != now && until != from {
                ranges.push((from, until));
            }
        }
    }
    for _ in 0..6 {
        let from = now - random.random_range(1..8000);
        ranges.push((from, (from + random.random_range(1..4000)).min(now)));
    }
    ranges.push((now + 10, now + 20));
    ranges.push((now - 20, now - 30));
    ranges.push((now, now));
    ranges
}
