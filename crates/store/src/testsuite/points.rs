//! Checks of [`PointStore`]. Slots are written shortly before `now`, the time of the store's clock in seconds
//! since the epoch. Repeated runs over one store must pass the same `now`, or they would find the slots of
//! earlier runs next to their own.

use std::ops::Range;

use super::model::Tracked;
use super::random::Random;
use super::{Subject, assert_same, insist, row_counts};
use crate::{BlockLayout, PointStore, ReadRequest, RowCount, SlotRange, WriteBatch};

/// Runs every check of this module.
pub async fn all(store: &dyn PointStore, layout: BlockLayout, now: u32) {
    later_writes_win_slot_by_slot(store, now).await;
    repeated_writes_change_nothing(store, now).await;
    whole_runs_replace_their_block(store, layout, now).await;
    runs_of_one_batch_apply_in_order(store, layout, now).await;
    coarse_windows_keep_their_counts(store, now).await;
    reads_show_gaps_and_nothing_beyond_the_range(store, now).await;
    values_survive_bit_for_bit(store, now).await;
    reads_cross_the_expiry_boundary(store, now).await;
    columns_come_in_the_order_asked(store, now).await;
    deletion_takes_all_stages_named_and_no_other_metric(store, now).await;
    ranges_are_deleted_to_the_slot(store, now).await;
    long_runs_cross_blocks_and_days(store, now).await;
    for seed in 0..6 {
        agrees_with_a_plain_model(store, layout, now, seed).await;
    }
}

async fn write(store: &dyn PointStore, batch: &WriteBatch) {
    insist(|| store.write(batch)).await;
}

async fn read(
    store: &dyn PointStore,
    subject: &Subject,
    stage: u8,
    from: u32,
    until: u32,
) -> (Vec<f64>, Vec<RowCount>) {
    let request = ReadRequest { ranges: vec![subject.range(stage, from, until)], ..Default::default() };
    let mut columns = insist(|| store.read(&request)).await;
    assert_eq!(columns.len(), 1);
    let column = columns.remove(0);
    (column.values, column.counts)
}

/// Writes one partial run of raw values.
async fn put(store: &dyn PointStore, subject: &Subject, first: u32, values: &[f64]) {
    let mut batch = WriteBatch::default();
    batch.push(subject.run(0, first, false), values, None);
    write(store, &batch).await;
}

/// Writing a slot again replaces it. Unknown slots of a partial run do not change stored ones.
pub async fn later_writes_win_slot_by_slot(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("upsert");
    let slot = subject.raw.slot(now) - 100;
    put(store, &subject, slot, &[1.0, 2.0, 3.0]).await;
    put(store, &subject, slot + 1, &[20.0, f64::NAN, 40.0]).await;
    let (values, counts) = read(store, &subject, 0, slot, slot + 4).await;
    assert_same(&values, &[1.0, 20.0, 3.0, 40.0], "upsert");
    assert!(counts.is_empty(), "raw columns carry no counts");
}

/// Writing the same batch several times leaves the same slots.
pub async fn repeated_writes_change_nothing(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("repeat");
    let (raw, coarse) = (subject.raw.slot(now) - 90, subject.coarse.slot(now) - 6);
    let mut batch = WriteBatch::default();
    batch.push(subject.run(0, raw, false), &[1.5, f64::NAN, -2.5], None);
    batch.push(subject.run(1, coarse, false), &[15.0], Some(&row_counts(&[10])));
    for round in 0..3 {
        write(store, &batch).await;
        let (values, _) = read(store, &subject, 0, raw - 1, raw + 4).await;
        assert_same(&values, &[f64::NAN, 1.5, f64::NAN, -2.5, f64::NAN], &format!("round {round}"));
        let (values, counts) = read(store, &subject, 1, coarse, coarse + 1).await;
        assert_same(&values, &[15.0], "coarse");
        assert_eq!(counts, [10]);
    }
}

/// A whole run replaces its block with all earlier partial runs. Later partial runs replace single slots.
pub async fn whole_runs_replace_their_block(store: &dyn PointStore, layout: BlockLayout, now: u32) {
    let subject = Subject::new("whole");
    let start = layout.block_start(&subject.id, subject.raw.slot(now) - 200) as u32;
    let len = layout.raw_slots;
    let mut values: Vec<f64> = (0..len).map(|i| f64::from(i) * 0.5).collect();
    put(store, &subject, start + 3, &[values[3]]).await;

    let mut batch = WriteBatch::default();
    batch.push(subject.run(0, start, true), &values, None);
    write(store, &batch).await;
    assert_same(&read(store, &subject, 0, start, start + len).await.0, &values, "whole");

    // A late point, in a partial run that continues into the next block.
    values[len as usize - 1] = 99.25;
    put(store, &subject, start + len - 1, &[99.25, 7.0]).await;
    values.push(7.0);
    assert_same(&read(store, &subject, 0, start, start + len + 1).await.0, &values, "late");
}

/// If several runs of one batch have the same slot, the last one wins.
pub async fn runs_of_one_batch_apply_in_order(store: &dyn PointStore, layout: BlockLayout, now: u32) {
    let subject = Subject::new("order");
    let start = layout.block_start(&subject.id, subject.raw.slot(now) - 300) as u32;
    let whole: Vec<f64> = (0..layout.raw_slots).map(f64::from).collect();
    let mut batch = WriteBatch::default();
    batch.push(subject.run(0, start, true), &whole, None);
    batch.push(subject.run(0, start + 1, false), &[100.0, f64::NAN, 300.0], None);
    batch.push(subject.run(0, start + 3, false), &[301.0], None);
    write(store, &batch).await;
    let wanted = [0.0, 100.0, 2.0, 301.0];
    assert_same(&read(store, &subject, 0, start, start + 4).await.0, &wanted, "order");
}

/// Coarse stages keep values and counts, separately from the raw stage.
pub async fn coarse_windows_keep_their_counts(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("coarse");
    let slot = subject.coarse.slot(now) - 40;
    let mut batch = WriteBatch::default();
    batch.push(subject.run(1, slot, false), &[10.0, f64::NAN, 30.5], Some(&row_counts(&[15, 0, 7])));
    write(store, &batch).await;
    batch.clear();
    batch.push(subject.run(1, slot + 2, true), &[31.5], Some(&row_counts(&[8])));
    batch.push(subject.run(1, slot + 3, true), &[-1.0], Some(&row_counts(&[40_000])));
    write(store, &batch).await;
    let (values, counts) = read(store, &subject, 1, slot - 1, slot + 4).await;
    assert_same(&values, &[f64::NAN, 10.0, f64::NAN, 31.5, -1.0], "coarse values");
    assert_eq!(counts, [0, 15, 0, 8, 40_000]);
    let (values, _) = read(store, &subject, 0, slot, slot + 4).await;
    assert_same(&values, &[f64::NAN; 4], "the raw stage is apart");
}

/// A column has exactly the requested slots. Those that were never written are unknown.
pub async fn reads_show_gaps_and_nothing_beyond_the_range(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("gaps");
    let slot = subject.raw.slot(now) - 500;
    for i in [0, 1, 70, 71, 140] {
        put(store, &subject, slot + i, &[f64::from(i)]).await;
    }
    let mut wanted = vec![f64::NAN; 200];
    for i in [1, 70, 71, 140] {
        wanted[i as usize + 9] = f64::from(i);
    }
    // The first slot written is checked separately below.
    wanted[9] = f64::NAN;
    let from = slot - 9;
    let mut got = read(store, &subject, 0, from, from + 200).await.0;
    assert_eq!(got[9], 0.0);
    got[9] = f64::NAN;
    assert_same(&got, &wanted, "gaps");
    assert_same(&read(store, &subject, 0, slot + 1, slot + 3).await.0, &[1.0, f64::NAN], "clipped");
    assert_same(&read(store, &subject, 0, slot + 72, slot + 140).await.0, &[f64::NAN; 68], "inside a gap");
    assert!(read(store, &subject, 0, slot, slot).await.0.is_empty());
    let nobody = Subject::new("nobody");
    let (values, counts) = read(store, &nobody, 1, 5, 8).await;
    assert_same(&values, &[f64::NAN; 3], "an unknown metric");
    assert_eq!(counts, [0; 3]);
}

/// Negative zero, infinities, subnormals and huge values read back bit for bit.
pub async fn values_survive_bit_for_bit(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("bits");
    let slot = subject.raw.slot(now) - 50;
    let values = [
        -0.0,
        0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        5e-324,
        f64::MAX,
        f64::MIN,
        0.1 + 0.2,
        9_007_199_254_740_993.0,
    ];
    put(store, &subject, slot, &values).await;
    assert_same(&read(store, &subject, 0, slot, slot + 9).await.0, &values, "bits");
}

/// A store may drop slots older than the retention, but no younger ones.
pub async fn reads_cross_the_expiry_boundary(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("expiry");
    // Ten slots of margin, because the clock of a real store advances during the test.
    let oldest = subject.raw.slot(now) - subject.raw.points + 10;
    let values: Vec<f64> = (0..60).map(f64::from).collect();
    put(store, &subject, oldest, &values).await;
    put(store, &subject, oldest - 40, &[1.0; 40]).await;
    let got = read(store, &subject, 0, oldest - 40, oldest + 60).await.0;
    assert_same(&got[40..], &values, "inside the retention");
    for value in &got[..40] {
        assert!(value.is_nan() || *value == 1.0, "neither expired nor what was written: {value}");
    }
}

/// One request for many ranges of several metrics and stages, some of them overlapping, returns the columns
/// in the order of the ranges.
pub async fn columns_come_in_the_order_asked(store: &dyn PointStore, now: u32) {
    let subjects: Vec<Subject> = (0..20).map(|i| Subject::new(&format!("many{i}"))).collect();
    let mut batch = WriteBatch::default();
    for (i, subject) in subjects.iter().enumerate() {
        let (raw, coarse) = (subject.raw.slot(now) - 10, subject.coarse.slot(now) - 10);
        batch.push(subject.run(0, raw, false), &[i as f64, i as f64 + 0.5], None);
        batch.push(subject.run(1, coarse, false), &[i as f64 * 10.0], Some(&row_counts(&[3])));
    }
    write(store, &batch).await;
    let (raw, coarse) = (subjects[0].raw.slot(now) - 10, subjects[0].coarse.slot(now) - 10);
    let mut ranges = Vec::new();
    for subject in subjects.iter().rev() {
        ranges.push(subject.range(1, coarse, coarse + 1));
        ranges.push(subject.range(0, raw, raw + 2));
    }
    ranges.push(subjects[7].range(0, raw + 1, raw + 2));
    let request = ReadRequest { ranges, ..Default::default() };
    let columns = insist(|| store.read(&request)).await;
    assert_eq!(columns.len(), 41);
    for (n, i) in (0..20).rev().enumerate() {
        assert_same(&columns[2 * n].values, &[f64::from(i) * 10.0], "coarse of many");
        assert_eq!(columns[2 * n].counts, [3]);
        assert_same(&columns[2 * n + 1].values, &[f64::from(i), f64::from(i) + 0.5], "raw of many");
    }
    assert_same(&columns[40].values, &[7.5], "asked twice");
}

/// A deletion removes the given stages and nothing else. The metric may be written again afterwards.
pub async fn deletion_takes_all_stages_named_and_no_other_metric(store: &dyn PointStore, now: u32) {
    let (gone, stays) = (Subject::new("gone"), Subject::new("stays"));
    let (raw, coarse) = (gone.raw.slot(now) - 2000, gone.coarse.slot(now) - 100);
    let mut batch = WriteBatch::default();
    for subject in [&gone, &stays] {
        batch.push(subject.run(0, raw, false), &[1.0; 1500], None);
        batch.push(subject.run(1, coarse, false), &[2.0; 3], Some(&row_counts(&[4; 3])));
    }
    write(store, &batch).await;
    insist(|| store.delete(&[])).await;
    let victims = [(gone.id, vec![gone.raw])];
    insist(|| store.delete(&victims)).await;
    assert_same(&read(store, &gone, 0, raw, raw + 1500).await.0, &[f64::NAN; 1500], "deleted");
    assert_same(&read(store, &gone, 1, coarse, coarse + 3).await.0, &[2.0; 3], "a stage not named");
    assert_same(&read(store, &stays, 0, raw, raw + 1500).await.0, &[1.0; 1500], "another metric");
    let victims = [(gone.id, vec![gone.raw, gone.coarse])];
    insist(|| store.delete(&victims)).await;
    assert_same(&read(store, &gone, 1, coarse, coarse + 3).await.0, &[f64::NAN; 3], "deleted");
    put(store, &gone, raw + 5, &[9.0]).await;
    assert_same(&read(store, &gone, 0, raw + 4, raw + 7).await.0, &[f64::NAN, 9.0, f64::NAN], "born again");
}

/// A deletion of ranges removes exactly their slots, in blocks and partitions of any age. Slots written
/// afterwards stay.
pub async fn ranges_are_deleted_to_the_slot(store: &dyn PointStore, now: u32) {
    let (cut, stays) = (Subject::new("cut"), Subject::new("uncut"));
    let (raw, coarse) = (cut.raw.slot(now) - 4500, cut.coarse.slot(now) - 100);
    let leftovers = [(cut.id, vec![cut.raw, cut.coarse])];
    insist(|| store.delete(&leftovers)).await;
    let mut batch = WriteBatch::default();
    for subject in [&cut, &stays] {
        batch.push(subject.run(0, raw, false), &[1.0; 4400], None);
        batch.push(subject.run(1, coarse, false), &[2.0; 50], Some(&row_counts(&[4; 50])));
    }
    write(store, &batch).await;
    insist(|| store.delete_ranges(&[])).await;
    let mut wanted = vec![1.0; 4400];
    // One slot, a few slots, many blocks and partitions, an empty range, and a range without an end.
    for (from, until) in [(7, 8), (100, 117), (500, 4001), (4100, 4100), (4390, 4400)] {
        let ranges = [cut.range(0, raw + from, raw + until)];
        insist(|| store.delete_ranges(&ranges)).await;
        wanted[from as usize..until as usize].fill(f64::NAN);
        assert_same(&read(store, &cut, 0, raw, raw + 4400).await.0, &wanted, &format!("{from}..{until}"));
    }
    assert_same(&read(store, &cut, 1, coarse, coarse + 50).await.0, &[2.0; 50], "a stage not named");
    assert_same(&read(store, &stays, 0, raw, raw + 4400).await.0, &[1.0; 4400], "another metric");
    let ranges = [cut.range(0, raw + 200, raw + 202), cut.range(1, coarse + 10, coarse + 49)];
    insist(|| store.delete_ranges(&ranges)).await;
    wanted[200..202].fill(f64::NAN);
    let (values, counts) = read(store, &cut, 1, coarse + 9, coarse + 50).await;
    let mut windows = vec![f64::NAN; 41];
    (windows[0], windows[40]) = (2.0, 2.0);
    assert_same(&values, &windows, "windows");
    assert_eq!([counts[0], counts[1], counts[39], counts[40]].map(RowCount::get), [4, 0, 0, 4]);
    put(store, &cut, raw + 600, &[9.0, 8.0]).await;
    (wanted[600], wanted[601]) = (9.0, 8.0);
    let ranges = [cut.range(0, raw + 601, u32::MAX)];
    assert_same(&read(store, &cut, 0, raw, raw + 4400).await.0, &wanted, "written again");
    insist(|| store.delete_ranges(&ranges)).await;
    wanted[601..].fill(f64::NAN);
    assert_same(&read(store, &cut, 0, raw, raw + 4400).await.0, &wanted, "open to the end");
}

/// A run of three days reads back, completely and in part.
pub async fn long_runs_cross_blocks_and_days(store: &dyn PointStore, now: u32) {
    let subject = Subject::new("long");
    let slot = subject.raw.slot(now) - 4500;
    let mut random = Random::new(3);
    let values: Vec<f64> =
        (0..4320).map(|_| if random.one_in(9) { f64::NAN } else { random.value() }).collect();
    put(store, &subject, slot, &values).await;
    assert_same(&read(store, &subject, 0, slot, slot + 4320).await.0, &values, "long");
    assert_same(&read(store, &subject, 0, slot + 1000, slot + 3000).await.0, &values[1000..3000], "part");
}

/// Random batches, deletions (whole and of ranges) and reads of a few metrics agree with a plain map.
pub async fn agrees_with_a_plain_model(store: &dyn PointStore, layout: BlockLayout, now: u32, seed: u64) {
    let mut random = Random::new(seed);
    let mut metrics: Vec<Tracked> = (0..4).map(|i| Tracked::new(&format!("model{seed}.{i}"))).collect();
    // An earlier run over this store may have left slots.
    let leftovers: Vec<_> =
        metrics.iter().map(|m| (m.subject.id, vec![m.subject.raw, m.subject.coarse])).collect();
    insist(|| store.delete(&leftovers)).await;
    for step in 0..60 {
        let mut batch = WriteBatch::default();
        for _ in 0..1 + random.below(5) {
            let at = random.below(4) as usize;
            random_run(&mut random, &mut metrics[at], layout, now, &mut batch);
        }
        write(store, &batch).await;
        if random.one_in(20) {
            let victim = &mut metrics[random.below(4) as usize];
            let stages = [(victim.subject.id, vec![victim.subject.raw, victim.subject.coarse])];
            insist(|| store.delete(&stages)).await;
            victim.model.clear();
        }
        if random.one_in(6) {
            let victim = &mut metrics[random.below(4) as usize];
            let stage_index = random.below(2) as u8;
            let newest = victim.subject.stage(stage_index).slot(now);
            let from = newest - 100 - random.below(500);
            let len = if random.one_in(3) { 300 } else { 20 };
            let until = from + 1 + random.below(len);
            let ranges = [victim.subject.range(stage_index, from, until)];
            insist(|| store.delete_ranges(&ranges)).await;
            victim.model.clear_range(stage_index, from, until);
        }
        if random.one_in(4) {
            compare(store, &mut random, &metrics, now, &format!("seed {seed} step {step}")).await;
        }
    }
    compare(store, &mut random, &metrics, now, &format!("seed {seed} at the end")).await;
}

/// Adds a random run to the batch and to the model.
fn random_run(
    random: &mut Random,
    metric: &mut Tracked,
    layout: BlockLayout,
    now: u32,
    batch: &mut WriteBatch,
) {
    let subject = metric.subject;
    let stage_index = random.below(3) as u8 / 2;
    let newest = subject.stage(stage_index).slot(now);
    let whole = stage_index == 0 && random.one_in(3);
    let (first, len) = if whole {
        let start = layout.block_start(&subject.id, newest - 2 * layout.raw_slots - random.below(400)) as u32;
        (start, layout.raw_slots)
    } else {
        let len = if random.one_in(8) { 1 + random.below(200) } else { 1 + random.below(8) };
        (newest - 250 - random.below(300), len)
    };
    let known = if whole { metric.model.values(0, first, first + len) } else { Vec::new() };
    let mut values = Vec::new();
    let mut counts = Vec::new();
    for slot in 0..len {
        // A whole run must have every known slot, so it repeats what was written before.
        let fallback = known.get(slot as usize).copied().unwrap_or(f64::NAN);
        let value = if random.one_in(4) { fallback } else { random.value() };
        values.push(value);
        counts.push(if value.is_nan() { RowCount::ZERO } else { RowCount::from(1 + random.below(60)) });
    }
    for (i, (value, count)) in values.iter().zip(&counts).enumerate() {
        metric.model.set(stage_index, first + i as u32, *value, *count);
    }
    let counts = (stage_index > 0).then_some(&counts[..]);
    batch.push(subject.run(stage_index, first, whole), &values, counts);
}

async fn compare(store: &dyn PointStore, random: &mut Random, metrics: &[Tracked], now: u32, what: &str) {
    let mut request = ReadRequest::default();
    for metric in metrics {
        for stage_index in [0, 1] {
            let newest = metric.subject.stage(stage_index).slot(now);
            let from = newest - 600 + random.below(300);
            request.ranges.push(metric.subject.range(stage_index, from, newest - random.below(250)));
        }
    }
    let columns = insist(|| store.read(&request)).await;
    let occupied = insist(|| store.occupied(&request.ranges, false)).await;
    assert_eq!(occupied.len(), columns.len());
    for (i, (range, column)) in request.ranges.iter().zip(&columns).enumerate() {
        check_occupied(range, &occupied[i], &column.values);
        let model = &metrics[i / 2].model;
        let what = format!("{what}, metric {} stage {}", i / 2, range.stage_index);
        assert_same(&column.values, &model.values(range.stage_index, range.from, range.until), &what);
        if range.stage_index > 0 {
            assert_eq!(column.counts, model.counts(range.stage_index, range.from, range.until), "{what}");
        }
    }
}

/// The parts of a range are in order, do not overlap, lie within it, and hold all known slots.
fn check_occupied(range: &SlotRange, parts: &[Range<u32>], values: &[f64]) {
    assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start), "{parts:?}");
    assert!(parts.iter().all(|part| range.from <= part.start && part.end <= range.until), "{parts:?}");
    for (slot, _) in (range.from..).zip(values).filter(|(_, value)| !value.is_nan()) {
        assert!(parts.iter().any(|part| part.contains(&slot)), "slot {slot} is outside of {parts:?}");
    }
}
