//! A run: metrics in batches, which are requested stage by stage and stored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plumbago_model::tags::canonical;
use plumbago_model::{MetricConfig, Retention, sanitize};
use plumbago_store::{History, HistoryOptions};

use super::ImportGraphite;
use super::plan::{Collected, Fit, Part, Request, requests};
use super::report::ImportGraphiteReport;
use crate::batches::batch_len;
use crate::counts::reason_of;
use crate::done_list::DoneList;
use crate::graphite_source::{GraphiteSource, SourceError, SourceSeries};
use crate::histories::Refusals;
use crate::rate::Rate;
use crate::skipped::Skipped;
use crate::verb::{VerbError, Work};

/// Largest number of metrics in one request.
const TARGETS_MAX: usize = 20;
/// Largest total size of the names in one request, in bytes. Some servers only read lines of up to 4,094
/// bytes, and escaped names are longer.
const NAMES_BYTES: u64 = 1200;
/// The prefix of the names of whisper's files of tagged series, which graphite-web lists too.
const TAGGED: &str = "_tagged.";
/// About how many values one answer has.
const VALUES_MAX: u64 = 200_000;

/// What a run shares between its workers.
pub(super) struct Run<'a> {
    plan: &'a ImportGraphite,
    work: &'a Work,
    source: Arc<dyn GraphiteSource>,
    /// The retention of the source, if it was given.
    retention: Option<Retention>,
    rate: tokio::sync::Mutex<Rate>,
    refusals: tokio::sync::Mutex<Refusals>,
    state: Mutex<State>,
}

struct State {
    report: ImportGraphiteReport,
    skipped: Skipped,
    done: DoneList,
}

/// A metric to import.
struct Metric {
    name: String,
    config: Arc<MetricConfig>,
}

/// Why a metric is skipped: reason and text.
type Why = (&'static str, String);

/// The answers to one request by name, or why a metric has no answer.
type Answers = HashMap<String, Result<SourceSeries, Why>>;

/// The result of a call of a source, unless the run ends first. Only an unreachable server ends the run.
///
/// # Errors
/// If the run is cancelled, or the server is unreachable.
pub(crate) async fn heard<T>(
    work: &Work,
    call: impl Future<Output = Result<T, SourceError>> + Send,
) -> Result<Result<T, SourceError>, VerbError> {
    match work.stop().run_until_cancelled(call).await {
        None => Err(VerbError::Cancelled),
        Some(Err(SourceError::Away(why))) => Err(VerbError::Away(why)),
        Some(answer) => Ok(answer),
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        plan: &'a ImportGraphite,
        work: &'a Work,
        source: Arc<dyn GraphiteSource>,
        done: DoneList,
        skipped: Skipped,
    ) -> Result<Self, VerbError> {
        let report = ImportGraphiteReport { dry_run: plan.dry_run, ..ImportGraphiteReport::default() };
        Ok(Self {
            plan,
            work,
            source,
            retention: plan.retention().map_err(VerbError::Invalid)?,
            rate: tokio::sync::Mutex::new(Rate::new(plan.rate)),
            refusals: tokio::sync::Mutex::default(),
            state: Mutex::new(State { report, skipped, done }),
        })
    }

    /// Finds the metrics, and returns the names of those that have to be imported.
    pub(super) async fn due(&mut self) -> Result<Vec<String>, VerbError> {
        let mut names = Vec::new();
        let said = |error: SourceError| VerbError::Failed(error.to_string());
        for glob in &self.plan.globs {
            names.extend(heard(self.work, self.source.names(Some(glob.as_str()))).await?.map_err(said)?);
        }
        if !self.plan.tags.is_empty() {
            names.extend(heard(self.work, self.source.tagged(&self.plan.tags)).await?.map_err(said)?);
        }
        if self.plan.globs.is_empty() && self.plan.tags.is_empty() {
            names = heard(self.work, self.source.names(None)).await?.map_err(said)?;
        }
        let clean = |name: String| sanitize(&name).map_or_else(|_| name.clone(), Cow::into_owned);
        names = names.into_iter().map(clean).collect();
        names.sort_unstable();
        names.dedup();
        let State { report, skipped, done } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        report.metrics = names.len() as u64;
        let mut due = Vec::with_capacity(names.len());
        for name in names {
            if name.starts_with(TAGGED) {
                report.tagged += 1;
            } else if let Some((reason, text)) = unfit(&name) {
                skipped.note(&mut report.skips, reason, &name, &text)?;
            } else if done.has(&name) {
                report.stored_before += 1;
            } else {
                due.push(name);
            }
        }
        Ok(due)
    }

    /// Imports some metrics.
    pub(super) async fn chunk(&self, names: &[String]) -> Result<(), VerbError> {
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let known = self.work.stores.metadata.get(&refs).await?;
        let mut by_config: Vec<(Arc<MetricConfig>, Vec<Metric>)> = Vec::new();
        for (name, known) in names.iter().zip(known) {
            let config = known.map_or_else(|| self.work.histories.config_for(name), |known| known.config);
            let metric = Metric { name: name.clone(), config: Arc::clone(&config) };
            match by_config.iter_mut().find(|(other, _)| *other == config) {
                Some((_, metrics)) => metrics.push(metric),
                None => by_config.push((config, vec![metric])),
            }
        }
        for (config, metrics) in by_config {
            if let Some(why) = self.refusals.lock().await.of(&*self.work.histories, &config).await? {
                for metric in &metrics {
                    self.skip(&metric.name, ("tables", why.clone()))?;
                }
                self.work.progress.add(metrics.len() as u64);
                continue;
            }
            let mut rest = metrics.as_slice();
            while !rest.is_empty() {
                let (batch, others) = rest.split_at(self.batch_len(&config, rest));
                self.batch(&config, batch).await?;
                self.work.progress.add(batch.len() as u64);
                rest = others;
            }
        }
        Ok(())
    }

    /// The results.
    pub(super) fn end(self) -> (ImportGraphiteReport, Skipped, DoneList) {
        let State { report, skipped, done } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (report, skipped, done)
    }

    fn part(&self) -> Part {
        Part { from: self.plan.from, until: self.plan.until }
    }

    fn requests(&self, config: &MetricConfig, now: i64) -> Vec<Request> {
        requests(self.retention.as_ref().unwrap_or(&config.retention).stages(), now, self.part())
    }

    /// The number of first metrics that go into one request.
    fn batch_len(&self, config: &MetricConfig, metrics: &[Metric]) -> usize {
        let requests = self.requests(config, self.work.context.clock.now());
        let values = requests.iter().map(Request::values).max().unwrap_or(1).max(1);
        let most = usize::try_from(VALUES_MAX / values).unwrap_or(TARGETS_MAX).clamp(1, TARGETS_MAX);
        batch_len(metrics.iter(), most, NAMES_BYTES, |metric| metric.name.len() as u64)
    }

    /// Imports metrics of the same settings: one request for each stage.
    async fn batch(&self, config: &MetricConfig, metrics: &[Metric]) -> Result<(), VerbError> {
        self.work.go_on()?;
        let is_foreign = self.retention.is_some();
        let new = || Ok(Collected::new(config, is_foreign, self.part()));
        let mut collected: Vec<Result<Collected<'_>, Why>> = metrics.iter().map(|_| new()).collect();
        for request in self.requests(config, self.work.context.clock.now()) {
            let asked = metrics.iter().zip(&collected).filter(|(_, so_far)| so_far.is_ok());
            let names: Vec<&str> = asked.map(|(metric, _)| metric.name.as_str()).collect();
            let mut answers = self.answers(&names, &request).await?;
            for (metric, so_far) in metrics.iter().zip(&mut collected) {
                match answers.remove(&metric.name) {
                    Some(Ok(series)) => self.take(&metric.name, so_far, &request, &series)?,
                    Some(Err(why)) => *so_far = Err(why),
                    None => {}
                }
            }
        }
        self.store(metrics, collected).await
    }

    /// Requests metrics. If the server cannot answer for all of them together, requests them one by one.
    async fn answers(&self, names: &[&str], request: &Request) -> Result<Answers, VerbError> {
        let mut answers = Answers::new();
        if names.is_empty() {
            return Ok(answers);
        }
        match self.ask(names, request).await? {
            Ok(series) => put(&mut answers, series),
            Err(error) if names.len() == 1 => {
                answers.insert(names[0].to_owned(), Err(reason(&error)));
            }
            Err(_) => {
                for name in names {
                    match self.ask(&[*name], request).await? {
                        Ok(series) => put(&mut answers, series),
                        Err(error) => {
                            answers.insert((*name).to_owned(), Err(reason(&error)));
                        }
                    }
                }
            }
        }
        Ok(answers)
    }

    async fn ask(
        &self,
        names: &[&str],
        request: &Request,
    ) -> Result<Result<Vec<SourceSeries>, SourceError>, VerbError> {
        self.rate.lock().await.take(1).await;
        let answer = heard(self.work, self.source.series(names, request.range)).await?;
        let mut state = self.lock();
        state.report.requests += 1;
        Ok(answer)
    }

    /// Takes an answer for one metric, and counts it if its step is not the requested one.
    fn take(
        &self,
        name: &str,
        collected: &mut Result<Collected<'_>, Why>,
        request: &Request,
        series: &SourceSeries,
    ) -> Result<(), VerbError> {
        let Ok(collected) = collected else { return Ok(()) };
        let asked = request.resolution;
        let came = if series.step == 0 { asked } else { series.step };
        let what = match collected.take(request, series) {
            Fit::Same => return Ok(()),
            _ if series.points.is_empty() => return Ok(()),
            Fit::Other(stage) => format!("asked for {asked}s, got {came}s: stored in the stage of {stage}s"),
            Fit::Folded(stage) => {
                format!("asked for {asked}s, got {came}s: folded into the stage of {stage}s")
            }
            Fit::None => {
                let text = format!("asked for {asked}s, got {came}s, for which it has no stage here");
                let State { report, skipped, .. } = &mut *self.lock();
                return skipped.note(&mut report.skips, "no_stage", name, &text);
            }
        };
        *self.lock().report.other_steps.entry(what).or_default() += 1;
        Ok(())
    }

    /// Stores the collected points, and notes the metrics as stored.
    async fn store(
        &self,
        metrics: &[Metric],
        collected: Vec<Result<Collected<'_>, Why>>,
    ) -> Result<(), VerbError> {
        let now = self.work.context.clock.now();
        let (mut histories, mut stored) = (Vec::new(), Vec::new());
        let mut done: Vec<&str> = Vec::new();
        for (metric, collected) in metrics.iter().zip(collected) {
            let collected = match collected {
                Ok(collected) => collected,
                Err(why) => {
                    self.skip(&metric.name, why)?;
                    continue;
                }
            };
            self.lock().report.points += collected.points;
            let stages = collected.history(now);
            if stages.is_empty() {
                self.lock().report.without_points += 1;
                done.push(&metric.name);
                continue;
            }
            let config = Arc::clone(&metric.config);
            histories.push(History { name: metric.name.clone(), config, stages });
            stored.push(metric.name.as_str());
        }
        let options = HistoryOptions { overwrites: self.plan.overwrite, dry_run: self.plan.dry_run };
        let reports = self.work.histories.take(histories, options).await.map_err(VerbError::Interrupted)?;
        for (name, report) in stored.into_iter().zip(reports) {
            self.lock().report.add(&report);
            if report.refused.is_empty() {
                done.push(name);
            } else {
                let reason = refused(&report.refused);
                self.skip(name, (reason, report.refused.clone()))?;
            }
        }
        self.lock().done.note(&done)
    }

    fn skip(&self, name: &str, (reason, text): Why) -> Result<(), VerbError> {
        let State { report, skipped, .. } = &mut *self.lock();
        skipped.note(&mut report.skips, reason, name, &text)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(answers: &mut Answers, series: Vec<SourceSeries>) {
    answers.extend(series.into_iter().map(|series| (series.name.clone(), Ok(series))));
}

fn reason(error: &SourceError) -> Why {
    let reason = match error {
        SourceError::TooLarge(_) => "too_large",
        _ => "refused_by_server",
    };
    (reason, error.to_string())
}

/// Why a report refuses the points of a metric: the text before the first colon, if it is one of these
/// reasons.
fn refused(text: &str) -> &'static str {
    let reasons = ["busy", "deleted", "memory", "name"];
    reasons.into_iter().find(|reason| reason_of(text) == *reason).unwrap_or("refused")
}

/// Why a metric of the server cannot be imported.
fn unfit(name: &str) -> Option<Why> {
    match canonical(name) {
        Ok(clean) if clean == name => {}
        Ok(clean) => return Some(("name", format!("its points would be those of {clean} here"))),
        Err(error) => return Some(("name", format!("it cannot be the name of a metric: {error}"))),
    }
    // These characters have a meaning in a target.
    let special = |c: char| "*?[]{}()'\",\\|".contains(c);
    let found = name.chars().find(|c| special(*c))?;
    Some(("target", format!("a server cannot be asked for a name with {found:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_asked_for_are_named() {
        assert_eq!(unfit("servers.a.cpu-0.user"), None);
        assert_eq!(unfit("disk.used;dc=a;host=b"), None);
        assert_eq!(unfit("a b").unwrap().0, "name");
        assert_eq!(unfit("a;b=").unwrap().0, "name");
        assert!(unfit("a;c=1;b=2").unwrap().1.contains("a;b=2;c=1"));
        assert_eq!(unfit("a.(b)").unwrap().0, "target");
        assert_eq!(unfit("a.b*").unwrap().0, "target");
    }

    #[test]
    fn refusals_have_a_short_reason() {
        assert_eq!(refused("busy: it is being flushed"), "busy");
        assert_eq!(refused("something else"), "refused");
    }
}
