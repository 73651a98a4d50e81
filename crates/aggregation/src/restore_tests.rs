//! A restart restores from the log exactly what was in memory, whatever happened before.

use std::path::PathBuf;
use std::sync::Arc;

use plumbago_journal::Position;
use plumbago_model::{Clock, ManualClock, PointBatch};
use plumbago_telemetry::Registry;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::buffers::{Closing, Computed};
use crate::{Aggregation, AggregationParts, Config};

const NOW: i64 = 1_700_000_000;
pub(super) const NAMES: [&str; 4] = ["s.a", "s.b", "t.a", "t.b"];
/// Rules that give groups of one buffer and of several, a group with the same buffer twice, and buffers whose
/// rule changes.
const RULES: [&str; 3] = [
    "<x>.sum (10) = sum <x>.*\n<x>.p50 (10) = p50 <x>.*\n<x>.twice (10) = sum <x>.*\n\
     <x>.twice (20) = count <x>.a\n<x>.max (30) = max <x>.b\nall (10) = avg *.*\n",
    "<x>.twice (20) = count <x>.a\n<x>.sum (10) = sum <x>.*\n",
    "<x>.p50 (10) = p50 <x>.*\n",
];

#[derive(Debug, Clone)]
enum Step {
    /// Points: the number of the name, seconds before now, and the value.
    Feed(Vec<(usize, u32, f64)>),
    /// This many seconds pass.
    Pass(i64),
    Compute,
    Close,
    /// The rules with this number replace the present ones.
    Reload(usize),
    Rewrite,
    Restart,
}

fn points(count: usize) -> impl Strategy<Value = Vec<(usize, u32, f64)>> {
    let value = prop_oneof![Just(0.0_f64), Just(-0.0), -9.0..9.0_f64, (-3..3_i8).prop_map(f64::from)];
    prop::collection::vec((0..NAMES.len(), 0..60_u32, value), 1..=count)
}

fn some_steps(points_max: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => points(points_max).prop_map(Step::Feed),
        3 => (1..100_i64).prop_map(Step::Pass),
        2 => Just(Step::Compute),
        2 => Just(Step::Close),
        2 => (0..RULES.len()).prop_map(Step::Reload),
        1 => Just(Step::Rewrite),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

/// Each buffer with its intervals: start, count, and the bits of the state.
type Plain = BTreeMap<Key, Vec<(u32, u32, Vec<u64>)>>;

fn plain(restored: Restored) -> Plain {
    let plain = restored.into_iter().map(|(key, intervals)| {
        let mut plain: Vec<_> = intervals
            .iter()
            .map(|interval| {
                let state: Vec<u64> =
                    interval.state(key.method()).iter().map(|part| part.to_bits()).collect();
                (interval.start, interval.count, state)
            })
            .collect();
        plain.sort();
        (key, plain)
    });
    plain.collect()
}

/// A record of the log.
#[derive(Debug, Clone, PartialEq)]
enum Line {
    Point(u32, u32, f64),
    Name(u32, String),
}

impl Line {
    fn of(record: &Record<'_>) -> Option<Self> {
        match record {
            Record::Point { metric, timestamp, value, .. } => Some(Self::Point(*metric, *timestamp, *value)),
            Record::Creation { metric, name, .. } => Some(Self::Name(*metric, (*name).to_owned())),
            Record::Removal { .. } => None,
        }
    }

    fn record(&self) -> Record<'_> {
        match self {
            Self::Point(metric, timestamp, value) => {
                Record::Point { sequence: 0, metric: *metric, timestamp: *timestamp, value: *value }
            }
            Self::Name(metric, name) => Record::Creation { sequence: 0, metric: *metric, name },
        }
    }
}

fn lines(journal: &Journal) -> Vec<Line> {
    let mut lines = Vec::new();
    let visit = &mut |record: Record<'_>| lines.extend(Line::of(&record));
    journal.read_again(Position::default(), u64::MAX, visit).unwrap();
    lines
}

fn told(lines: &[Line]) -> Plain {
    let mut reader = Reader::default();
    lines.iter().for_each(|line| reader.take(&line.record()));
    plain(reader.end())
}

/// An aggregation that the test drives step by step.
pub(super) struct Rig {
    dir: TempDir,
    config: Config,
    pub(super) clock: Arc<ManualClock>,
    aggregation: Option<Aggregation>,
    /// Intervals whose value was handed over and is not confirmed yet.
    closing: Vec<Closing>,
    /// Whether the rules were reloaded since those values were handed over.
    pub(super) is_reloaded: bool,
}

impl Rig {
    /// `limits` are the largest numbers of open intervals and of values.
    pub(super) fn new(rules: &str, limits: (u64, u64)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            rules: dir.path().join("rules.conf"),
            max_open_intervals: limits.0,
            max_values: limits.1,
            ..Config::default()
        };
        let clock = Arc::new(ManualClock::at(NOW));
        let mut rig = Self { dir, config, clock, aggregation: None, closing: Vec::new(), is_reloaded: false };
        std::fs::write(&rig.config.rules, rules).unwrap();
        rig.open();
        rig
    }

    fn log_dir(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn open(&mut self) {
        let parts = AggregationParts {
            dir: &self.log_dir(),
            journal: &plumbago_journal::Config::default(),
            clock: self.clock.clone(),
            registry: &Registry::new(),
        };
        self.aggregation = Some(Aggregation::open(&self.config, parts).unwrap());
    }

    pub(super) fn running(&self) -> &Aggregation {
        self.aggregation.as_ref().unwrap()
    }

    fn in_memory(&self) -> Plain {
        plain(self.running().0.state().buffers.snapshot())
    }

    fn lines(&self) -> Vec<Line> {
        lines(&self.running().0.journal)
    }

    fn apply(&mut self, step: &Step, drops: bool) {
        match step {
            Step::Feed(points) => self.feed(points),
            Step::Pass(seconds) => self.pass(*seconds),
            Step::Compute => drop(self.compute()),
            Step::Close => self.close(),
            Step::Reload(number) => self.reload(RULES[*number]),
            Step::Rewrite => self.rewrite(drops),
            Step::Restart => self.restart(),
        }
    }

    pub(super) fn pass(&self, seconds: i64) {
        self.clock.advance(seconds);
        self.running().0.state().write_out();
    }

    pub(super) fn compute(&mut self) -> Computed {
        self.close();
        let mut state = self.running().0.state();
        let limits = state.active.limits;
        let mut computed = state.buffers.compute(self.clock.now_ms(), &limits, 1000);
        drop(state);
        self.closing = std::mem::take(&mut computed.closing);
        computed
    }

    pub(super) fn reload(&mut self, rules: &str) {
        if self.is_reloaded {
            self.close();
        }
        std::fs::write(&self.config.rules, rules).unwrap();
        self.running().reload(&self.config).unwrap();
        self.is_reloaded = !self.closing.is_empty();
    }

    pub(super) fn feed(&self, points: &[(usize, u32, f64)]) {
        let mut batch = PointBatch::default();
        let now = u32::try_from(self.clock.now()).unwrap();
        for (name, age, value) in points {
            batch.push(NAMES[*name], now - age, *value);
        }
        self.running().feed(&batch);
    }

    pub(super) fn close(&mut self) {
        let closing = std::mem::take(&mut self.closing);
        let mut state = self.running().0.state();
        state.buffers.close(&closing);
        state.write_out();
        drop(state);
        self.is_reloaded = false;
    }

    pub(super) fn rewrite(&self, drops: bool) {
        let segment = self.running().0.state().buffers.log.segment();
        self.rewrite_from(Some(0), segment, drops);
    }

    fn rewrite_from(&self, mut from: Option<u32>, segment: u32, drops: bool) {
        let inner = &self.running().0;
        while let Some(number) = from {
            let mut state = inner.state();
            from = state.buffers.rewrite(number, 2, segment);
            state.write_out();
        }
        if drops {
            inner.journal.drop_before(segment).unwrap();
        }
    }

    pub(super) fn restart(&mut self) {
        if let Some(aggregation) = self.aggregation.take() {
            aggregation.0.journal.clone().close().unwrap();
        }
        self.closing.clear();
        self.is_reloaded = false;
        self.open();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_log_tells_what_is_in_memory(steps in some_steps(4), is_tight in any::<bool>()) {
        let mut rig = Rig::new(RULES[0], if is_tight { (14, 6) } else { (1000, 1000) });
        for step in &steps {
            rig.apply(step, true);
            prop_assert_eq!(told(&rig.lines()), rig.in_memory(), "after {:?}", step);
        }
        let before = rig.in_memory();
        rig.restart();
        prop_assert_eq!(rig.in_memory(), before);
    }

    #[test]
    fn a_kill_at_any_record_leaves_what_was_before_or_after_a_point(
        steps in some_steps(1),
        is_tight in any::<bool>(),
    ) {
        let mut rig = Rig::new(RULES[0], if is_tight { (14, 6) } else { (1000, 1000) });
        // After each step: the number of records, the state, and whether no record may show a part of the step.
        let mut states = vec![(0, Plain::new(), true)];
        for step in &steps {
            let refused = rig.running().balance().refused;
            rig.apply(step, false);
            let is_whole = match step {
                Step::Feed(_) => rig.running().balance().refused == refused,
                // Intervals are closed one by one.
                Step::Compute | Step::Close | Step::Reload(_) => false,
                Step::Pass(_) | Step::Rewrite | Step::Restart => true,
            };
            states.push((rig.lines().len(), rig.in_memory(), is_whole));
        }
        let lines = rig.lines();
        for count in 0..=lines.len() {
            let found = told(&lines[..count]);
            let next = states.partition_point(|(records, ..)| *records <= count);
            let (records, before, _) = &states[next - 1];
            if *records == count {
                prop_assert_eq!(&found, before, "after {} of {:?}", count, lines);
            } else if let Some((_, after, true)) = states.get(next) {
                prop_assert!(found == *before || found == *after, "after {count} of {lines:?}: {found:?}");
            }
        }
    }
}

#[test]
fn a_point_is_one_record_for_all_its_rules() {
    let rules: String = (0..50).map(|n| format!("<x>.out{n} (10) = sum <x>.*\n")).collect();
    let mut rig = Rig::new(&rules, (1000, 1000));
    let points: Vec<_> = (0..100).map(|n| (n % NAMES.len(), 0, 1.0)).collect();
    rig.feed(&points);
    let count = |rig: &Rig| {
        let lines = rig.lines();
        let records = lines.iter().filter(|line| matches!(line, Line::Point(..))).count();
        (records, lines.len() - records)
    };
    // The two hosts have two groups of 50 buffers.
    assert_eq!(count(&rig), (100, 102));
    // The groups are named again in the next segment.
    rig.apply(&Step::Pass(40), false);
    rig.feed(&points);
    assert_eq!(count(&rig), (200, 204));
    assert_eq!(told(&rig.lines()), rig.in_memory());
    rig.restart();
    assert_eq!(rig.running().balance().recovered, 10_000);
}

#[test]
fn a_value_that_a_limit_refused_does_not_come_back() {
    let mut rig = Rig::new("<x>.sum (10) = sum <x>.*\n<x>.p50 (10) = p50 <x>.*\n", (1000, 1));
    rig.feed(&[(0, 0, 1.0), (0, 0, 2.0), (0, 0, 3.0)]);
    assert_eq!((rig.running().balance().fed, rig.running().balance().refused), (4, 2));
    let before = rig.in_memory();
    rig.restart();
    assert_eq!(rig.in_memory(), before);
    assert_eq!(rig.running().balance().recovered, 4);
}

#[test]
fn a_limit_keeps_a_value_from_all_buffers_that_share() {
    let mut rig = Rig::new("<x>.p50 (10) = p50 <x>.*\n<x>.p90 (10) = p90 <x>.*\n", (3, 5));
    // Room for two values of two buffers, and for one interval of them.
    rig.feed(&[(0, 0, 1.0), (0, 0, 2.0), (0, 0, 3.0), (0, 20, 4.0)]);
    assert_eq!((rig.running().balance().fed, rig.running().balance().refused), (4, 4));
    assert_eq!(told(&rig.lines()), rig.in_memory());
    rig.restart();
    assert_eq!(rig.running().balance().recovered, 4);
}

#[test]
fn buffers_share_their_intervals_again_after_a_restart() {
    let methods = RuleMethod::ALL.iter().map(|(name, _)| name);
    let rules: String = methods
        .flat_map(|name| [format!("<x>.{name} (10) = {name} <x>.*\n"), format!("{name} (10) = {name} *.*\n")])
        .collect();
    let mut rig = Rig::new(&rules, (1000, 1000));
    let points: Vec<_> = (0..20).map(|n| (n % NAMES.len(), 0, n as f64)).collect();
    rig.feed(&points);
    // Those of both hosts and of all hosts, with and without percentiles.
    assert_eq!(rig.running().0.state().buffers.cohorts(), 6);
    rig.restart();
    assert_eq!(rig.running().0.state().buffers.cohorts(), 2 * 12 + 12);
    rig.feed(&points);
    assert_eq!(rig.running().0.state().buffers.cohorts(), 6);
    assert_eq!(told(&rig.lines()), rig.in_memory());
}

#[test]
fn buffers_with_other_values_do_not_share_after_a_restart() {
    let rules = ["sum", "p50"]
        .map(|method| format!("<x>.{method} (10) = {method} <x>.*\nof.<y>.{method} (10) = {method} *.<y>\n"));
    let mut rig = Rig::new(&rules.concat(), (1000, 1000));
    // Each buffer of the first name gets the same number of values, but not the same values.
    rig.feed(&[(1, 0, 1.0), (2, 0, 2.0)]);
    rig.restart();
    rig.feed(&[(0, 0, 4.0)]);
    assert_eq!(told(&rig.lines()), rig.in_memory());
}

#[test]
fn a_buffer_takes_the_method_of_the_first_rule_that_no_limit_stops() {
    let rig = Rig::new("y (10) = p50 t.*\nx (10) = p50 s.*\nx (10) = sum s.*\n", (1000, 1));
    rig.feed(&[(2, 0, 1.0), (0, 0, 2.0)]);
    assert_eq!((rig.running().balance().fed, rig.running().balance().refused), (2, 1));
    let methods: Vec<_> = rig.in_memory().into_keys().map(|key| (key.name, key.method)).collect();
    assert_eq!(methods, [("x".to_owned(), "sum"), ("y".to_owned(), "p50")]);
    assert_eq!(told(&rig.lines()), rig.in_memory());
}

#[test]
fn buffers_that_begin_or_cease_to_share_during_a_rewrite_stay_in_the_log() {
    for begins in [false, true] {
        let mut rig = Rig::new("<x>.sum (10) = sum <x>.*\n<x>.max (10) = max <x>.a\n", (1000, 1000));
        rig.feed(&[(0, 0, 1.0)]);
        if begins {
            rig.restart();
        }
        rig.pass(40);
        let segment = rig.running().0.state().buffers.log.segment();
        let next = rig.running().0.state().buffers.rewrite(0, 1, segment);
        let before = rig.running().0.state().buffers.cohorts();
        // The first name has both buffers, the second one of them.
        rig.feed(&[(usize::from(!begins), 0, 2.0)]);
        let after = rig.running().0.state().buffers.cohorts();
        assert_eq!((next, before, after), if begins { (Some(1), 2, 1) } else { (Some(1), 1, 2) });
        rig.rewrite_from(next, segment, true);
        assert_eq!(told(&rig.lines()), rig.in_memory());
    }
}

#[test]
fn an_interval_closed_after_a_restart_is_not_that_of_another_buffer() {
    let mut rig = Rig::new("z (10) = sum s.*\na (10) = sum t.*\n", (1000, 1000));
    rig.feed(&[(0, 0, 1.0), (2, 0, 2.0)]);
    rig.restart();
    // The buffers have other numbers now. The rule of one of them is removed, so that this buffer is closed
    // at once.
    std::fs::write(&rig.config.rules, "z (10) = sum s.*\n").unwrap();
    rig.running().reload(&rig.config).unwrap();
    rig.apply(&Step::Compute, false);
    rig.apply(&Step::Close, false);
    let left = rig.in_memory();
    assert_eq!(left.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["z"]);
    assert_eq!(told(&rig.lines()), left);
}

#[test]
fn a_rule_that_comes_back_in_time_keeps_its_intervals() {
    let rules = "<x>.sum (10) = sum <x>.*\n";
    let mut rig = Rig::new(rules, (1000, 1000));
    rig.feed(&[(0, 0, 1.0)]);
    std::fs::write(&rig.config.rules, "").unwrap();
    rig.running().reload(&rig.config).unwrap();
    rig.apply(&Step::Compute, false);
    std::fs::write(&rig.config.rules, rules).unwrap();
    rig.running().reload(&rig.config).unwrap();
    rig.apply(&Step::Close, false);
    rig.feed(&[(1, 0, 2.0)]);
    let counts: Vec<u32> = rig.in_memory().values().flatten().map(|(_, count, _)| *count).collect();
    assert_eq!(counts, [2]);
    assert_eq!(told(&rig.lines()), rig.in_memory());
}

#[test]
fn a_log_without_groups_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(NOW));
    let journal =
        Journal::open(dir.path(), plumbago_journal::Config::default(), clock, &Registry::new()).unwrap();
    let mut writer = journal.writer();
    let at = NOW as u32;
    writer.creation(0, "s.sum\n10\nsum\n<x>.sum");
    writer.creation(1, "s.p50\n10\np50\n<x>.p50");
    for (metric, timestamp, value) in [
        (0, at, 1.5),
        (1, at, 1.5),
        (0, at + 9, 2.0),
        // A state, and an interval that is closed.
        (1 << 30 | 1, at + 10, 4.0),
        (1 << 30 | 1, at + 10, 3.0),
        (2 << 30 | 1, at + 10, 2.0),
        (0, at + 10, 9.0),
        (3 << 30, at + 10, 0.0),
        // A record that was written to test the disk.
        (u32::MAX, 0, 0.0),
    ] {
        writer.point(metric, timestamp, value);
    }
    writer.write_out().unwrap();
    let restored = plain(restore(&journal).unwrap());
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let found: Vec<_> = restored.iter().map(|(key, found)| (key.name.as_str(), found.clone())).collect();
    let p50 = vec![(at, 1, bits(&[1.5])), (at + 10, 2, bits(&[4.0, 3.0]))];
    let sum = vec![(at, 2, bits(&[3.5]))];
    assert_eq!(found, [("s.p50", p50), ("s.sum", sum)]);
}

#[test]
fn records_of_a_group_whose_name_is_damaged_count_nowhere() {
    let mut lines = vec![
        Line::Name(0, "s.sum\n10\nsum\n<x>.sum".to_owned()),
        Line::Point(Kind::Group.metric(5), 100, 1.0),
        Line::Name(Kind::Group.metric(5), "0 3".to_owned()),
        Line::Point(Kind::Group.metric(5), 100, 1.0),
    ];
    let once = told(&lines);
    assert_eq!(once.values().flatten().map(|(_, count, _)| *count).collect::<Vec<_>>(), [1]);
    lines.push(Line::Name(Kind::Group.metric(5), "damaged".to_owned()));
    lines.push(Line::Point(Kind::Group.metric(5), 100, 1.0));
    assert_eq!(told(&lines), once);
}
