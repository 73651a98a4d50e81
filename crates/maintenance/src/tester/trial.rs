//! What storage rules would do with the metrics that exist: how many metrics each section applies to, and
//! what `plumbago rules apply` would change.

use std::sync::Arc;

use plumbago_model::rules::RuleSource;
use plumbago_model::{Aggregation, StorageRules};
use serde::Serialize;
use tokio::time::Instant;

use crate::histories::Refusals;
use crate::select::Which;
use crate::verb::{VerbError, Work};
use crate::verbs::rules::{Applied, Growing};

/// Number of example metrics for each section.
const EXAMPLES_MAX: usize = 5;

/// When a trial ends, even if it has not seen all metrics.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest number of metrics that the trial checks.
    pub metrics_max: u64,
    /// The time at which the trial ends.
    pub until: Instant,
}

/// A section, with the existing metrics to which it applies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SectionUse {
    /// The name of the section; `None` for carbon's default, which applies if no section matches.
    pub section: Option<String>,
    /// The line of the section's header, from 1.
    pub line: Option<usize>,
    /// The pattern, as the file has it; `None` for carbon's default.
    pub pattern: Option<String>,
    /// The setting: the retention, or the method and the xFilesFactor.
    pub gives: String,
    /// The number of these metrics.
    pub metrics: u64,
    /// Names of some of these metrics.
    pub examples: Vec<String>,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Number of metrics that were checked.
    pub metrics: u64,
    /// Whether the trial has seen all metrics. If not, it ended at a limit.
    pub complete: bool,
    /// Whether tagged series were checked too. If not, `index.mode` keeps none in memory.
    pub tagged: bool,
    /// The sections of the schemas in the order in which they are tried, followed by carbon's default.
    pub schemas: Vec<SectionUse>,
    /// The use of the sections of the aggregation rules.
    pub aggregations: Vec<SectionUse>,
    /// What `plumbago rules apply` would do.
    pub apply: Applied,
}

/// Tries rules, which must also be the rules of `work`.
///
/// # Errors
/// If the store cannot be read.
pub async fn run(work: &Work, rules: &Arc<StorageRules>, limits: Limits) -> Result<Trial, VerbError> {
    let mut trial = Trial::new(rules);
    let mut growing = Growing::default();
    let mut refusals = Refusals::default();
    let tagged = Which { tags: vec!["name=~.+".to_owned()], ..Which::default() };
    for which in [Which::glob("**"), tagged] {
        if !trial.complete {
            break;
        }
        let mut found = work.names.find(&which);
        while let Some(names) = found.recv().await {
            let names = match names {
                Err(VerbError::Invalid(_)) if which.glob.is_none() => {
                    trial.tagged = false;
                    break;
                }
                names => names?,
            };
            work.go_on()?;
            if names.is_empty() {
                continue;
            }
            if trial.metrics >= limits.metrics_max || Instant::now() >= limits.until {
                trial.complete = false;
                break;
            }
            let names = trial.count(rules, names).await?;
            let mut changes = growing.differing(work, &names).await?;
            growing.keep_storable(work, &mut changes, &mut refusals).await?;
            changes.iter().for_each(|(old, change)| growing.note(old, change));
        }
    }
    trial.apply = growing.end();
    Ok(trial)
}

impl Trial {
    fn new(rules: &StorageRules) -> Self {
        let (retention, otherwise) = rules.defaults();
        let schemas =
            rules.schemas().map(|section| SectionUse::new(Some(section.source), section.outcome.spelled()));
        let schemas = schemas.chain([SectionUse::new(None, retention.spelled())]);
        let aggregations = rules
            .aggregations()
            .map(|section| SectionUse::new(Some(section.source), folding(section.outcome)));
        let aggregations = aggregations.chain([SectionUse::new(None, folding(otherwise))]);
        Self {
            metrics: 0,
            complete: true,
            tagged: true,
            schemas: schemas.collect(),
            aggregations: aggregations.collect(),
            apply: Applied::default(),
        }
    }

    /// Counts names under their sections. Returns the names.
    async fn count(
        &mut self,
        rules: &Arc<StorageRules>,
        names: Vec<String>,
    ) -> Result<Vec<String>, VerbError> {
        let rules = Arc::clone(rules);
        // Matching a pattern may take long.
        let matched = tokio::task::spawn_blocking(move || {
            let places: Vec<_> = names.iter().map(|name| rules.places(name)).collect();
            (names, places)
        });
        let (names, places) = matched.await.map_err(|error| VerbError::Failed(error.to_string()))?;
        self.metrics += names.len() as u64;
        for (name, (schema, aggregation)) in names.iter().zip(places) {
            note(&mut self.schemas, schema, name);
            note(&mut self.aggregations, aggregation, name);
        }
        Ok(names)
    }
}

/// Counts a name under the section at an index, or under the default, which is the last one.
fn note(sections: &mut [SectionUse], place: Option<usize>, name: &str) {
    let place = place.unwrap_or(sections.len().saturating_sub(1));
    let Some(section) = sections.get_mut(place) else { return };
    section.metrics += 1;
    if section.examples.len() < EXAMPLES_MAX {
        section.examples.push(name.to_owned());
    }
}

/// The method and the xFilesFactor as text for people.
fn folding((method, factor): &(Aggregation, f64)) -> String {
    format!("{method}, xFilesFactor {factor}")
}

impl SectionUse {
    fn new(source: Option<&RuleSource>, gives: String) -> Self {
        Self {
            section: source.map(|source| source.section.clone()),
            line: source.map(|source| source.line),
            pattern: source.map(|source| source.pattern.clone()),
            gives,
            metrics: 0,
            examples: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_counted_under_their_sections() {
        let schemas =
            "[web]\npattern = ^web\nretentions = 10s:1d\n[db]\npattern = ^db\nretentions = 60s:1d\n";
        let (rules, _) = StorageRules::parse(Some(schemas), None);
        let mut trial = Trial::new(&rules);
        let names: Vec<String> = (0..7).map(|n| format!("web.{n}")).chain(["x.count".to_owned()]).collect();
        assert_eq!(trial.count(&Arc::new(rules), names.clone()).await.unwrap(), names);
        let counts = |sections: &[SectionUse]| -> Vec<(Option<String>, u64, usize)> {
            sections.iter().map(|s| (s.section.clone(), s.metrics, s.examples.len())).collect()
        };
        let named = |name: &str, metrics, examples| (Some(name.to_owned()), metrics, examples);
        assert_eq!(counts(&trial.schemas), [named("web", 7, 5), named("db", 0, 0), (None, 1, 1)]);
        assert_eq!(
            counts(&trial.aggregations),
            [
                named("min", 0, 0),
                named("max", 0, 0),
                named("sum", 1, 1),
                named("default_average", 7, 5),
                (None, 0, 0)
            ]
        );
        assert_eq!((trial.metrics, trial.schemas[2].gives.as_str()), (8, "1m:1w"));
    }
}
