//! Storage rules: which retention and aggregation a new metric gets, read from carbon's
//! `storage-schemas.conf` and `storage-aggregation.conf`.
//!
//! Sections are tried in the order of the file (go-carbon's `priority` first) and the first whose
//! pattern is found in the name decides. What carbon skips with a log line is a [`Severity::Warning`],
//! what keeps it from starting a [`Severity::Error`]; a caller that starts or reloads refuses rules
//! with an error.

mod ini;
mod pattern;
mod problem;
mod sections;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::{Aggregation, MetricConfig, Retention, Stage};

pub use pattern::{Pattern, PatternError};
pub use problem::{Problem, RuleFile, Severity};

use pattern::FirstMatch;
use problem::Problems;

/// The schemas when no file is named.
pub const BUILT_IN_SCHEMAS: &str = "[everything]\npattern = .*\nretentions = 60s:7d,15m:2y\n";

/// The aggregation when no file is named: carbon's classic example, with the sum that counts want.
pub const BUILT_IN_AGGREGATION: &str = "\
[min]\npattern = \\.min$\nxFilesFactor = 0.1\naggregationMethod = min\n
[max]\npattern = \\.max$\nxFilesFactor = 0.1\naggregationMethod = max\n
[sum]\npattern = \\.count$\nxFilesFactor = 0\naggregationMethod = sum\n
[default_average]\npattern = .*\nxFilesFactor = 0.5\naggregationMethod = average\n";

/// Carbon's xFilesFactor where nothing says otherwise.
const X_FILES_FACTOR: f64 = 0.5;

/// The rules of both files, ready to be asked.
#[derive(Debug)]
pub struct StorageRules {
    schemas: Choices<Retention>,
    aggregations: Choices<(Aggregation, f64)>,
    /// One for each pair of a retention and an aggregation, shared by all metrics that have it.
    configs: Vec<Arc<MetricConfig>>,
}

impl StorageRules {
    /// Reads both files; `None` is a file that is not there and gives the built-in rules. The
    /// problems come in the order of the lines, those of the schemas first; rules with an error
    /// among their problems should not be used.
    pub fn parse(schemas: Option<&str>, aggregation: Option<&str>) -> (Self, Vec<Problem>) {
        let mut found = Vec::new();
        let mut problems = Problems { file: RuleFile::Schemas, found: &mut found };
        let schemas = sections::schemas(schemas.unwrap_or(BUILT_IN_SCHEMAS), &mut problems);
        let schemas = Choices::new(schemas, default_retention(), &mut problems);
        problems.file = RuleFile::Aggregation;
        let aggregations = sections::aggregations(aggregation.unwrap_or(BUILT_IN_AGGREGATION), &mut problems);
        let otherwise = (Aggregation::Average, X_FILES_FACTOR);
        let aggregations = Choices::new(aggregations, otherwise, &mut problems);
        found.sort_by_key(|p| (p.file == RuleFile::Aggregation, p.line));
        (Self::combine(schemas, aggregations), found)
    }

    /// The rules that hold when neither file is named.
    pub fn built_in() -> Self {
        Self::parse(None, None).0
    }

    fn combine(schemas: Choices<Retention>, aggregations: Choices<(Aggregation, f64)>) -> Self {
        let mut configs = Vec::with_capacity(schemas.distinct.len() * aggregations.distinct.len());
        for retention in &schemas.distinct {
            for &(aggregation, x_files_factor) in &aggregations.distinct {
                let retention = retention.clone();
                configs.push(Arc::new(MetricConfig { retention, aggregation, x_files_factor }));
            }
        }
        Self { schemas, aggregations, configs }
    }

    /// How a metric of this name is kept. Equal answers share one `Arc`.
    pub fn config_for(&self, name: &str) -> Arc<MetricConfig> {
        let (retention, aggregation) = (self.schemas.choose(name), self.aggregations.choose(name));
        self.configs[retention * self.aggregations.distinct.len() + aggregation].clone()
    }

    /// Every configuration that the rules can give.
    pub fn configs(&self) -> &[Arc<MetricConfig>] {
        &self.configs
    }

    /// How often a pattern with look-around or back-references ran into its limit, which counts as
    /// "does not match".
    pub fn gave_up(&self) -> u64 {
        self.schemas.patterns.gave_up() + self.aggregations.patterns.gave_up()
    }
}

/// Carbon's own answer for a metric that no section wants: a week of minutes.
fn default_retention() -> Retention {
    Retention::from(Stage { resolution: 60, points: 7 * 1440 })
}

/// Patterns and what each leads to.
#[derive(Debug)]
struct Choices<T> {
    patterns: FirstMatch,
    /// What the pattern at each place leads to, as an index into `distinct`.
    outcomes: Vec<usize>,
    /// The different outcomes; the first is the one without a match.
    distinct: Vec<T>,
}

impl<T: PartialEq> Choices<T> {
    fn new(rules: Vec<(Pattern, T)>, otherwise: T, problems: &mut Problems<'_>) -> Self {
        let mut distinct = vec![otherwise];
        let (mut patterns, mut outcomes) = (Vec::new(), Vec::new());
        for (pattern, outcome) in rules {
            patterns.push(pattern);
            let known = distinct.iter().position(|d| *d == outcome);
            outcomes.push(known.unwrap_or(distinct.len()));
            if known.is_none() {
                distinct.push(outcome);
            }
        }
        let patterns = FirstMatch::new(patterns).unwrap_or_else(|error| {
            problems.error(0, "", format!("the patterns are too large together: {error}"));
            FirstMatch::default()
        });
        Self { patterns, outcomes, distinct }
    }

    fn choose(&self, name: &str) -> usize {
        self.patterns.find(name).map_or(0, |place| self.outcomes[place])
    }
}
