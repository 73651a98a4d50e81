//! Tests of the jobs on the memory store, which has directories like Cassandra's tables.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_maintenance::checkpoint::Checkpoints;
use plumbago_maintenance::directories::{CleanDirectories, RepairDirectories};
use plumbago_maintenance::job::Progress;
use plumbago_maintenance::rows::CleanRows;
use plumbago_maintenance::{
    Context, Job, JobError, LiveMetrics, NoLeases, NobodyWrites, Request, Scheduler, Stores,
};
use plumbago_model::{Aggregation, ManualClock, MetricConfig};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{DirectoryStore, MetadataStore, MetricMeta, RowProblem, RowStore, Share, StoreError};
use tokio_util::sync::CancellationToken;

mod expire;
mod windows;

const NOW: i64 = 1_700_000_000;
const DAY: i64 = 86_400;

fn config() -> Arc<MetricConfig> {
    Arc::new(MetricConfig {
        retention: "60s:7d,3600s:2y".parse().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    })
}

async fn create(store: &MemoryStore, names: &[String], created_on: i64) {
    store.set_time_us(created_on * 1_000_000);
    let config = config();
    let metrics: Vec<MetricMeta> = names
        .iter()
        .map(|name| MetricMeta { name: name.clone(), config: config.clone(), created_on: created_on as u32 })
        .collect();
    store.create(&metrics).await.unwrap();
}

async fn delete(store: &MemoryStore, names: &[String]) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    MetadataStore::delete(store, &names).await.unwrap();
}

fn context() -> Context {
    let mut context = Context::new(Arc::new(NobodyWrites), Arc::new(ManualClock::at(NOW)));
    context.settle = Duration::from_millis(20);
    context
}

fn stores(store: &MemoryStore) -> Stores {
    let store = Arc::new(store.clone());
    Stores {
        rows: store.clone(),
        metadata: store.clone(),
        listing: store.clone(),
        points: store.clone(),
        directories: Some(store.clone()),
        states: Some(store),
        windows: None,
        delete_points: true,
    }
}

async fn directories(store: &MemoryStore) -> BTreeSet<String> {
    store.scan_directories(Share::ALL, None, usize::MAX).await.unwrap().names.into_iter().collect()
}

async fn exists(store: &MemoryStore, name: &str) -> bool {
    store.look_up_rows(&[name]).await.unwrap()[0].is_some()
}

/// A store with many directories, some full and most empty, as after a year of short-lived hosts.
async fn aged(metrics: usize, full_every: usize) -> (MemoryStore, BTreeSet<String>) {
    let store = MemoryStore::default();
    let names: Vec<String> = (0..metrics).map(|i| format!("pods.zone{}.pod{i}.cpu", i % 10)).collect();
    create(&store, &names, NOW - 30 * DAY).await;
    let (kept, gone): (Vec<_>, Vec<_>) =
        names.into_iter().enumerate().partition(|(i, _)| i % full_every == 0);
    delete(&store, &gone.into_iter().map(|(_, name)| name).collect::<Vec<_>>()).await;
    let mut wanted = BTreeSet::new();
    for (_, name) in kept {
        wanted.extend(plumbago_store::directories_above(&name).map(str::to_owned));
    }
    (store, wanted)
}

#[tokio::test]
async fn empty_directories_go_and_no_others() {
    let (store, wanted) = aged(20_000, 100).await;
    let job = CleanDirectories(Arc::new(store.clone()));
    let before = directories(&store).await;
    let report = job.run(&Context { dry_run: true, ..context() }).await.unwrap();
    assert_eq!(directories(&store).await, before, "a dry run changes nothing");
    assert_eq!(report.done["empty_directory"], (before.len() - wanted.len()) as u64);
    assert_eq!(report.scanned, before.len() as u64);
    let again = job.run(&context()).await.unwrap();
    assert_eq!(again.done, report.done);
    assert!(again.finished && again.examples["empty_directory"].len() == 5);
    assert_eq!(directories(&store).await, wanted);
    let nothing = job.run(&context()).await.unwrap();
    assert!(nothing.done.is_empty());
}

#[tokio::test]
async fn young_directories_and_known_ones_stay() {
    let store = MemoryStore::default();
    store.set_time_us((NOW - 3600) * 1_000_000);
    store.create_directories(&["old.empty", "old"]).await.unwrap();
    store.set_time_us((NOW - 60) * 1_000_000);
    store.create_directories(&["young.empty"]).await.unwrap();
    let job = CleanDirectories(Arc::new(store.clone()));
    let live = Live::default();
    live.above.lock().unwrap().insert("old".to_owned());
    let report = job.run(&Context { live: Arc::new(live), ..context() }).await.unwrap();
    assert_eq!(directories(&store).await, ["old", "young.empty"].map(str::to_owned).into());
    assert_eq!((report.done["empty_directory"], report.kept["too_young"]), (1, 1));
}

/// Every part has its own rows, and together the parts handle all rows.
#[tokio::test]
async fn parts_share_the_work() {
    let (store, wanted) = aged(5000, 50).await;
    let job = CleanDirectories(Arc::new(store.clone()));
    let all = directories(&store).await.len() as u64;
    let mut scanned = 0;
    for index in 0..4 {
        let context = Context { share: Share { index, of: 4 }, ..context() };
        scanned += job.run(&context).await.unwrap().scanned;
    }
    assert_eq!(directories(&store).await, wanted);
    assert_eq!(scanned, all);
}

/// A job that is interrupted continues where it stopped, even in a new process.
#[tokio::test]
async fn a_job_goes_on_where_it_was_ended() {
    let (store, wanted) = aged(12_000, 100).await;
    let dir = tempfile::tempdir().unwrap();
    let job = CleanDirectories(Arc::new(store.clone()));
    let all = directories(&store).await.len() as u64;
    let stop = CancellationToken::new();
    let pages = Arc::new(AtomicU64::new(0));
    let progress = {
        let (stop, pages) = (stop.clone(), pages.clone());
        Progress(Arc::new(move |_| {
            if pages.fetch_add(1, Ordering::Relaxed) == 3 {
                stop.cancel();
            }
        }))
    };
    let checkpoints = Checkpoints::new(dir.path().join("maintenance"));
    let ended = Context { stop, progress, checkpoints: checkpoints.clone(), ..context() };
    assert!(matches!(job.run(&ended).await, Err(JobError::Stopped { .. })));
    assert!(checkpoints.is_unfinished(job.name(), Share::ALL));
    assert!(directories(&store).await.len() > wanted.len());
    // Rows that were already checked are not checked again.
    let report = job.run(&Context { checkpoints: checkpoints.clone(), ..context() }).await.unwrap();
    assert!(report.resumed && report.finished);
    assert_eq!(report.scanned, all, "those of the first run and those of the second");
    assert_eq!(directories(&store).await, wanted);
    assert!(!checkpoints.is_unfinished(job.name(), Share::ALL));
    let anew = job.run(&Context { checkpoints, ..context() }).await.unwrap();
    assert!(!anew.resumed && anew.scanned == wanted.len() as u64);
}

/// Careless writers, such as BigGraphite, check whether a directory exists and create it only if it does not.
/// Here they do so in directories that the job is deleting.
#[tokio::test(start_paused = true)]
async fn live_writers_lose_no_directory() {
    let (store, _) = aged(3000, 3001).await;
    let stop = CancellationToken::new();
    let mut writers = Vec::new();
    for writer in 0..3 {
        let (store, stop) = (store.clone(), stop.clone());
        writers.push(tokio::spawn(async move {
            let mut written = Vec::new();
            for i in (writer..3000).step_by(7) {
                let directory = format!("pods.zone{}.pod{i}", i % 10);
                let above: Vec<&str> = plumbago_store::directories_above(&directory).collect();
                let wanted: Vec<&str> = [directory.as_str()].into_iter().chain(above).collect();
                let there = store.have_directories(&wanted[..1]).await.unwrap()[0];
                tokio::task::yield_now().await;
                if !there {
                    store.set_time_us(NOW * 1_000_000);
                    store.create_directories(&wanted).await.unwrap();
                }
                tokio::time::sleep(Duration::from_micros(300)).await;
                store.put_problem(&format!("{directory}.memory"), RowProblem::NoMetadata);
                written.push(format!("{directory}.memory"));
                if stop.is_cancelled() {
                    break;
                }
            }
            written
        }));
    }
    let job = CleanDirectories(Arc::new(store.clone()));
    for _ in 0..5 {
        // The job waits 300 ms between a deletion and its last check. No writer needs that long.
        job.run(&Context { settle: Duration::from_millis(300), ..context() }).await.unwrap();
    }
    stop.cancel();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    assert!(written.len() > 50);
    let there = directories(&store).await;
    for name in &written {
        for directory in plumbago_store::directories_above(name) {
            assert!(there.contains(directory), "{directory} of {name}");
        }
    }
}

#[tokio::test]
async fn missing_directories_are_made() {
    let (store, wanted) = aged(3000, 10).await;
    let job = CleanDirectories(Arc::new(store.clone()));
    job.run(&context()).await.unwrap();
    let lost: Vec<&str> = wanted.iter().map(String::as_str).step_by(3).collect();
    store.delete_directories(&lost, NOW * 1_000_000).await.unwrap();
    let job = RepairDirectories { rows: Arc::new(store.clone()), directories: Arc::new(store.clone()) };
    let dry = job.run(&Context { dry_run: true, ..context() }).await.unwrap();
    assert_eq!(dry.done["missing_directory"], lost.len() as u64);
    assert_eq!(directories(&store).await.len(), wanted.len() - lost.len());
    job.run(&context()).await.unwrap();
    assert_eq!(directories(&store).await, wanted);
    assert!(job.run(&context()).await.unwrap().done.is_empty());
}

/// The metrics that a process writes, as set by the test.
#[derive(Debug, Default)]
struct Live {
    written: Mutex<HashSet<String>>,
    above: Mutex<HashSet<String>>,
    /// Metrics that get a point between the check and the unloading.
    late: Mutex<HashSet<String>>,
    /// Metrics that get a point right after the unloading.
    reborn: Mutex<HashSet<String>>,
    forgotten: Mutex<Vec<String>>,
}

#[boxed_futures]
impl LiveMetrics for Live {
    async fn closed_until(&self, names: &[&str]) -> Result<Vec<i64>, StoreError> {
        Ok(vec![i64::MAX; names.len()])
    }

    async fn are_written(&self, names: &[&str], _: i64) -> Result<Vec<bool>, StoreError> {
        let written = self.written.lock().unwrap();
        Ok(names.iter().map(|name| written.contains(*name)).collect())
    }

    fn is_known_above(&self, directory: &str) -> bool {
        self.above.lock().unwrap().contains(directory)
    }

    async fn forget(&self, names: &[&str], _: i64) -> Result<Vec<bool>, StoreError> {
        let late = self.late.lock().unwrap();
        let forgotten: Vec<bool> = names.iter().map(|name| !late.contains(*name)).collect();
        let gone = names.iter().zip(&forgotten).filter(|(_, forgotten)| **forgotten);
        self.forgotten.lock().unwrap().extend(gone.map(|(name, _)| (*name).to_owned()));
        let reborn = self.reborn.lock().unwrap();
        let reborn = names.iter().filter(|name| reborn.contains(**name));
        self.written.lock().unwrap().extend(reborn.map(|name| (*name).to_owned()));
        Ok(forgotten)
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_no_reader_can_use_go() {
    let store = MemoryStore::default();
    create(&store, &["a.sound".to_owned(), "a.lost".to_owned()], NOW - DAY).await;
    for (name, problem) in [
        ("a.cut", RowProblem::NoMetadata),
        ("a.written", RowProblem::NoMetadata),
        ("a.underway", RowProblem::NoMetadata),
        ("a.broken", RowProblem::Broken("no id".to_owned())),
        ("a.lost", RowProblem::NotListed),
    ] {
        store.put_problem(name, problem);
    }
    store.set_time_us((NOW - 60) * 1_000_000);
    store.put_problem("a.young", RowProblem::NoMetadata);
    let live = Live::default();
    live.written.lock().unwrap().insert("a.written".to_owned());
    let live: Arc<dyn LiveMetrics> = Arc::new(live);
    let job = CleanRows { rows: Arc::new(store.clone()), metadata: Arc::new(store.clone()) };

    let dry = Context { dry_run: true, live: live.clone(), ..context() };
    let report = job.run(&dry).await.unwrap();
    assert_eq!(report.done["no_metadata"], 3);
    assert!(exists(&store, "a.broken").await);

    // One creation ends while the job waits for the second check.
    let context = Context { live, settle: Duration::from_millis(300), ..context() };
    let running = tokio::spawn({
        let job = job.clone();
        async move { job.run(&context).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    create(&store, &["a.underway".to_owned()], NOW).await;
    let report = running.await.unwrap();
    assert_eq!(report.kept["sound_by_now"], 1);
    assert_eq!(report.kept["written"], 1);
    assert_eq!((report.done["broken_row"], report.done["not_listed"]), (1, 1));
    assert_eq!((report.done["no_metadata"], report.kept["too_young"]), (1, 1), "a.cut and a.young");
    for (name, there) in [
        ("a.sound", true),
        ("a.underway", true),
        ("a.written", true),
        ("a.lost", true),
        ("a.young", true),
        ("a.cut", false),
        ("a.broken", false),
    ] {
        assert_eq!(exists(&store, name).await, there, "{name}");
    }
    let lost = store.look_up_rows(&["a.lost"]).await.unwrap().remove(0).unwrap();
    assert_eq!((lost.problem, i64::from(lost.created_on)), (None, NOW - DAY));
}

/// A store that fails sometimes delays a job. If it keeps failing, the job ends and continues later.
#[tokio::test(start_paused = true)]
async fn a_failing_store_delays_a_job() {
    #[derive(Debug)]
    struct Failing(MemoryStore, AtomicU64);

    #[boxed_futures]
    impl DirectoryStore for Failing {
        async fn scan_directories(
            &self,
            share: Share,
            position: Option<Vec<u8>>,
            limit: usize,
        ) -> Result<plumbago_store::DirectoryPage, StoreError> {
            if self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                return Err(StoreError::new(plumbago_store::ErrorKind::Timeout, "scan directories"));
            }
            self.0.scan_directories(share, position, limit).await
        }

        async fn have_directories(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
            self.0.have_directories(names).await
        }

        async fn have_metrics_below(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
            self.0.have_metrics_below(names).await
        }

        async fn create_directories(&self, names: &[&str]) -> Result<(), StoreError> {
            self.0.create_directories(names).await
        }

        async fn delete_directories(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError> {
            self.0.delete_directories(names, as_of_us).await
        }
    }
    let (store, wanted) = aged(100, 10).await;
    let failing = Arc::new(Failing(store.clone(), AtomicU64::new(1000)));
    let job = CleanDirectories(failing.clone());
    assert!(matches!(job.run(&context()).await, Err(JobError::Store { .. })));
    failing.1.store(5, Ordering::Relaxed);
    job.run(&context()).await.unwrap();
    assert_eq!(directories(&store).await, wanted);
}

#[tokio::test]
async fn a_scheduler_runs_what_is_asked_for() {
    let (store, wanted) = aged(100, 10).await;
    let clean: Arc<dyn Job> = Arc::new(CleanDirectories(Arc::new(store.clone())));
    let context = context();
    let registry = context.registry.clone();
    let scheduler = Scheduler::new(vec![(clean, Duration::from_secs(3600))], context, Arc::new(NoLeases));
    let stop = CancellationToken::new();
    let running = tokio::spawn(scheduler.clone().run(stop.clone()));
    assert!(scheduler.ask("make_coffee", &Request::default()).is_err());
    scheduler.ask("clean_directories", &Request::default()).unwrap();
    let report = loop {
        let status = scheduler.status().remove(0);
        if let Some(report) = status.report.filter(|report| report.finished) {
            break report;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(directories(&store).await, wanted);
    assert!(report.done["empty_directory"] > 80);
    stop.cancel();
    running.await.unwrap();
    let text = registry.prometheus();
    assert!(text.contains("plumbago_maintenance_runs_total{job=\"clean_directories\"} 1"), "{text}");
    assert!(text.contains("kind=\"empty_directory\""), "{text}");
}
