//! Checks that columns in memory are used, and are never older than the last write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{BLOCK, LONG, Metric, START, Store, block, block_on, metrics, open, read};
use plumbago_store::{FlushStore, PointStore, WriteBatch};

fn counted(store: &Store, name: &str) -> u64 {
    store.registry.value(&format!("plumbago_store_columns_{name}_total")).unwrap() as u64
}

#[test]
fn who_asks_again_is_answered_from_memory_until_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let metrics = metrics(3, LONG);
    (0..5).for_each(|number| store.store.commit(&block(&store.store, &metrics, number)).unwrap());
    let end = START + 4 * BLOCK;
    let first = read(&store.store, &metrics[0], START, end);
    assert_eq!((counted(&store, "decoded"), counted(&store, "from_memory")), (1, 0));
    // The same range, a part of it, and a slightly later range.
    assert_eq!(read(&store.store, &metrics[0], START, end)[BLOCK as usize..], first[BLOCK as usize..]);
    assert_eq!(read(&store.store, &metrics[0], START + 50, START + 60)[..], first[50..60]);
    read(&store.store, &metrics[0], START + 10, end + 10);
    assert_eq!((counted(&store, "decoded"), counted(&store, "from_memory")), (1, 3));
    // Another metric, and an earlier range, are read from the store.
    read(&store.store, &metrics[1], START, end);
    read(&store.store, &metrics[0], START - 1, end);
    assert_eq!((counted(&store, "decoded"), counted(&store, "from_memory")), (3, 3));

    let mut batch = WriteBatch::default();
    batch.push(metrics[0].run(START + 60, false), &[1234.5], None);
    block_on(store.store.write(&batch)).unwrap();
    assert_eq!(read(&store.store, &metrics[0], START, end)[60].to_bits(), 1234.5_f64.to_bits());
    block_on(store.store.delete(&[(metrics[0].id, vec![LONG])])).unwrap();
    assert!(read(&store.store, &metrics[0], START, end).iter().all(|value| value.is_nan()));
}

/// Each writer writes increasing numbers into one slot of its metric. Every read sees at least the last confirmed
/// number.
#[test]
fn readers_never_see_less_than_was_confirmed() {
    const WRITES: u64 = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let metrics = metrics(2, LONG);
    let confirmed = [AtomicU64::new(0), AtomicU64::new(0)];
    let done = AtomicBool::new(false);
    let count = &|metric: &Metric| {
        let mut batch = WriteBatch::default();
        for number in 1..=WRITES {
            batch.clear();
            batch.push(metric.run(START + 100, false), &[number as f64], None);
            block_on(store.store.write(&batch)).unwrap();
            confirmed[metric.number as usize].store(number, Ordering::Release);
        }
    };
    let look = || {
        let mut reads = 0_u64;
        while !done.load(Ordering::Acquire) {
            for metric in &metrics {
                let least = confirmed[metric.number as usize].load(Ordering::Acquire);
                let seen = read(&store.store, metric, START, START + 200)[100];
                assert!(least == 0 || seen >= least as f64, "{seen} after {least} was confirmed");
                reads += 1;
            }
        }
        reads
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(look), scope.spawn(look)];
        let write = |metric| scope.spawn(move || count(metric));
        let writers: Vec<_> = metrics.iter().map(write).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(reads > 0);
    });
    assert!(counted(&store, "decoded") > 0);
}
