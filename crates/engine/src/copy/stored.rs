//! The content of metrics, for copying it to another store.

use std::sync::Arc;

use plumbago_store::{
    CopyOptions, CopyReport, ErrorKind, History, MetricCopy, MetricMeta, PointStore, StoreError, StoredMetric,
};

use super::read::{Whole, read_stages};
use super::snapshot;
use super::{PAUSE, TRIES, Work};
use crate::engine::Engine;
use crate::shard::downsample::MetricLayout;

/// Reads the histories of metrics from the tables of a store, in the order of `metrics`. Reads only the
/// tables, so other processes may use the store. Points that are only in the memory of such a process are
/// missing.
///
/// # Errors
/// If the store cannot be read.
pub async fn histories_in_tables(
    points: &dyn PointStore,
    metrics: &[MetricMeta],
    now: i64,
) -> Result<Vec<History>, StoreError> {
    let whole = |metric: &MetricMeta| Whole {
        id: metric.id(),
        layout: Arc::new(MetricLayout::new(Arc::clone(&metric.config))),
        base: 0,
    };
    let wholes: Vec<Whole> = metrics.iter().map(whole).collect();
    let stored = read_stages(points, &wholes, now).await?;
    let read = metrics.iter().zip(&wholes).zip(stored);
    let history = |((metric, whole), stored): ((&MetricMeta, &Whole), Vec<Vec<_>>)| History {
        name: metric.name.clone(),
        config: Arc::clone(&metric.config),
        stages: snapshot::of_tables(&whole.layout, stored),
    };
    Ok(read.map(history).collect())
}

impl Engine {
    /// Reads the content of these metrics, which must be distinct, including what is only in memory; `None`
    /// for a metric that does not exist.
    ///
    /// # Errors
    /// If the store cannot be read, or if points of a metric stay on their way to the store for too long.
    pub async fn stored_metrics(&self, names: &[&str]) -> Result<Vec<Option<StoredMetric>>, StoreError> {
        // Runs in a separate task: blocked heads have to be released even if the caller is
        // dropped.
        let (engine, names) =
            (self.clone(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
        let reading = tokio::spawn(async move { engine.stored_of(names).await });
        match reading.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::with(ErrorKind::Internal, "read metrics", error)),
        }
    }

    async fn stored_of(&self, names: Vec<String>) -> Result<Vec<Option<StoredMetric>>, StoreError> {
        let shared: Vec<Arc<str>> = names.iter().map(|name| Arc::from(name.as_str())).collect();
        self.load_missing(&shared).await?;
        let copies: Vec<MetricCopy> =
            names.into_iter().map(|name| MetricCopy { from: name.clone(), to: name }).collect();
        let mut reports = vec![CopyReport::default(); copies.len()];
        let mut left: Vec<usize> = (0..copies.len()).collect();
        let mut found: Vec<Option<StoredMetric>> = vec![None; copies.len()];
        for try_number in 0..TRIES {
            if try_number > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let mut held = Vec::new();
            let asked = self.hold(&copies, &mut left, &mut reports, CopyOptions::default(), &mut held).await;
            let read = self.read_held(&held, &mut found).await;
            asked.and(read)?;
            if left.is_empty() {
                return Ok(found);
            }
        }
        let name = left.first().map_or("", |place| copies[*place].from.as_str());
        let why = format!("read {name}: some of its points are always being written to the store");
        Err(StoreError::new(ErrorKind::Overloaded, why))
    }

    /// Reads metrics whose changes are paused, and releases them.
    async fn read_held(&self, held: &[Work], found: &mut [Option<StoredMetric>]) -> Result<(), StoreError> {
        if held.is_empty() {
            return Ok(());
        }
        let works: Vec<&Work> = held.iter().collect();
        let read = self.read_all(&works).await;
        self.let_go(&works).await?;
        for (work, stored) in works.into_iter().zip(read?) {
            let (name, config) = (work.copy.from.clone(), Arc::clone(&work.head.layout.config));
            let history = History { name, config, stages: snapshot::history(&work.head, stored) };
            found[work.place] = Some(StoredMetric { history, ahead: work.head.state.future.clone() });
        }
        Ok(())
    }
}
