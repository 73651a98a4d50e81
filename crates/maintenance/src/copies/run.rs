//! A run: metrics in batches, each of which is copied, gets its retention, and is deleted if it is moved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plumbago_model::{MetricConfig, Retention};
use plumbago_store::{CopyOptions, CopyReport, MetricCopy, SettingsChange};

use super::report::CopiesReport;
use super::{CopyPlan, Old};
use crate::batches::batch_len;
use crate::counts::reason_of;
use crate::deletion::{self, Deleted};
use crate::done_list::DoneList;
use crate::histories::Refusals;
use crate::rate::Rate;
use crate::verb::{VerbError, Work};

/// Maximum number of metrics that are copied together. Their heads are blocked meanwhile.
const BATCH: usize = 64;
/// Maximum number of slots in all stages of the metrics that are copied together. About this many slots are
/// in memory.
const BATCH_SLOTS: u64 = 2 << 20;
/// Attempts to copy a metric that gets another retention while points of it are on their way to the store.
const BUSY_TRIES: u32 = 8;
/// Pause between two attempts to copy such a metric.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// What a run works with.
pub(super) struct Run<'a> {
    plan: &'a CopyPlan,
    old: Old,
    work: &'a Work,
    retention: Option<Retention>,
    rate: Rate,
    refusals: Refusals,
    done: DoneList,
    report: CopiesReport,
    deleted: Deleted,
    directories: BTreeSet<String>,
}

/// A metric with its settings; `None` if it is just being created.
type Subject<'a> = (&'a MetricCopy, Option<Arc<MetricConfig>>);

impl<'a> Run<'a> {
    pub(super) fn new(
        plan: &'a CopyPlan,
        old: Old,
        work: &'a Work,
        retention: Option<Retention>,
        done: DoneList,
        report: CopiesReport,
    ) -> Self {
        Self {
            plan,
            old,
            work,
            retention,
            rate: Rate::new(plan.rate),
            refusals: Refusals::default(),
            done,
            report,
            deleted: Deleted::default(),
            directories: BTreeSet::new(),
        }
    }

    /// Copies all of these metrics.
    pub(super) async fn all(&mut self, copies: &[MetricCopy]) -> Result<(), VerbError> {
        for copies in copies.chunks(BATCH) {
            let subjects = self.storable(copies).await?;
            let mut rest = subjects.as_slice();
            while !rest.is_empty() {
                let (some, others) = rest.split_at(at_once(rest));
                self.work.go_on()?;
                let turn = self.work.stop().run_until_cancelled(self.rate.take(some.len())).await;
                turn.ok_or(VerbError::Cancelled)?;
                let some: Vec<MetricCopy> = some.iter().map(|(copy, _)| (*copy).clone()).collect();
                self.batch(&some).await?;
                rest = others;
            }
            self.work.progress.add(copies.len() as u64);
        }
        Ok(())
    }

    /// Deletes the directories that no longer contain a metric.
    pub(super) async fn clean_directories(&mut self) -> Result<(), VerbError> {
        let directories = std::mem::take(&mut self.directories);
        deletion::clean_directories(self.work, directories, &mut self.deleted).await?;
        if self.deleted.metrics > 0 {
            deletion::make_durable(self.work).await?;
        }
        Ok(())
    }

    /// The results.
    pub(super) fn end(self) -> (CopiesReport, DoneList) {
        let Deleted { metrics, directories, .. } = self.deleted;
        (CopiesReport { deleted: metrics, directories, ..self.report }, self.done)
    }

    /// The metrics that can be copied and were not copied before.
    async fn storable<'b>(&mut self, copies: &'b [MetricCopy]) -> Result<Vec<Subject<'b>>, VerbError> {
        let names: Vec<&str> = copies.iter().map(|copy| copy.from.as_str()).collect();
        let known = self.work.stores.metadata.get(&names).await?;
        let mut storable = Vec::with_capacity(copies.len());
        for (copy, known) in copies.iter().zip(known) {
            if self.old == Old::Stays && self.done.has(&copy.from) {
                self.report.copied_before += 1;
                continue;
            }
            let config = known.map(|known| known.config);
            match self.refused(config.as_deref()).await? {
                Some((reason, why)) => self.report.skips.note(reason, &copy.from, &why),
                None => storable.push((copy, config)),
            }
        }
        Ok(storable)
    }

    /// Why a copy cannot have the requested retention.
    async fn refused(
        &mut self,
        config: Option<&MetricConfig>,
    ) -> Result<Option<(&'static str, String)>, VerbError> {
        let (Some(config), Some(retention)) = (config, &self.retention) else { return Ok(None) };
        let wanted = MetricConfig { retention: retention.clone(), ..config.clone() };
        if let Some(why) = wanted.refuses_points_of(config) {
            return Ok(Some(("retention", why)));
        }
        let why = self.refusals.of(&*self.work.histories, &wanted).await?;
        Ok(why.map(|why| ("tables", why)))
    }

    /// Copies one batch of metrics. Everything that has to be stored before the old names are deleted comes
    /// first.
    async fn batch(&mut self, copies: &[MetricCopy]) -> Result<(), VerbError> {
        let options = CopyOptions {
            overwrites: self.plan.overwrite,
            moves: self.old == Old::Goes,
            dry_run: self.plan.dry_run,
        };
        if self.plan.dry_run {
            let reports = self.work.histories.copy_metrics(copies.to_vec(), options).await?;
            self.note(copies, &reports);
            return Ok(());
        }
        let is_simple = self.retention.is_none() && !options.overwrites;
        let mut left: Vec<MetricCopy> = copies.to_vec();
        if self.old == Old::Stays || !is_simple {
            left = self.copy_first(left, CopyOptions { moves: false, ..options }).await?;
        }
        if self.old == Old::Goes && !left.is_empty() {
            self.move_last(&left, is_simple).await?;
        }
        Ok(())
    }

    /// Copies metrics, changes their retention, and adds them to the list. Returns the completed ones.
    async fn copy_first(
        &mut self,
        copies: Vec<MetricCopy>,
        options: CopyOptions,
    ) -> Result<Vec<MetricCopy>, VerbError> {
        // A deletion of these metrics may have begun in a run that was killed. In that case the copy has more
        // points than the old name.
        let (before, due): (Vec<MetricCopy>, Vec<MetricCopy>) =
            copies.into_iter().partition(|copy| self.done.has(&copy.from));
        self.report.copied_before += before.len() as u64;
        let reports = self.work.histories.copy_metrics(due.clone(), options).await?;
        self.note(&due, &reports);
        let is_copied = |(_, report): &(MetricCopy, CopyReport)| report.refused.is_empty();
        let copied = due.into_iter().zip(reports).filter(is_copied).map(|(copy, _)| copy).collect();
        let mut whole = self.change_retention(copied).await?;
        let names: Vec<&str> = whole.iter().map(|copy| copy.from.as_str()).collect();
        self.done.note(&names)?;
        whole.extend(before);
        Ok(whole)
    }

    /// Copies the points that arrived since, or all points if `is_first` says that the metrics were not
    /// copied before, and deletes the old names.
    async fn move_last(&mut self, copies: &[MetricCopy], is_first: bool) -> Result<(), VerbError> {
        let options = CopyOptions { overwrites: false, moves: true, dry_run: false };
        // Read before a deletion begins, so that the metrics can be loaded again if the store fails.
        let names: Vec<&str> = copies.iter().map(|copy| copy.from.as_str()).collect();
        let known = self.work.stores.metadata.get(&names).await?;
        let reports = self.work.histories.copy_metrics(copies.to_vec(), options).await?;
        let going = names.into_iter().zip(known).zip(&reports).filter(|(_, report)| report.is_going);
        let going = going.map(|(metric, _)| metric).collect();
        // This comes before anything that can fail, because deletions that have begun must be ended.
        let deleted = deletion::finish(self.work, going, &mut self.deleted, &mut self.directories).await;
        if is_first {
            self.note(copies, &reports);
        } else {
            let refused = copies.iter().zip(&reports).filter(|(_, report)| !report.refused.is_empty());
            refused.for_each(|(copy, report)| refuse(&mut self.report, copy, &report.refused));
        }
        for (copy, _) in copies.iter().zip(&reports).filter(|(_, report)| report.stays) {
            let text = "its copy is complete, but it still receives points; change the senders and run the \
                        same command again";
            self.report.skips.note("stays", &copy.from, text);
        }
        deleted
    }

    fn note(&mut self, copies: &[MetricCopy], reports: &[CopyReport]) {
        for (copy, report) in copies.iter().zip(reports) {
            match report.refused.is_empty() {
                true => self.report.add(report),
                false => refuse(&mut self.report, copy, &report.refused),
            }
        }
    }

    /// Gives the copies the requested retention. Returns those that have it.
    async fn change_retention(&mut self, copies: Vec<MetricCopy>) -> Result<Vec<MetricCopy>, VerbError> {
        let Some(retention) = self.retention.clone() else { return Ok(copies) };
        let names: Vec<&str> = copies.iter().map(|copy| copy.to.as_str()).collect();
        let known = self.work.stores.metadata.get(&names).await?;
        let change = |(copy, known): (MetricCopy, Option<plumbago_store::MetricMeta>)| {
            let config = MetricConfig { retention: retention.clone(), ..(*known?.config).clone() };
            let change = SettingsChange { name: copy.to.clone(), config: Arc::new(config) };
            Some((copy, change))
        };
        let mut left: Vec<(MetricCopy, SettingsChange)> =
            copies.into_iter().zip(known).filter_map(change).collect();
        let mut whole = Vec::with_capacity(left.len());
        for _ in 0..BUSY_TRIES {
            let asked = left.iter().map(|(_, change)| change.clone()).collect();
            let reports = self.work.histories.change_settings(asked).await?;
            let mut busy = Vec::new();
            for ((copy, change), report) in left.into_iter().zip(reports) {
                self.report.changed += u64::from(report.changed);
                if report.is_busy {
                    busy.push((copy, change));
                } else if report.refused.is_empty() {
                    whole.push(copy);
                } else {
                    self.report.skips.note("retention", &copy.from, &report.refused);
                }
            }
            left = busy;
            if left.is_empty() {
                break;
            }
            self.work.go_on()?;
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        for (copy, _) in &left {
            let text = "some points of its copy have not reached the store, so the copy keeps the retention \
                        of the old metric";
            self.report.skips.note("retention", &copy.from, text);
        }
        Ok(whole)
    }
}

/// Counts a copy that was refused.
fn refuse(report: &mut CopiesReport, copy: &MetricCopy, why: &str) {
    report.skips.note(reason_of(why), &copy.from, why);
}

/// How many metrics are copied at once.
fn at_once(subjects: &[Subject<'_>]) -> usize {
    batch_len(subjects.iter(), BATCH, BATCH_SLOTS, |(_, config): &Subject<'_>| {
        let stages = config.iter().flat_map(|config| config.retention.stages());
        stages.map(|stage| u64::from(stage.points)).sum::<u64>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_retentions_are_copied_one_by_one() {
        let config = |text: &str| Some(Arc::new(MetricConfig::from_text(text).unwrap()));
        let copy = MetricCopy { from: "a".to_owned(), to: "b".to_owned() };
        let (short, long) = (config("60s:86400s average 0.5"), config("1s:31536000s average 0.5"));
        let subjects = [(&copy, short.clone()), (&copy, None), (&copy, short), (&copy, long.clone())];
        assert_eq!(at_once(&subjects), 3);
        assert_eq!(at_once(&[(&copy, long.clone()), (&copy, long)]), 1);
    }
}
