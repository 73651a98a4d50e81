//! `kill -9` during commits and sending. After a restart, every committed row is sent with its original
//! timestamp.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_model::{MetricId, Stage, SystemClock};
use plumbago_spool::{Sender, SpooledStore};
use plumbago_store::layer::Faults;
use plumbago_store::{
    Column, FlushBatch, FlushStore, ReadRequest, RemotePoints, SlotRange, StateRow, StoreError, WriteBatch,
    WriteLimits, WriteRefusal,
};
use plumbago_tests::crash::{Victim, child_directory, child_test};
use plumbago_tests::wait::eventually;
use tokio_util::sync::CancellationToken;

use crate::common::{RAW, TimedRemote, id, open_store, run, sender_config, spool_config};

const KILLS: u64 = 8;
const METRICS: u32 = 60;

/// A remote store that prints each row and then acknowledges it. So every acknowledged row has been reported.
#[derive(Debug)]
struct Speaking;

#[plumbago_boxed_futures::boxed_futures]
impl RemotePoints for Speaking {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        let mut text = String::new();
        for run in &batch.runs {
            for (slot, value) in (run.first_slot..).zip(batch.values(run)).filter(|(_, v)| !v.is_nan()) {
                text.push_str(&format!("arrived {} {slot} {value} {timestamp_us}\n", hex(run.id)));
            }
        }
        std::io::stdout().write_all(text.as_bytes()).unwrap();
        Ok(())
    }

    async fn read_own(&self, _: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        unreachable!("nobody reads here")
    }

    async fn delete_at(
        &self,
        _: &[(MetricId, Vec<Stage>)],
        _: &[SlotRange],
        _: i64,
    ) -> Result<(), StoreError> {
        unreachable!("nobody deletes here")
    }

    async fn delete_ranges_at(&self, _: &[SlotRange], _: &[SlotRange], _: i64) -> Result<(), StoreError> {
        unreachable!("nobody deletes here")
    }

    async fn subtract_other_writers(&self, _: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_limits(&self) -> WriteLimits {
        WriteLimits { concurrency: 3, slots_per_call: 50 }
    }
}

fn hex(id: MetricId) -> String {
    id.to_string()
}

/// The slot of the newest commit, read from the state rows.
fn newest(store: &SpooledStore) -> u32 {
    let mut newest = 0;
    store
        .scan_states(&mut |_, bytes| newest = newest.max(u32::from_le_bytes(bytes.try_into().unwrap())))
        .unwrap();
    newest
}

fn value_of(metric: u32, slot: u32) -> f64 {
    f64::from(slot) + f64::from(metric) / 1000.0
}

/// The process that the test kills. Commit `n` writes slot `n` of every metric, and slot `n - 1` again with
/// the same value.
#[test]
#[ignore = "runs as a child of a test below"]
fn child() {
    let Some(dir) = child_directory() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open_store(&dir, spool_config(), Arc::new(SystemClock), Arc::new(Speaking));
        let from = newest(&store);
        tokio::spawn(Sender::new(store.clone(), sender_config()).run(CancellationToken::new()));
        let committing = tokio::task::spawn_blocking(move || {
            for slot in from + 1.. {
                let mut batch = FlushBatch::default();
                for n in 0..METRICS {
                    let values = [value_of(n, slot - 1), value_of(n, slot)];
                    batch.rows.push(run(id(n), 0, slot - 1), &values, None);
                    batch.states.push(StateRow { id: id(n), bytes: slot.to_le_bytes().to_vec() });
                }
                store.commit(&batch).unwrap();
                std::io::stdout().write_all(format!("committed {slot}\n").as_bytes()).unwrap();
                std::thread::sleep(Duration::from_micros(u64::from(slot % 7) * 300));
            }
        });
        committing.await.unwrap();
    });
}

#[derive(Default)]
struct Seen {
    committed: u32,
    /// The newest value and timestamp of each slot, by metric and slot.
    arrived: BTreeMap<(String, u32), (f64, i64)>,
}

fn run_and_kill(dir: &Path, reports: u64, later: Duration, seen: &Arc<Mutex<Seen>>) {
    let command = child_test("crash::child", dir);
    let seen = Arc::clone(seen);
    let child = Victim::start(command, move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut seen = seen.lock().unwrap();
        match words[..] {
            ["committed", slot] => seen.committed = slot.parse().unwrap(),
            ["arrived", metric, slot, value, at] => {
                let key = (metric.to_owned(), slot.parse().unwrap());
                seen.arrived.insert(key, (value.parse().unwrap(), at.parse().unwrap()));
                return false;
            }
            _ => return false,
        }
        true
    });
    child.kill_after(reports, later);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    for kill in 0..KILLS {
        // The first kill happens during the start. Reports are counted in commits.
        run_and_kill(dir.path(), kill * 13, Duration::from_millis(kill * 37 % 50), &seen);
    }
    let remote = TimedRemote::new(Faults::by_chance(1, 0.2));
    let store = open_store(dir.path(), spool_config(), Arc::new(SystemClock), remote.clone());
    let committed = newest(&store);
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(committed == seen.committed || committed == seen.committed + 1, "{committed} {}", seen.committed);
    assert!(committed > 50, "only {committed} commits");
    let last = seen.arrived.values().map(|(_, at)| *at).max().unwrap();

    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    eventually("all is sent", || store.status().spool.pending_rows == 0).await;
    stop.cancel();
    sender.await.unwrap();
    for ((metric, stage, coarse, slot), (at, bits, _)) in remote.cells() {
        assert!(stage == RAW && !coarse);
        seen.arrived.insert((hex(metric), slot), (f64::from_bits(bits), at));
    }
    for n in 0..METRICS {
        let name = hex(id(n));
        for slot in 0..=committed {
            let found = seen.arrived.get(&(name.clone(), slot)).map(|(value, _)| *value);
            assert_eq!(found, Some(value_of(n, slot)), "metric {n} slot {slot}");
        }
    }
    // No timestamp that a server has received is assigned again.
    assert!(store.spool().timestamp().unwrap() > last);
}
