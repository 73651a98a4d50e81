//! Reads that return the points behind each value.

use super::*;

/// For the slots of a coarse stage, reads return the sum and the number of their points, from memory and from
/// the store.
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
            // A range that begins this early is covered only by the second stage.
            let names = vec![Arc::from(name)];
            let request = FetchRequest { names, from: START - 5000, until: START, now: START };
            let read = engine.reader().fetch_weighted(&request).await.unwrap().pop().unwrap();
            assert_eq!((read.series.step, read.weights.len()), (10, read.series.values.len()));
            for (at, (value, (sum, count))) in read.series.values.iter().zip(&read.weights).enumerate() {
                let slot = read.series.start + at as i64 * 10;
                let points: Vec<i64> =
                    times.iter().copied().filter(|time| (slot..slot + 10).contains(time)).collect();
                assert_eq!(*count as usize, points.len(), "{name} {slot}");
                assert_eq!(value.is_nan(), points.is_empty(), "{name} {slot}");
                if is_exact {
                    let wanted: i64 = points.iter().map(|time| time - start).sum();
                    assert_eq!(*sum, wanted as f64, "{name} {slot}");
                } else if let Some(last) = points.last() {
                    assert_eq!(*sum, (last - start) as f64 * points.len() as f64, "{name} {slot}");
                }
            }
            let raw = FetchRequest { from: START - 200, ..request };
            let raw = engine.reader().fetch_weighted(&raw).await.unwrap().pop().unwrap();
            assert_eq!((raw.series.step, raw.weights.len()), (1, 0));
            assert_eq!(raw.series.values.iter().filter(|value| !value.is_nan()).count(), times.len());
        }
    }
}
