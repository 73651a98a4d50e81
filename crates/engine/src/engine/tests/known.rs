//! Reads that return only the slots with a value, and the points behind each.

use plumbago_store::{FetchError, KnownSlot};

use super::*;

/// The slots of a coarse stage come with the sum and the number of their points, from memory and from the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coarse_slots_tell_their_points() {
    let world = World::new();
    let (engine, _) = world.start().await;
    // Ten slots of ten seconds, in which every third second has a point.
    let start = START / 10 * 10 - 100;
    let times: Vec<i64> = (start..start + 100).step_by(3).collect();
    let mut batch = PointBatch::default();
    for name in ["sum.m", "avg.m", "max.m"] {
        times.iter().for_each(|time| batch.push(name, *time as u32, (time - start) as f64));
    }
    assert!(engine.push(batch).await);
    for is_stored in [false, true] {
        if is_stored {
            engine.flush_all().await.unwrap();
        }
        for (name, is_exact) in [("sum.m", true), ("avg.m", true), ("max.m", false)] {
            // From so far back, only the second stage covers the range.
            let names = vec![Arc::from(name)];
            let request =
                FetchRequest { names, from: START - 5000, until: START, now: START, slots_max: usize::MAX };
            let read = engine.reader().fetch_known(&request).await.unwrap().pop().unwrap();
            let windows: Vec<i64> = read.slots.iter().map(|slot| slot.time).collect();
            assert_eq!((read.step, windows), (10, (start..start + 100).step_by(10).collect()), "{name}");
            for slot in read.slots {
                let within = slot.time..slot.time + 10;
                let points: Vec<i64> = times.iter().copied().filter(|time| within.contains(time)).collect();
                assert_eq!(slot.count as usize, points.len(), "{name} {within:?}");
                let wanted = if is_exact {
                    points.iter().map(|time| time - start).sum()
                } else {
                    (points[points.len() - 1] - start) * points.len() as i64
                };
                assert_eq!(slot.sum, wanted as f64, "{name} {within:?}");
            }
            let raw = FetchRequest { from: START - 200, ..request };
            let raw = engine.reader().fetch_known(&raw).await.unwrap().pop().unwrap();
            let wanted = times.iter().map(|time| KnownSlot::raw(*time, (time - start) as f64));
            assert_eq!((raw.step, raw.slots), (1, wanted.collect()));
        }
    }
}

/// A range of millions of slots is read in pieces. Only its known slots count for the limit, and a read of all slots is
/// refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_ranges_with_few_points() {
    const DAY: i64 = 86_400;
    let world = World::new();
    let (engine, _) = world.start().await;
    let names = ["long.a", "long.b"];
    let times = |name: &str| -> Vec<i64> {
        let phase = i64::from(name == "long.b");
        (0..9).map(|day| START - 10 * DAY * (9 - day) + 7 * day + phase).chain([START - 1, START]).collect()
    };
    let mut batch = PointBatch::default();
    for name in names {
        times(name).iter().for_each(|time| batch.push(name, *time as u32, (time % 1000) as f64));
    }
    assert!(engine.push(batch).await);
    let request = |slots_max| FetchRequest {
        names: names.map(Arc::from).to_vec(),
        from: START - 99 * DAY,
        until: START,
        now: START,
        slots_max,
    };
    // For peers, only the content of the heads is read.
    let pending = engine.reader().pending(&request(0)).await.unwrap();
    assert_eq!(pending.len(), 2);
    for of_one in pending {
        let slots: Vec<u32> = of_one.rows.iter().map(|(slot, _)| *slot).collect();
        assert!(slots.ends_with(&[START as u32 - 1, START as u32]), "{slots:?}");
    }
    for is_stored in [false, true] {
        if is_stored {
            engine.flush_all().await.unwrap();
        }
        let read = engine.reader().fetch_known(&request(22)).await.unwrap();
        for (name, series) in names.iter().zip(read) {
            let wanted: Vec<_> =
                times(name).iter().map(|time| KnownSlot::raw(*time, (time % 1000) as f64)).collect();
            assert_eq!((&*series.name, series.step, series.slots), (*name, 1, wanted));
        }
        let refused = engine.reader().fetch_known(&request(21)).await;
        assert!(matches!(refused, Err(FetchError::TooManySlots(21))));
        let all_slots = engine.reader().fetch(&request(10_000_000)).await;
        assert!(matches!(all_slots, Err(FetchError::TooManySlots(10_000_000))));
    }
}

/// A read of a long range also returns the open window of a percentile, whose raw slots are all in the store
/// and which has no row yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_open_window_of_a_percentile_is_in_long_ranges() {
    const DAY: i64 = 86_400;
    let world = World::new();
    let (engine, _) = world.start().await;
    let mut batch = PointBatch::default();
    (START - 9..START - 4).for_each(|time| batch.push("p95.m", time as u32, (time - START) as f64));
    assert!(engine.push(batch).await);
    for is_stored in [false, true] {
        if is_stored {
            engine.flush_all().await.unwrap();
        }
        let mut answers = Vec::new();
        for days in [1, 190] {
            let names = vec![Arc::from("p95.m")];
            let from = START - days * DAY;
            let request = FetchRequest { names, from, until: START, now: START, slots_max: 10 };
            answers.push(engine.reader().fetch_known(&request).await.unwrap().pop().unwrap());
        }
        assert_eq!((answers[0].step, answers[0].slots.len()), (10, 1), "{answers:?}");
        assert_eq!(answers[0], answers[1]);
    }
}
