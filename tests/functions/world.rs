//! The series over which both programs evaluate.

use plumbago_model::{Pattern, Series};
use serde_json::{Value, json};

/// The current time of all requests: 6:15:25 on a day that begins at `MIDNIGHT`.
pub(crate) const NOW: i64 = MIDNIGHT + 6 * 3600 + 15 * 60 + 25;

/// Midnight in UTC.
pub(crate) const MIDNIGHT: i64 = 1_700_006_400;

/// The number of days before `MIDNIGHT` that have points.
const DAYS: i64 = 16;

/// A resolution of a series. The finest one comes first.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    step: i64,
    first: i64,
    /// The time from which points of this resolution are kept. Requests that begin earlier get the next
    /// resolution.
    kept_from: i64,
    values: Vec<f64>,
}

/// A series.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) name: &'static str,
    stages: Vec<Stage>,
}

/// All series, sorted by name.
pub(crate) fn world() -> Vec<Stored> {
    let mut all: Vec<Stored> = PLAIN
        .iter()
        .enumerate()
        .map(|(seed, (name, step, shape))| stored(name, seed, &[(*step, i64::MIN)], *shape))
        .collect();
    all.push(stored("kept.old", 91, &[(60, NOW - 3 * 3600), (300, i64::MIN)], Shape::Dense));
    all.push(stored("kept.new", 92, &[(60, NOW - 3 * 3600), (300, i64::MIN)], Shape::Sparse));
    all.sort_by_key(|stored| stored.name);
    all
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Dense,
    Sparse,
    Nothing,
    Constant(f64),
    /// A counter with gaps and occasional resets.
    Counter,
    /// Small whole numbers.
    State,
    /// Positive and negative values.
    Signed,
    /// From 0 to 1.
    Share,
    /// One in five points is known.
    Rare,
    /// A wave with a period of one day.
    Daily,
    /// Unknown from midnight on.
    Ended,
    /// Values of about this size, of either sign.
    Scaled(f64),
}

const PLAIN: &[(&str, i64, Shape)] = &[
    ("dense.a", 60, Shape::Dense),
    ("dense.b", 60, Shape::Dense),
    ("dense.c", 60, Shape::Dense),
    ("sparse.a", 60, Shape::Sparse),
    ("sparse.b", 60, Shape::Sparse),
    ("sparse.c", 60, Shape::Sparse),
    ("null.a", 60, Shape::Nothing),
    ("null.b", 60, Shape::Nothing),
    ("fine.x", 10, Shape::Dense),
    ("fine.y", 10, Shape::Sparse),
    ("coarse.z", 300, Shape::Sparse),
    ("hour.h", 3600, Shape::Dense),
    ("counter.up", 60, Shape::Counter),
    ("counter.fast", 10, Shape::Counter),
    ("const.zero", 60, Shape::Constant(0.0)),
    ("const.five", 60, Shape::Constant(5.0)),
    ("const.neg", 60, Shape::Constant(-3.25)),
    ("state.s", 60, Shape::State),
    ("signed.n", 60, Shape::Signed),
    ("signed.m", 60, Shape::Signed),
    ("share.p", 60, Shape::Share),
    ("rare.r", 60, Shape::Rare),
    ("daily.d", 300, Shape::Daily),
    ("ended.e", 60, Shape::Ended),
    ("large.huge", 60, Shape::Scaled(1e15)),
    ("large.tiny", 60, Shape::Scaled(1e-12)),
    ("umlaut.größe", 60, Shape::Dense),
    ("umlaut.日本", 60, Shape::Sparse),
    ("cpu;dc=a;host=1", 60, Shape::Dense),
    ("cpu;dc=a;host=2", 60, Shape::Sparse),
    ("cpu;dc=b;host=3", 60, Shape::Dense),
    ("mem;dc=a;host=1", 60, Shape::Dense),
    ("servers.web1.cpu.user", 60, Shape::Dense),
    ("servers.web1.cpu.sys", 60, Shape::Sparse),
    ("servers.web2.cpu.user", 60, Shape::Dense),
    ("servers.web2.cpu.sys", 60, Shape::Dense),
    ("servers.web10.cpu.user", 60, Shape::State),
    ("host.h1.disk.used", 60, Shape::State),
    ("host.h1.disk.size", 60, Shape::Constant(10.0)),
    ("host.h2.disk.used", 60, Shape::Dense),
    ("host.h2.disk.size", 60, Shape::Dense),
    ("host.h3.disk.used", 60, Shape::State),
];

fn stored(name: &'static str, seed: usize, stages: &[(i64, i64)], shape: Shape) -> Stored {
    let stage = |(step, kept_from): &(i64, i64)| {
        let first = MIDNIGHT - DAYS * 86_400;
        let count = (NOW - first) / step + 1;
        let mut random = Random(seed as u64 * 7919 + *step as u64);
        let mut level = 100.0;
        let values = (0..count).map(|at| shape.value(&mut random, &mut level, first + at * step)).collect();
        Stage { step: *step, first, kept_from: *kept_from, values }
    };
    Stored { name, stages: stages.iter().map(stage).collect() }
}

impl Shape {
    fn value(self, random: &mut Random, level: &mut f64, time: i64) -> f64 {
        let (chance, value) = (random.next(), random.next());
        match self {
            Self::Nothing => f64::NAN,
            Self::Constant(value) => value,
            Self::Dense => (value * 1e6).round() / 1e4,
            Self::Sparse if chance < 0.45 => f64::NAN,
            Self::Sparse => value * 50.0,
            Self::State => (value * 4.0).floor(),
            Self::Signed if chance < 0.1 => f64::NAN,
            Self::Signed => value * 20.0 - 10.0,
            Self::Share => value,
            Self::Rare if time.rem_euclid(300) == 120 => 1.0 + value,
            Self::Rare => f64::NAN,
            Self::Daily if chance < 0.05 => f64::NAN,
            Self::Daily => 50.0 + 20.0 * (time as f64 * std::f64::consts::TAU / 86_400.0).sin() + value * 5.0,
            Self::Ended if time > MIDNIGHT => f64::NAN,
            Self::Ended => value * 9.0,
            Self::Scaled(size) => (value - 0.3) * size,
            Self::Counter => {
                *level = if chance < 0.04 { value * 10.0 } else { *level + (value * 100.0).floor() };
                if chance > 0.93 { f64::NAN } else { *level }
            }
        }
    }
}

/// A random generator with a fixed sequence.
#[derive(Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    /// A number from 0 to 1 (exclusive).
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() * count as f64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The series in the form that the engine reads.
pub(crate) fn to_json(world: &[Stored]) -> Value {
    let value = |value: &f64| if value.is_nan() { Value::Null } else { json!(value) };
    let stage = |stage: &Stage| {
        json!({
            "step": stage.step,
            "first": stage.first,
            "kept_from": stage.kept_from.max(0),
            "values": stage.values.iter().map(value).collect::<Vec<_>>(),
        })
    };
    let series =
        world.iter().map(|s| (s.name.to_owned(), s.stages.iter().map(stage).collect::<Vec<_>>().into()));
    Value::Object(series.collect())
}

impl Stored {
    /// The slots of a range: after `from`, up to and including `until`.
    pub(crate) fn cut(&self, from: i64, until: i64) -> Series {
        let stage =
            self.stages.iter().find(|stage| from >= stage.kept_from.max(0)).or(self.stages.last()).unwrap();
        let step = stage.step;
        let start = from - from.rem_euclid(step) + step;
        let end = (until - until.rem_euclid(step) + step).max(start + step);
        let at = |time: i64| {
            let slot = usize::try_from((time - stage.first).div_euclid(step)).ok()?;
            stage.values.get(slot).copied()
        };
        let times = (0..(end - start) / step).map(|slot| start + slot * step);
        let values = times.map(|time| at(time).unwrap_or(f64::NAN)).collect();
        Series { name: self.name.into(), start, step: step as u32, values }
    }
}

/// The series whose names match a glob.
pub(crate) fn matching<'a>(world: &'a [Stored], glob: &str) -> Vec<&'a Stored> {
    let Ok(pattern) = Pattern::parse(glob) else { return Vec::new() };
    world.iter().filter(|stored| pattern.matches(stored.name)).collect()
}

/// The series that match a `seriesByTag` whose expressions are all `tag=value`.
pub(crate) fn tagged<'a>(world: &'a [Stored], call: &str) -> Vec<&'a Stored> {
    let texts = call.split(['\'', '"']).skip(1).step_by(2);
    let asked: Vec<(&str, &str)> = texts.filter_map(|text| text.split_once('=')).collect();
    let has = |name: &str, (key, value): &(&str, &str)| {
        let tag = name.split(';').skip(1).filter_map(|tag| tag.split_once('=')).find(|(k, _)| k == key);
        let found = if *key == "name" { name.split(';').next() } else { tag.map(|(_, value)| value) };
        found == Some(value)
    };
    world.iter().filter(|s| s.name.contains(';') && asked.iter().all(|ask| has(s.name, ask))).collect()
}
