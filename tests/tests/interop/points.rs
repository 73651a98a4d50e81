//! Compares points in both directions: each program reads what the other writes.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_model::{Aggregation, MetricConfig, MetricId, Window};
use plumbago_store::{MetadataStore, MetricMeta, PointStore, RowCount, Run, WriteBatch};
use plumbago_store_cassandra::CassandraStore;
use plumbago_tests::biggraphite::{Metric, ONE, Points};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::beside::{Beside, Counted, aggregation, range, retention, stage_of};

const THREE_STAGES: &str = "14400*1s:10080*60s:2160*3600s";
const MINUTES: &str = "1440*60s:2160*3600s";
/// Retentions of the metrics that both read.
pub(crate) const RETENTIONS: [&str; 2] = [THREE_STAGES, MINUTES];
pub(super) const METHODS: [&str; 5] = ["average", "total", "minimum", "maximum", "last"];

pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn metrics(prefix: &str) -> Vec<Metric> {
    let metric = |method: &str, name: &str, retention: &str| Metric {
        name: format!("{prefix}.{name}.{method}"),
        retention: retention.to_owned(),
        aggregator: method.to_owned(),
        factor: 0.5,
    };
    let seconds = METHODS.iter().map(|method| metric(method, "seconds", THREE_STAGES));
    let minutes = METHODS.iter().map(|method| metric(method, "minutes", MINUTES));
    seconds.chain(minutes).collect()
}

/// Values whose sums are exact, so that the order of addition does not matter.
pub(super) fn value(random: &mut SmallRng) -> f64 {
    f64::from(random.random_range(-4000_i32..4000)) / 8.0
}

/// Points within about `seconds` seconds before `end`: in and out of order, with replaced values, gaps and
/// NaN.
fn traffic(random: &mut SmallRng, step: i64, end: i64, slots: i64) -> Vec<Points> {
    let (mut calls, mut at) = (Vec::new(), end - slots * step);
    while at < end {
        let mut points = Vec::new();
        for _ in 0..random.random_range(1..12) {
            at += step * random.random_range(0..4) + random.random_range(0..step.min(2));
            let late = if random.random_ratio(1, 6) { step * random.random_range(0..30) } else { 0 };
            let value = if random.random_ratio(1, 25) { f64::NAN } else { value(random) };
            points.push((at - late, value));
        }
        calls.push(points);
    }
    calls
}

/// Our store reads the rows of several writers and replicas of BigGraphite, restarted in between, with the
/// same result as BigGraphite.
#[test]
fn we_read_what_biggraphite_wrote() {
    let Some(beside) = Beside::made_by_biggraphite("interop_read", &RETENTIONS) else { return };
    theirs_is_read(beside);
}

pub(crate) fn theirs_is_read(mut beside: Beside) {
    let metrics = metrics("from.biggraphite");
    beside.biggraphite.create(ONE, &metrics);
    let mut random = SmallRng::seed_from_u64(41);
    let end = now();
    // For `last`, BigGraphite takes the writer with the highest id, and our store the one that wrote last. Here
    // the second writer is both.
    let (first, second) = (random.random_range(8..8000), random.random_range(8008..16_000));
    for (replica, writer, copies, until) in
        [(0, first, 1.0, end - 3000), (0, second, 1.0, end), (1, 77, 0.7, end - 1000)]
    {
        beside.biggraphite.open("writer", replica, Some(writer));
        for metric in &metrics {
            let step = i64::from(stage_of(metric, 0).resolution);
            // Replicas get the same points, but each loses some.
            let mut same = SmallRng::seed_from_u64(u64::from(MetricId::of(&metric.name).0[0]));
            let calls = traffic(&mut same, step, until, 3000 / step + 200);
            let calls: Vec<_> = calls.into_iter().filter(|_| random.random_bool(copies)).collect();
            let calls: Vec<(&str, Points)> = calls.into_iter().map(|c| (metric.name.as_str(), c)).collect();
            beside.biggraphite.insert("writer", &calls);
        }
        beside.biggraphite.flush("writer");
    }
    let store = beside.store(0, 16_000);
    let read: usize = metrics.iter().map(|metric| read_alike(&mut beside, &store, metric, end)).sum();
    assert!(read > 5000, "{read} slots");
}

/// Compares all stages of a metric. Returns the number of slots.
fn read_alike(beside: &mut Beside, store: &CassandraStore, metric: &Metric, end: i64) -> usize {
    let mut seen = 0;
    for stage in 0..retention(&metric.retention).stages().len() {
        let range = range(metric, stage, end - 20_000, end + 7200);
        let theirs = beside.biggraphite.fetch_counted(ONE, std::slice::from_ref(&range)).remove(0).unwrap();
        let theirs: Vec<Counted> = theirs.into_iter().filter(|(_, value, _)| !value.is_nan()).collect();
        let ours = beside.read(store, metric, stage, &range);
        assert_eq!(ours, theirs, "{range:?}");

        // Compare also the final result, as shown to users.
        let slots = stage_of(metric, stage).resolution / stage_of(metric, 0).resolution;
        let finish = |(time, value, count): &Counted| {
            let window = Window { value: *value, count: *count as u32 };
            let shown = if stage == 0 { *value } else { aggregation(metric).finish(window, slots) };
            (*time, shown)
        };
        let shown: Points = beside.biggraphite.fetch(ONE, &[range]).remove(0).unwrap();
        let shown: Points = shown.into_iter().filter(|(_, value)| !value.is_nan()).collect();
        assert_eq!(ours.iter().map(finish).collect::<Points>(), shown);
        seen += ours.len();
    }
    seen
}

/// Rows of one of our writers: for each stage, windows by slot.
type Written = Vec<BTreeMap<u32, Window>>;

/// BigGraphite reads the rows of several of our writers and replicas as our store does, and as expected.
#[test]
fn biggraphite_reads_what_we_wrote() {
    let Some(beside) = Beside::made_by_us("interop_write", &RETENTIONS) else { return };
    ours_is_read(beside);
}

pub(crate) fn ours_is_read(mut beside: Beside) {
    let metrics = metrics("from.plumbago");
    let end = now();
    let mut random = SmallRng::seed_from_u64(42);
    let one = beside.store(0, 800);
    let metas: Vec<MetricMeta> = metrics.iter().map(|metric| meta(metric, end)).collect();
    beside.wait(one.create(&metas)).unwrap();
    let writers = [(0, 800), (0, 1600), (2, 2400)].map(|(replica, id)| (replica, beside.store(replica, id)));
    for metric in &metrics {
        let mut all: Vec<(u8, Written)> = Vec::new();
        for (replica, store) in &writers {
            let written = random_windows(&mut random, metric, end);
            beside.wait(store.write(&batch(metric, &written))).unwrap();
            // Written again, as after a lost acknowledgement. Nothing may change.
            beside.wait(store.write(&batch(metric, &written))).unwrap();
            all.push((*replica, written));
        }
        for stage in 0..retention(&metric.retention).stages().len() {
            let range = range(metric, stage, end - 400_000, end + 7200);
            let mut expected = merged(metric, stage, &all);
            expected.retain(|(time, ..)| *time >= range.start);
            assert_eq!(beside.read(&one, metric, stage, &range), expected, "{range:?}, ours");
            let theirs = beside.biggraphite.fetch_counted(ONE, std::slice::from_ref(&range)).remove(0);
            assert_eq!(theirs.unwrap(), expected, "{range:?}, theirs");
        }
        read_alike(&mut beside, &one, metric, end);
    }
}

fn meta(metric: &Metric, now: i64) -> MetricMeta {
    let config = MetricConfig {
        retention: retention(&metric.retention),
        aggregation: aggregation(metric),
        x_files_factor: metric.factor,
    };
    MetricMeta { name: metric.name.clone(), config: config.into(), created_on: now as u32 }
}

/// Runs of known slots and gaps over several partitions of 2000 slots. Windows of a day contain more seconds than a
/// 16-bit count can represent.
fn random_windows(random: &mut SmallRng, metric: &Metric, end: i64) -> Written {
    let stages = retention(&metric.retention);
    let window = |random: &mut SmallRng, stage: usize| {
        let count = if stage == 0 { 1 } else { random.random_range(1..90_000) };
        Window { value: value(random), count }
    };
    let mut written = Written::new();
    for (i, stage) in stages.stages().iter().enumerate() {
        let mut slots = BTreeMap::new();
        let last = stage.slot(end as u32);
        let span = (380_000 / stage.resolution).min(4500).min(stage.points - 100);
        for slot in last - span..=last {
            if random.random_ratio(3, 5) {
                slots.insert(slot, window(random, i));
            }
        }
        written.push(slots);
    }
    written
}

fn batch(metric: &Metric, written: &Written) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for (i, slots) in written.iter().enumerate() {
        let (Some(first), Some(last)) = (slots.keys().next(), slots.keys().last()) else { continue };
        let run = Run {
            id: MetricId::of(&metric.name),
            stage: stage_of(metric, i),
            stage_index: i as u8,
            aggregation: aggregation(metric),
            first_slot: *first,
            len: 0,
            at: 0,
            whole: false,
        };
        let cell = |slot: u32| slots.get(&slot).copied().unwrap_or(Window { value: f64::NAN, count: 0 });
        let windows: Vec<Window> = (*first..=*last).map(cell).collect();
        let values: Vec<f64> = windows.iter().map(|w| w.value).collect();
        let counts: Vec<RowCount> = windows.iter().map(|w| w.count.into()).collect();
        batch.push(run, &values, Some(&counts));
    }
    batch
}

/// The expected result. In stage 0 the last write of a slot wins. In other stages the writers of each replica are
/// merged in the order of their writes, and for each slot the replica with the highest count wins.
fn merged(metric: &Metric, stage: usize, all: &[(u8, Written)]) -> Vec<Counted> {
    let mut slots: BTreeMap<u32, BTreeMap<u8, Window>> = BTreeMap::new();
    for (replica, written) in all {
        for (slot, window) in &written[stage] {
            let replicas = slots.entry(*slot).or_default();
            if stage == 0 {
                replicas.insert(0, *window);
                continue;
            }
            let merged = replicas.entry(*replica).or_default();
            *merged = merge(aggregation(metric), *merged, *window);
        }
    }
    let step = i64::from(stage_of(metric, stage).resolution);
    let best = |(slot, replicas): (u32, BTreeMap<u8, Window>)| {
        let most = replicas.values().map(|w| w.count).max().unwrap_or_default();
        let window = replicas.values().find(|w| w.count == most).copied().unwrap_or_default();
        (i64::from(slot) * step, window.value, u64::from(window.count))
    };
    slots.into_iter().map(best).collect()
}

fn merge(method: Aggregation, earlier: Window, later: Window) -> Window {
    let value = match method {
        _ if earlier.count == 0 => later.value,
        Aggregation::Min => earlier.value.min(later.value),
        Aggregation::Max => earlier.value.max(later.value),
        Aggregation::Last => later.value,
        _ => earlier.value + later.value,
    };
    Window { value, count: earlier.count + later.count }
}

/// Both programs write to one metric at the same time, and both read windows that include all points.
#[test]
fn a_metric_fed_by_both() {
    let Some(mut beside) = Beside::made_by_biggraphite("interop_both", &[THREE_STAGES]) else { return };
    let metrics: Vec<Metric> = metrics("both").into_iter().filter(|m| m.retention == THREE_STAGES).collect();
    beside.biggraphite.create(ONE, &metrics);
    beside.biggraphite.open("writer", 0, Some(1));
    let store = beside.store(0, 8000);
    let end = now() / 3600 * 3600;
    for metric in &metrics {
        // One program gets the points of even seconds, the other those of odd seconds.
        let mut random = SmallRng::seed_from_u64(43);
        let points: Points = (end - 7200..end).map(|t| (t, value(&mut random))).collect();
        let (even, odd): (Points, Points) = points.iter().partition(|(t, _)| t % 2 == 0);
        let calls: Vec<(&str, Points)> =
            even.chunks(600).map(|chunk| (metric.name.as_str(), chunk.to_vec())).collect();
        beside.biggraphite.insert("writer", &calls);
        beside.biggraphite.flush("writer");
        beside.wait(store.write(&batch(metric, &folded(metric, &odd)))).unwrap();

        let all = folded(metric, &points);
        for (stage, slots) in all.iter().enumerate() {
            let range = range(metric, stage, end - 7200, end);
            let step = i64::from(stage_of(metric, stage).resolution);
            let expected: Vec<Counted> =
                slots.iter().map(|(s, w)| (i64::from(*s) * step, w.value, u64::from(w.count))).collect();
            assert_eq!(beside.read(&store, metric, stage, &range), expected, "{range:?}");
        }
        read_alike(&mut beside, &store, metric, end);
    }
}

/// All stages, computed from the points of stage 0.
pub(super) fn folded(metric: &Metric, points: &Points) -> Written {
    let fold = |stage: &plumbago_model::Stage| {
        let mut slots: BTreeMap<u32, Window> = BTreeMap::new();
        for (time, value) in points {
            let window = slots.entry(stage.slot(*time as u32)).or_default();
            *window = merge(aggregation(metric), *window, Window { value: *value, count: 1 });
        }
        slots
    };
    retention(&metric.retention).stages().iter().map(fold).collect()
}
