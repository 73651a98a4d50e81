//! Tests rules for the API: asks each part of the daemon what its rules do with a name.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use plumbago_api::{AdminError, KeptAnswers, RuleTester, RuleTexts, TrialLimits};
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Engine;
use plumbago_ingest::{Passage, Reject, Step, Taker};
use plumbago_maintenance::tester::{full, known, trial};
use plumbago_maintenance::verb::{VerbError, Work};
use plumbago_model::rules::{Problem, RuleSection, Severity};
use plumbago_model::{Aggregation, MetricConfig, StorageRules, has_glob};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::backend::Keeper;
use super::histories::EngineHistories;
use super::rules::RuleFiles;
use super::{Core, rules, tagging};
use crate::config::Config;
use crate::output::quoted_for_shell;

/// Largest number of problems that are listed for a text.
const PROBLEMS_MAX: usize = 50;

/// Explains and tries rules.
pub(super) struct Tester {
    work: Work,
    engine: Engine,
    keeper: Keeper,
    answers: KeptAnswers,
    rules: rules::Live,
    /// The lists and rewrite rules.
    names: plumbago_ingest::Rules,
    name_options: plumbago_ingest::NameOptions,
    /// Trials run one at a time: each may compile large rules.
    turn: Semaphore,
}

impl fmt::Debug for Tester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tester")
    }
}

impl Tester {
    pub(super) fn new(config: &Config, core: &Core, work: Work, names: plumbago_ingest::Rules) -> Self {
        Self {
            work,
            engine: core.engine.clone(),
            keeper: core.keeper.clone(),
            answers: core.answers.clone(),
            rules: core.rules.clone(),
            names,
            name_options: config.ingest.names(),
            turn: Semaphore::new(1),
        }
    }

    /// The context for verbs as if these rules were in effect.
    fn work_by(&self, rules: &Arc<StorageRules>) -> Work {
        let histories = EngineHistories {
            engine: self.engine.clone(),
            rules: rules::Live::apart(Arc::clone(rules)),
            keeper: self.keeper.clone(),
            answers: self.answers.clone(),
        };
        let work = self.work.for_run(self.work.stop().child_token());
        Work { histories: Arc::new(histories), ..work }
    }

    /// The stages that a new metric would get now, and the existing metric of this name.
    async fn metric(&self, name: &str, config: &MetricConfig) -> Result<Value, AdminError> {
        let stages = full::full(&self.work, name, &config.retention).await.map_err(failed)?;
        let known = known::known(&self.work, name).await.map_err(failed)?;
        Ok(json!({
            "name": name,
            "settings": settings(config),
            "bytes": stages.iter().map(|stage| stage.bytes).sum::<u64>(),
            "stages": stages,
            "existing": known.map(|known| existing(name, &known)),
        }))
    }
}

#[boxed_futures]
impl RuleTester for Tester {
    async fn in_force(&self) -> Result<Value, AdminError> {
        let (rules, files) = (self.rules.load(), self.rules.files());
        let (schemas, aggregation) = rules.texts();
        Ok(json!({
            "schemas": {"file": shown(&files.schemas), "text": schemas},
            "aggregation": {"file": shown(&files.aggregation), "text": aggregation},
        }))
    }

    async fn explain(&self, name: &str) -> Result<Value, AdminError> {
        let (names, options, received) = (self.names.clone(), self.name_options, name.to_owned());
        let (rules, files) = (self.rules.load(), self.rules.files());
        let (mut answer, metric) = aside(move || {
            let passage = names.explain(&received, options);
            let metric = metric_of(&received, &passage);
            let mut answer = json!({"received": received, "passage": passed(&passage)});
            let config = metric.as_deref().map(|metric| {
                answer["schemas"] = schemas(&rules, &files, metric);
                answer["aggregations"] = aggregations(&rules, &files, metric);
                rules.config_for(metric)
            });
            (answer, metric.zip(config))
        })
        .await?;
        answer["metric"] = match metric {
            Some((name, config)) => self.metric(&name, &config).await?,
            None => Value::Null,
        };
        Ok(answer)
    }

    async fn try_texts(&self, texts: RuleTexts, limits: TrialLimits) -> Result<Value, AdminError> {
        let _turn = self.turn.acquire().await.map_err(|error| AdminError::Failed(error.to_string()))?;
        let until = Instant::now() + limits.time;
        let in_force = self.rules.load();
        let (rules, warnings) = aside(move || parsed(&texts, &in_force)).await??;
        let limits = trial::Limits { metrics_max: limits.metrics_max, until };
        let trial = trial::run(&self.work_by(&rules), &rules, limits).await.map_err(failed)?;
        let mut answer =
            serde_json::to_value(trial).map_err(|error| AdminError::Failed(error.to_string()))?;
        answer["warnings"] = json!(warnings);
        Ok(answer)
    }
}

/// Runs work that may take long on a blocking thread.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AdminError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| AdminError::Failed(error.to_string()))
}

pub(super) fn failed(error: VerbError) -> AdminError {
    match error {
        VerbError::Invalid(text) => AdminError::Invalid(text),
        error => AdminError::Failed(error.text()),
    }
}

/// Compiles the texts of rules. If a text is missing, that of the rules in effect is used. Fails with all
/// errors; otherwise returns the warnings.
fn parsed(
    texts: &RuleTexts,
    in_force: &StorageRules,
) -> Result<(Arc<StorageRules>, Vec<String>), AdminError> {
    let (schemas, aggregation) = in_force.texts();
    let schemas = texts.schemas.as_deref().unwrap_or(schemas);
    let aggregation = texts.aggregation.as_deref().unwrap_or(aggregation);
    let (rules, problems) = StorageRules::parse(Some(schemas), Some(aggregation));
    let of = |severity: Severity| -> Vec<String> {
        let problems = problems.iter().filter(|problem| problem.severity == severity);
        problems.take(PROBLEMS_MAX).map(line).collect()
    };
    match of(Severity::Error) {
        errors if errors.is_empty() => Ok((Arc::new(rules), of(Severity::Warning))),
        errors => Err(AdminError::Invalid(errors.join("\n"))),
    }
}

fn line(problem: &Problem) -> String {
    format!("{} {problem}", problem.file)
}

/// The metric to which a received name leads. A name that a list refuses is looked up too, because the metric may be
/// older than the list.
fn metric_of(received: &str, passage: &Passage) -> Option<String> {
    match &passage.stored {
        Ok(name) => Some(name.clone()),
        Err(Reject::Blacklist | Reject::Whitelist | Reject::Rule) => tagging::canonical_name(received).ok(),
        Err(_) => None,
    }
}

fn passed(passage: &Passage) -> Value {
    let refused = |reason: &Reject| json!({"reason": reason.label(), "text": why(*reason)});
    json!({
        "steps": passage.steps.iter().map(step).collect::<Vec<Value>>(),
        "refused": passage.stored.as_ref().err().map(refused),
        "stored": passage.stored.as_ref().ok(),
    })
}

fn step(step: &Step) -> Value {
    let taker = match step.taker {
        Taker::Blacklist => "blacklist",
        Taker::Whitelist => "whitelist",
        Taker::Rewrite => "rewrite",
        Taker::Post => "post",
    };
    json!({"kind": taker, "file": step.file, "line": step.line, "rule": step.rule, "name": step.name})
}

fn why(reason: Reject) -> &'static str {
    match reason {
        Reject::Blacklist => "a line of the blacklist matches the name",
        Reject::Whitelist => "no line of the whitelist matches the name",
        Reject::Rule => "a pattern takes too many steps on this name",
        Reject::NameEmpty => "no name is left",
        Reject::NameTooLong => "the name is too long",
        Reject::NameControl => "there is white space or a control character in the name",
        Reject::Tags => "the tags of the name cannot be read",
        _ => "this is not a name",
    }
}

fn schemas(rules: &StorageRules, files: &RuleFiles, name: &str) -> Value {
    let found = rules.schemas_of(name);
    let found = found.iter().map(|section| fitting(section, section.outcome.spelled()));
    fits(&files.schemas, rules.schemas().count(), found.collect(), rules.defaults().0.spelled())
}

fn aggregations(rules: &StorageRules, files: &RuleFiles, name: &str) -> Value {
    let folding = |(method, factor): &(Aggregation, f64)| format!("{method}, xFilesFactor {factor}");
    let found = rules.aggregations_of(name);
    let found = found.iter().map(|section| fitting(section, folding(section.outcome)));
    fits(&files.aggregation, rules.aggregations().count(), found.collect(), folding(rules.defaults().1))
}

fn fits(file: &Path, of: usize, sections: Vec<Value>, otherwise: String) -> Value {
    json!({"file": shown(file), "of": of, "sections": sections, "default": otherwise})
}

fn fitting<T>(section: &RuleSection<'_, T>, gives: String) -> Value {
    let RuleSection { place, source, .. } = section;
    json!({
        "section": source.section,
        "line": source.line,
        "pattern": source.pattern,
        "place": place,
        "gives": gives,
    })
}

/// A file name for messages; `None` for the built-in rules.
pub(super) fn shown(file: &Path) -> Option<String> {
    (!file.as_os_str().is_empty()).then(|| file.display().to_string())
}

fn settings(config: &MetricConfig) -> Value {
    json!({
        "retention": config.retention.spelled(),
        "aggregation": config.aggregation.to_string(),
        "x_files_factor": config.x_files_factor,
    })
}

fn existing(name: &str, known: &known::Known) -> Value {
    json!({
        "settings": settings(&known.config),
        "created_on": known.created_on,
        "differs": known.differs,
        "differences": differences(&known.config, &known.wanted),
        "refused": known.refused,
        "command": command(name),
    })
}

/// The settings that differ: their current values and those of the rules.
fn differences(now: &MetricConfig, wanted: &MetricConfig) -> Vec<Value> {
    let each = |config: &MetricConfig| {
        let factor = config.x_files_factor.to_string();
        [config.retention.spelled(), config.aggregation.to_string(), factor]
    };
    let names = ["retention", "aggregation method", "xFilesFactor"];
    let rows = names.into_iter().zip(each(now).into_iter().zip(each(wanted)));
    let differing = rows.filter(|(_, (now, wanted))| now != wanted);
    differing.map(|(what, (now, rules))| json!({"what": what, "now": now, "rules": rules})).collect()
}

/// The command that gives just this metric the settings of the rules.
fn command(name: &str) -> String {
    let quoted = quoted_for_shell(name);
    // As an argument, this name would be a glob that matches other metrics, an invalid glob or an option.
    if name.contains(';') || name.starts_with('-') || has_glob(name) {
        return format!("printf '%s\\n' {quoted} | plumbago rules apply --names -");
    }
    format!("plumbago rules apply {quoted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_one_metric() {
        assert_eq!(command("a.b"), "plumbago rules apply 'a.b'");
        assert_eq!(command("it's"), r"plumbago rules apply 'it'\''s'");
        assert_eq!(command("a;b=c"), r"printf '%s\n' 'a;b=c' | plumbago rules apply --names -");
        assert_eq!(command("a.*"), r"printf '%s\n' 'a.*' | plumbago rules apply --names -");
    }

    #[test]
    fn only_what_differs_is_listed() {
        let config = |text: &str| MetricConfig::from_text(text).unwrap();
        let now = config("60s:86400s average 0.5");
        assert!(differences(&now, &now).is_empty());
        assert_eq!(
            differences(&now, &config("60s:172800s average 0")),
            [
                json!({"what": "retention", "now": "1m:1d", "rules": "1m:2d"}),
                json!({"what": "xFilesFactor", "now": "0.5", "rules": "0"}),
            ]
        );
    }

    #[test]
    fn all_errors_of_a_text_have_their_lines() {
        let in_force = StorageRules::built_in();
        let texts = |schemas: &str| RuleTexts { schemas: Some(schemas.to_owned()), aggregation: None };
        let good = parsed(&texts("[a]\npattern = a\nretentions = 60s:1d\nfoo = 1\n"), &in_force);
        let (rules, warnings) = good.unwrap();
        assert_eq!(rules.texts().1, in_force.texts().1);
        assert!(warnings[0].starts_with("storage-schemas.conf line 4: [a] warning: key foo"), "{warnings:?}");
        let bad = parsed(&texts("[a]\npattern = (\nretentions = x\n"), &in_force);
        let text = bad.unwrap_err().to_string();
        assert!(text.contains("storage-schemas.conf line 2: [a] error: pattern \"(\""), "{text}");
        assert!(text.contains("storage-schemas.conf line 3: [a] error: retentions"), "{text}");
    }
}
