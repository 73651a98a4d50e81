//! The verb `rules-apply`: gives existing metrics the settings of the present storage rules
//! (`docs/decisions/rules-apply.md`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricConfig;
use plumbago_store::{ErrorKind, SettingsChange, StoreError};
use serde::{Deserialize, Serialize};

use crate::histories::Refusals;
use crate::job::{Context, Job, JobError};
use crate::pace::{Pace, Received};
use crate::rate::Rate;
use crate::report::{EXAMPLES_MAX, Report};
use crate::select::{self, Which};
use crate::verb::{Verb, VerbError, Work};

/// Maximum number of metrics that are checked and changed together.
const BATCH: usize = 1000;
/// The number of metrics at a time while the process has other work, which must not wait long.
const BESIDE: usize = 100;
/// With a rate, the metrics of one second are changed in this many batches.
const BATCHES_A_SECOND: usize = 4;
/// Number of names that are matched without a pause for other tasks. Matching the patterns of rules may take
/// long.
const LOOKED_AT: usize = 64;
/// Attempts for a metric whose points are on their way to the store. Each waits some seconds.
const BUSY_TRIES: u32 = 8;
/// Pause between two attempts for such a metric.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Largest number of different changes in the answer; further ones are only counted.
const CHANGES_MAX: usize = 200;
/// Largest number of different reasons in the answer why metrics stay as they are.
const REFUSED_MAX: usize = 50;

/// Gives metrics the settings of the storage rules.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApplyRules {
    /// Selects the metrics to change.
    pub which: Which,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
    /// Largest number of metrics per second; 0 for no limit. `None` means at most
    /// [`Context::rows_per_second`] and, while points arrive, a pace that takes about a tenth of the
    /// processor time that the process uses otherwise.
    pub rate: Option<u32>,
}

/// Batches of metrics, and when they begin.
struct Batches {
    rate: Rate,
    /// `None` if a rate was requested.
    pace: Option<Pace>,
    /// Largest number of metrics in the next batch.
    size: usize,
}

impl Batches {
    /// Makes batches at a rate. Without a rate, at most `most` metrics are taken per second, and arriving
    /// points have priority.
    fn new(rate: Option<u32>, most: u32, received: Received) -> Self {
        let size = match rate {
            None => BESIDE,
            Some(0) => BATCH,
            Some(rate) => (rate as usize / BATCHES_A_SECOND).clamp(1, BATCH),
        };
        let pace = rate.is_none().then(|| Pace::new(received));
        Self { rate: Rate::new(rate.unwrap_or(most)), pace, size }
    }

    /// Waits until a batch of this many metrics may begin.
    async fn begin(&mut self, metrics: usize) {
        self.rate.take(metrics).await;
        if let Some(pace) = &mut self.pace {
            self.size = if pace.begin().await { BATCH.min(2 * self.size) } else { BESIDE };
        }
    }

    fn end(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.end();
        }
    }
}

/// Metrics that change in the same way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// The settings of these metrics before the change, as retention, aggregation method and factor.
    pub from: String,
    /// The settings of the rules.
    pub to: String,
    /// The number of these metrics.
    pub metrics: u64,
    /// The name of one of these metrics.
    pub example: String,
    /// What their points lose by the change; empty if nothing.
    pub loss: String,
}

/// Metrics that stay as they are for the same reason, although the rules have other settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// Why these metrics stay as they are.
    pub why: String,
    /// The number of these metrics.
    pub metrics: u64,
    /// The name of one of these metrics.
    pub example: String,
}

/// The results of a run; in a dry run, what it would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Applied {
    /// Number of metrics that were checked.
    pub metrics: u64,
    /// Number of metrics that changed.
    pub changed: u64,
    /// Slots and windows that were written into new stages.
    pub points: u64,
    /// The changes, the most frequent first.
    pub changes: Vec<Change>,
    /// The metrics that could not be changed, grouped by reason.
    pub refused: Vec<Refused>,
}

/// An answer that is being collected.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    answer: Applied,
    changes: BTreeMap<(String, String), Change>,
    refused: BTreeMap<String, Refused>,
}

#[boxed_futures]
impl Verb for ApplyRules {
    const NAME: &'static str = "rules-apply";
    type Answer = Applied;

    fn check(&self) -> Result<(), String> {
        self.which.check()
    }

    async fn run(&self, work: &Work) -> Result<Applied, VerbError> {
        work.progress.begin("finding metrics", None);
        let metrics = select::count(&*work.names, &self.which).await?;
        work.progress.begin("applying the rules", Some(metrics));
        let histories = Arc::clone(&work.histories);
        let received = Box::new(move || histories.received());
        let mut batches = Batches::new(self.rate, work.context.rows_per_second, received);
        let mut growing = Growing::default();
        let mut refusals = Refusals::default();
        let mut found = work.names.find(&self.which);
        while let Some(names) = found.recv().await {
            let names = names?;
            let mut rest = names.as_slice();
            while !rest.is_empty() {
                work.go_on()?;
                let (names, others) = rest.split_at(batches.size.min(rest.len()));
                rest = others;
                let mut changes = growing.differing(work, names).await?;
                growing.keep_storable(work, &mut changes, &mut refusals).await?;
                if self.dry_run {
                    changes.iter().for_each(|(old, change)| growing.note(old, change));
                } else if !changes.is_empty() {
                    let begin = batches.begin(changes.len());
                    work.stop().run_until_cancelled(begin).await.ok_or(VerbError::Cancelled)?;
                    growing.change(work, changes).await?;
                    batches.end();
                }
                work.progress.add(names.len() as u64);
            }
        }
        Ok(growing.end())
    }
}

/// A metric that differs from the rules, with its settings before.
pub(crate) type Differing = (Arc<MetricConfig>, SettingsChange);

const JOB: &str = "apply_rules";

/// The job that applies the storage rules to all metrics at intervals.
#[derive(Debug)]
pub struct ApplyRulesJob(pub Work);

#[boxed_futures]
impl Job for ApplyRulesJob {
    fn name(&self) -> &'static str {
        JOB
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        let mut work = self.0.for_run(context.stop.clone());
        work.context.rows_per_second = context.rows_per_second;
        let mut report = Report { job: self.name().to_owned(), ..Report::default() };
        let tagged = Which { tags: vec!["name=~.+".to_owned()], ..Which::default() };
        for which in [Which::glob("**"), tagged] {
            let verb = ApplyRules { which, dry_run: context.dry_run, rate: None };
            let answer = verb.run(&work).await.map_err(job_error)?;
            answer.add_to(&mut report);
            (context.progress.0)(&report);
        }
        report.finished = true;
        Ok(report)
    }
}

fn job_error(error: VerbError) -> JobError {
    let job = JOB;
    match error {
        VerbError::Cancelled => JobError::Stopped { job },
        VerbError::Store(source) => JobError::Store { job, source },
        error => {
            JobError::Store { job, source: StoreError::with(ErrorKind::Internal, "find metrics", error) }
        }
    }
}

impl Applied {
    fn add_to(&self, report: &mut Report) {
        report.scanned += self.metrics;
        *report.done.entry("changed".to_owned()).or_default() += self.changed;
        *report.done.entry("points".to_owned()).or_default() += self.points;
        for refused in &self.refused {
            *report.kept.entry(refused.why.clone()).or_default() += refused.metrics;
        }
        let examples = report.examples.entry("changed".to_owned()).or_default();
        examples.extend(self.changes.iter().map(|change| change.example.clone()).take(EXAMPLES_MAX));
    }
}

impl Growing {
    /// The metrics whose settings differ from the rules and can be changed.
    pub(crate) async fn differing(
        &mut self,
        work: &Work,
        names: &[String],
    ) -> Result<Vec<Differing>, VerbError> {
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let metadata = &work.stores.metadata;
        let in_use = work.histories.settings_in_use(&refs).await?;
        let known = metadata.get(&refs).await?;
        let mut differing = Vec::new();
        for (place, ((name, known), in_use)) in names.iter().zip(known).zip(in_use).enumerate() {
            if place % LOOKED_AT == LOOKED_AT - 1 {
                tokio::task::yield_now().await;
            }
            let Some(known) = known else { continue };
            self.answer.metrics += 1;
            let config = work.histories.config_for(name);
            let in_use = in_use.unwrap_or_else(|| known.config.clone());
            let wanted = metadata.as_read(config.clone());
            if wanted == known.config && wanted == in_use {
                continue;
            }
            match config.refuses_points_of(&in_use) {
                Some(why) => self.refuse(why, name),
                None => differing.push((in_use, SettingsChange { name: name.clone(), config })),
            }
        }
        Ok(differing)
    }

    /// Leaves out metrics whose new stages the store cannot hold.
    pub(crate) async fn keep_storable(
        &mut self,
        work: &Work,
        changes: &mut Vec<Differing>,
        refusals: &mut Refusals,
    ) -> Result<(), VerbError> {
        let mut storable = Vec::with_capacity(changes.len());
        for differing in changes.drain(..) {
            match refusals.of(&*work.histories, &differing.1.config).await? {
                Some(why) => self.refuse(why, &differing.1.name),
                None => storable.push(differing),
            }
        }
        *changes = storable;
        Ok(())
    }

    async fn change(&mut self, work: &Work, mut left: Vec<Differing>) -> Result<(), VerbError> {
        for _ in 0..BUSY_TRIES {
            let asked = left.iter().map(|(_, change)| change.clone()).collect();
            let reports = work.histories.change_settings(asked).await?;
            let mut busy = Vec::new();
            for ((old, change), report) in left.into_iter().zip(reports) {
                self.answer.points += report.points;
                if report.is_busy {
                    busy.push((old, change));
                } else if !report.refused.is_empty() {
                    self.refuse(report.refused, &change.name);
                } else if report.changed {
                    self.note(&old, &change);
                }
            }
            left = busy;
            if left.is_empty() {
                return Ok(());
            }
            work.go_on()?;
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        let why = "some of its points cannot be written to the store; repair the store and run the same \
                   command again";
        left.iter().for_each(|(_, change)| self.refuse(why.to_owned(), &change.name));
        Ok(())
    }

    /// Counts a metric that changes.
    pub(crate) fn note(&mut self, old: &MetricConfig, change: &SettingsChange) {
        self.answer.changed += 1;
        let key = (old.to_text(), change.config.to_text());
        if self.changes.len() == CHANGES_MAX && !self.changes.contains_key(&key) {
            return;
        }
        let (from, to) = (spelled(old), spelled(&change.config));
        let (example, loss) = (change.name.clone(), loss(old, &change.config));
        let known = self.changes.entry(key);
        known.or_insert(Change { from, to, metrics: 0, example, loss }).metrics += 1;
    }

    fn refuse(&mut self, why: String, name: &str) {
        let is_known = self.refused.contains_key(&why);
        let why = if self.refused.len() < REFUSED_MAX || is_known { why } else { "other reasons".to_owned() };
        let refused = Refused { why: why.clone(), metrics: 0, example: name.to_owned() };
        self.refused.entry(why).or_insert(refused).metrics += 1;
    }

    /// The whole answer.
    pub(crate) fn end(self) -> Applied {
        let mut answer = self.answer;
        answer.changes = self.changes.into_values().collect();
        answer.changes.sort_by_key(|change| std::cmp::Reverse(change.metrics));
        answer.refused = self.refused.into_values().collect();
        answer
    }
}

fn spelled(config: &MetricConfig) -> String {
    format!("{} {} {}", config.retention.spelled(), config.aggregation, config.x_files_factor)
}

/// What a shorter retention loses: the times that no stage of the same or a finer resolution covers any more.
fn loss(old: &MetricConfig, new: &MetricConfig) -> String {
    let mut parts = Vec::new();
    if new.retention.duration() < old.retention.duration() {
        let seconds = new.retention.duration();
        parts.push(format!("points older than {}", plumbago_model::Period::seconds(seconds)));
    }
    for stage in old.retention.stages() {
        let as_fine = new.retention.stages().iter().filter(|kept| kept.resolution <= stage.resolution);
        let reach = as_fine.map(|kept| kept.duration()).max().unwrap_or(0);
        if reach < stage.duration().min(new.retention.duration()) {
            let resolution = plumbago_model::Period::seconds(u64::from(stage.resolution));
            let from = plumbago_model::Period::seconds(reach);
            parts.push(format!("the resolution {resolution} of points older than {from}"));
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_short_at_a_low_rate() {
        let size = |rate| Batches::new(rate, 0, Box::new(|| 0)).size;
        assert_eq!([size(Some(0)), size(Some(1)), size(Some(50)), size(Some(9000))], [1000, 1, 12, 1000]);
        assert_eq!(size(None), 100);
    }

    #[test]
    fn a_shorter_retention_says_what_is_lost() {
        let config = |text: &str| MetricConfig::from_text(text).unwrap();
        let old = config("60s:604800s,900s:63072000s average 0.5");
        assert_eq!(loss(&old, &config("60s:1209600s,900s:63072000s average 0.5")), "");
        assert_eq!(
            loss(&old, &config("60s:86400s,900s:63072000s sum 0")),
            "the resolution 1m of points older than 1d"
        );
        assert_eq!(loss(&old, &config("60s:604800s,900s:31536000s average 0.5")), "points older than 365d");
    }
}
