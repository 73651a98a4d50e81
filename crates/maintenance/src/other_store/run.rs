//! A run: metrics in batches, each read from the other store and stored here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plumbago_model::{MetricConfig, Pattern, sanitize};
use plumbago_store::{Creation, HistoryOptions, SettingsChange, StoredMetric};

use super::ImportStore;
use super::report::ImportStoreReport;
use crate::batches;
use crate::counts::reason_of;
use crate::done_list::DoneList;
use crate::histories::Refusals;
use crate::rate::Rate;
use crate::skipped::Skipped;
use crate::source_store::SourceStore;
use crate::verb::{VerbError, Work};

/// Maximum number of metrics that are read and stored together.
const BATCH: usize = 64;
/// Maximum number of slots in all stages of the metrics that are read and stored together. Each worker has
/// about this many slots in memory.
const BATCH_SLOTS: u64 = 1 << 20;
/// Number of metrics in one page of the list of all metrics.
const PAGE: usize = 10_000;

/// What a run shares between its workers.
pub(super) struct Run<'a> {
    source: &'a dyn SourceStore,
    plan: &'a ImportStore,
    work: &'a Work,
    rate: tokio::sync::Mutex<Rate>,
    refusals: tokio::sync::Mutex<Refusals>,
    state: Mutex<State>,
}

struct State {
    report: ImportStoreReport,
    skipped: Skipped,
    done: DoneList,
}

/// A metric to import.
pub(super) struct Due {
    name: String,
    /// The number of slots of all its stages.
    slots: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        source: &'a dyn SourceStore,
        plan: &'a ImportStore,
        work: &'a Work,
        done: DoneList,
        skipped: Skipped,
    ) -> Self {
        let report = ImportStoreReport {
            source: source.identity(),
            dry_run: plan.dry_run,
            ..ImportStoreReport::default()
        };
        Self {
            source,
            plan,
            work,
            rate: tokio::sync::Mutex::new(Rate::new(plan.rate)),
            refusals: tokio::sync::Mutex::default(),
            state: Mutex::new(State { report, skipped, done }),
        }
    }

    /// Finds the metrics that have to be imported.
    pub(super) async fn due(&mut self) -> Result<Vec<Due>, VerbError> {
        let patterns = self.plan.patterns().map_err(VerbError::Invalid)?;
        let mut due = Vec::new();
        let mut position = None;
        loop {
            self.work.go_on()?;
            let page = self.source.scan(position, PAGE).await?;
            let State { report, skipped, done } =
                self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            for (name, entry) in page.iter().filter(|(name, _)| is_asked_for(&patterns, name)) {
                report.metrics += 1;
                if done.has(name) {
                    report.stored_before += 1;
                } else if let Some(why) = unfit(name) {
                    skipped.note(&mut report.skips, "name", name, &why)?;
                } else {
                    due.push(Due { name: name.to_owned(), slots: slots_of(&entry.config) });
                }
            }
            self.work.progress.add(page.entries.len() as u64);
            position = page.next;
            if position.is_none() {
                return Ok(due);
            }
        }
    }

    /// Reads a batch of metrics from the other store and stores them.
    pub(super) async fn batch(&self, batch: &[Due]) -> Result<(), VerbError> {
        let turn = async { self.rate.lock().await.take(batch.len()).await };
        self.work.stop().run_until_cancelled(turn).await.ok_or(VerbError::Cancelled)?;
        self.work.go_on()?;
        let names: Vec<&str> = batch.iter().map(|due| due.name.as_str()).collect();
        let found = self.source.metrics(&names).await?;
        let known: Vec<StoredMetric> = found.into_iter().flatten().collect();
        {
            let report = &mut self.lock().report;
            report.gone += (batch.len() - known.len()) as u64;
            report.slots += known.iter().map(|metric| metric.history.points()).sum::<u64>();
        }
        let fit = self.fitting(known).await?;
        let (full, empty): (Vec<StoredMetric>, Vec<StoredMetric>) =
            fit.into_iter().partition(|metric| metric.history.points() > 0);
        let mut done = self.create(&empty).await?;
        done.extend(self.store(full).await?);
        for metric in empty.into_iter().filter(|metric| !metric.ahead.is_empty()) {
            self.store_ahead(&metric.history.name, &metric.ahead).await?;
        }
        let done: Vec<&str> = done.iter().map(String::as_str).collect();
        self.lock().done.note(&done)?;
        self.work.progress.add(batch.len() as u64);
        Ok(())
    }

    /// The results.
    pub(super) fn end(self) -> (ImportStoreReport, Skipped, DoneList) {
        let State { report, skipped, done } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (report, skipped, done)
    }

    /// Leaves out metrics that cannot be stored here, and gives the new ones their settings.
    async fn fitting(&self, metrics: Vec<StoredMetric>) -> Result<Vec<StoredMetric>, VerbError> {
        let known = self.known(&metrics).await?;
        let mut fit = Vec::with_capacity(metrics.len());
        for (mut metric, known) in metrics.into_iter().zip(known) {
            let history = &mut metric.history;
            let is_new = known.is_none();
            let config = known.unwrap_or_else(|| match self.plan.rules {
                true => self.work.histories.config_for(&history.name),
                false => Arc::clone(&history.config),
            });
            if let Some(why) = config.refuses_points_of(&history.config) {
                let whose =
                    if is_new { "the rules give it other settings" } else { "it exists with other settings" };
                self.skip(&history.name, "settings", &format!("{whose}: {why}"))?;
                continue;
            }
            if let Some(why) = self.refusals.lock().await.of(&*self.work.histories, &config).await? {
                self.skip(&history.name, "tables", &why)?;
                continue;
            }
            if is_new {
                history.config = config;
            }
            fit.push(metric);
        }
        Ok(fit)
    }

    /// The settings of those metrics that exist here.
    async fn known(&self, metrics: &[StoredMetric]) -> Result<Vec<Option<Arc<MetricConfig>>>, VerbError> {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.history.name.as_str()).collect();
        // The metrics in use come first: a metric that live points have just created has no metadata yet.
        let in_use = self.work.histories.settings_in_use(&names).await?;
        let stored = self.work.stores.metadata.get(&names).await?;
        let known = in_use.into_iter().zip(stored);
        Ok(known.map(|(in_use, stored)| in_use.or_else(|| stored.map(|stored| stored.config))).collect())
    }

    /// Creates metrics without points. Returns the names of those that exist now.
    async fn create(&self, metrics: &[StoredMetric]) -> Result<Vec<String>, VerbError> {
        if metrics.is_empty() {
            return Ok(Vec::new());
        }
        let change = |metric: &StoredMetric| SettingsChange {
            name: metric.history.name.clone(),
            config: Arc::clone(&metric.history.config),
        };
        let changes = metrics.iter().map(change).collect();
        let created = self.work.histories.create_metrics(changes, self.plan.dry_run).await?;
        let mut done = Vec::with_capacity(metrics.len());
        for (metric, creation) in metrics.iter().zip(created) {
            let name = &metric.history.name;
            match creation {
                Creation::Refused(why) => {
                    self.skip(name, reason_of(&why), &why)?;
                    continue;
                }
                Creation::Created => self.lock().report.history.created += 1,
                Creation::Known(_) | Creation::Starting => {}
            }
            self.lock().report.without_points += 1;
            done.push(name.clone());
        }
        Ok(done)
    }

    /// Stores metrics. Returns the names of those that were stored.
    async fn store(&self, metrics: Vec<StoredMetric>) -> Result<Vec<String>, VerbError> {
        let (mut histories, mut rest) = (Vec::new(), Vec::new());
        for StoredMetric { history, ahead } in metrics {
            rest.push((history.name.clone(), ahead));
            histories.push(history);
        }
        if histories.is_empty() {
            return Ok(Vec::new());
        }
        let options = HistoryOptions { overwrites: self.plan.overwrite, dry_run: self.plan.dry_run };
        let reports = self.work.histories.take(histories, options).await?;
        let mut done = Vec::with_capacity(rest.len());
        for ((name, ahead), stored) in rest.into_iter().zip(reports) {
            self.lock().report.add(&stored);
            if !stored.refused.is_empty() {
                self.skip(&name, reason_of(&stored.refused), &stored.refused)?;
                continue;
            }
            self.store_ahead(&name, &ahead).await?;
            done.push(name);
        }
        Ok(done)
    }

    /// Accepts points ahead of now as if a sender had sent them, because they have no slot yet.
    async fn store_ahead(&self, name: &str, points: &[(u32, f64)]) -> Result<(), VerbError> {
        self.lock().report.ahead += points.len() as u64;
        if self.plan.dry_run {
            return Ok(());
        }
        for (time, value) in points {
            self.work.writer.write(name, *time, *value).await?;
        }
        Ok(())
    }

    fn skip(&self, name: &str, reason: &str, text: &str) -> Result<(), VerbError> {
        let State { report, skipped, .. } = &mut *self.lock();
        skipped.note(&mut report.skips, reason, name, text)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Divides metrics into batches.
pub(super) fn batches(due: &[Due]) -> Vec<&[Due]> {
    batches::batches(due, BATCH, BATCH_SLOTS, |due| due.slots)
}

fn is_asked_for(patterns: &[Pattern], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(name))
}

fn slots_of(config: &MetricConfig) -> u64 {
    config.retention.stages().iter().map(|stage| u64::from(stage.points)).sum()
}

/// Why a metric of this store cannot have the name. Another program may have written it.
fn unfit(name: &str) -> Option<String> {
    match sanitize(name) {
        Ok(clean) if clean == name => None,
        Ok(clean) => Some(format!("its name would be {clean} here")),
        Err(error) => Some(format!("it cannot be the name of a metric: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_a_limit_of_metrics_and_of_slots() {
        let due = |slots: u64| Due { name: "a".to_owned(), slots };
        let mut all: Vec<Due> = (0..BATCH + 1).map(|_| due(1)).collect();
        all.extend([due(BATCH_SLOTS * 2), due(BATCH_SLOTS), due(1)]);
        let sizes: Vec<usize> = batches(&all).iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [BATCH, 1, 1, 1, 1]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn without_a_glob_everything_is_asked_for() {
        let patterns = [Pattern::parse("web.*").unwrap(), Pattern::parse("load;host=a").unwrap()];
        for (name, is_wanted) in [("web.a", true), ("web.a.b", false), ("load;host=a", true), ("load", false)]
        {
            assert_eq!(is_asked_for(&patterns, name), is_wanted, "{name}");
            assert!(is_asked_for(&[], name));
        }
    }

    #[test]
    fn names_of_other_programs_are_looked_at() {
        assert_eq!(unfit("a.b;c=d"), None);
        assert!(unfit("a..b").unwrap().contains("a.b"));
        assert!(unfit("a b").is_some());
    }
}
