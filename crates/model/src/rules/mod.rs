//! Storage rules: the retention and the aggregation method of a new metric, read from carbon's
//! `storage-schemas.conf` and `storage-aggregation.conf`.
//!
//! Sections are tried in the order of the file (sorted by go-carbon's `priority` first). The first whose
//! pattern is found in the name is used. A problem that carbon skips with a log line is a
//! [`Severity::Warning`]; one that keeps carbon from starting is a [`Severity::Error`]. Rules with an error
//! must not be used.

mod aggregate;
mod ini;
mod listing;
mod pattern;
mod problem;
mod quotas;
mod relay;
mod sections;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::{Aggregation, MetricConfig, Retention, Stage};

pub use aggregate::{AggregationRule, AggregationRules, RuleMethod};
pub use ini::{Entry as IniEntry, Section as IniSection};
pub use listing::RuleSection;
pub use pattern::{Pattern, PatternError};
pub use problem::{Problem, RuleFile, Severity};
pub use quotas::{Quota, QuotaLimits, QuotaRules};
pub use relay::RelayRules;

use pattern::FirstMatch;
use problem::Problems;

/// The schemas if no file is configured.
pub const BUILT_IN_SCHEMAS: &str = "[everything]\npattern = .*\nretentions = 60s:7d,15m:2y\n";

/// The aggregation rules if no file is configured: carbon's usual example, in which counts are summed.
pub const BUILT_IN_AGGREGATION: &str = "\
[min]\npattern = \\.min$\nxFilesFactor = 0.1\naggregationMethod = min\n
[max]\npattern = \\.max$\nxFilesFactor = 0.1\naggregationMethod = max\n
[sum]\npattern = \\.count$\nxFilesFactor = 0\naggregationMethod = sum\n
[default_average]\npattern = .*\nxFilesFactor = 0.5\naggregationMethod = average\n";

/// Carbon's xFilesFactor if no rule sets one.
const X_FILES_FACTOR: f64 = 0.5;

/// Reads a file in the dialect of carbon's configuration, such as `carbon.conf`: its sections in their order,
/// and problems for the lines that carbon would not read.
pub fn read_ini(text: &str) -> (Vec<IniSection>, Vec<Problem>) {
    let mut found = Vec::new();
    let sections = ini::read(text, &mut Problems { file: RuleFile::Carbon, found: &mut found });
    (sections, found)
}

/// The compiled rules of both files.
#[derive(Debug)]
pub struct StorageRules {
    schemas: Choices<Retention>,
    /// The sections of the schemas, in the order in which they are tried.
    schema_sources: Vec<RuleSource>,
    /// The sections of the aggregation rules, in the order in which they are tried.
    aggregation_sources: Vec<RuleSource>,
    aggregations: Choices<(Aggregation, f64)>,
    /// The settings for each pair of a retention and an aggregation. All metrics with the pair share them.
    configs: Vec<Arc<MetricConfig>>,
    /// The texts of both files.
    texts: (String, String),
}

impl StorageRules {
    /// Parses both files. `None` means that a file is not configured, so that the built-in rules are used.
    /// Problems are sorted by line, with those of the schemas first. Rules with an error among their problems
    /// must not be used.
    pub fn parse(schemas: Option<&str>, aggregation: Option<&str>) -> (Self, Vec<Problem>) {
        let mut found = Vec::new();
        let mut problems = Problems { file: RuleFile::Schemas, found: &mut found };
        let texts = (schemas.unwrap_or(BUILT_IN_SCHEMAS), aggregation.unwrap_or(BUILT_IN_AGGREGATION));
        let schemas = sections::schemas(texts.0, &mut problems);
        let (schema_sources, schemas) = apart(schemas);
        let schemas = Choices::new(schemas, default_retention(), &mut problems);
        problems.file = RuleFile::Aggregation;
        let aggregations = sections::aggregations(texts.1, &mut problems);
        let otherwise = (Aggregation::Average, X_FILES_FACTOR);
        let (aggregation_sources, aggregations) = apart(aggregations);
        let aggregations = Choices::new(aggregations, otherwise, &mut problems);
        found.sort_by_key(|p| (p.file == RuleFile::Aggregation, p.line));
        let texts = (texts.0.to_owned(), texts.1.to_owned());
        (Self { schema_sources, aggregation_sources, texts, ..Self::combine(schemas, aggregations) }, found)
    }

    /// The rules if neither file is configured.
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
        let (schema_sources, aggregation_sources) = (Vec::new(), Vec::new());
        Self {
            schemas,
            schema_sources,
            aggregation_sources,
            aggregations,
            configs,
            texts: Default::default(),
        }
    }

    /// The settings for a metric of this name. Equal settings share one `Arc`.
    pub fn config_for(&self, name: &str) -> Arc<MetricConfig> {
        let (retention, aggregation) = (self.schemas.choose(name), self.aggregations.choose(name));
        self.configs[retention * self.aggregations.distinct.len() + aggregation].clone()
    }

    /// The name of the section of `storage-schemas.conf` that determines the retention of a metric of this
    /// name. `None` if none matches, so that carbon's default applies.
    pub fn schema_for(&self, name: &str) -> Option<&str> {
        self.explain(name).0.source.map(|source| source.section.as_str())
    }

    /// The sections that determine the settings of a metric of this name: that of the schemas, and that of
    /// the aggregation rules.
    pub fn explain(&self, name: &str) -> (RuleChoice<'_>, RuleChoice<'_>) {
        let (schema, aggregation) = self.places(name);
        let schema = schema.unwrap_or(self.schema_sources.len());
        let aggregation = aggregation.unwrap_or(self.aggregation_sources.len());
        (
            RuleChoice { source: self.schema_sources.get(schema), tried_before: schema },
            RuleChoice { source: self.aggregation_sources.get(aggregation), tried_before: aggregation },
        )
    }

    /// All combinations of retention, aggregation method and xFilesFactor that the rules can give.
    pub fn configs(&self) -> &[Arc<MetricConfig>] {
        &self.configs
    }

    /// Number of searches in which a pattern exceeded its backtracking limit. The pattern then counts as no
    /// match.
    pub fn gave_up(&self) -> u64 {
        self.schemas.patterns.gave_up() + self.aggregations.patterns.gave_up()
    }
}

/// A section of one of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSource {
    /// The name of the section.
    pub section: String,
    /// The line of its header.
    pub line: usize,
    /// The pattern as written.
    pub pattern: String,
}

/// The section that determines a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleChoice<'a> {
    /// The section; `None` if the pattern of none is found in the name, so that carbon's default applies.
    pub source: Option<&'a RuleSource>,
    /// Sections that were tried before it.
    pub tried_before: usize,
}

/// A section with its pattern and its setting.
type Rule<T> = (RuleSource, Pattern, T);

/// Separates the sections from their patterns and outcomes.
fn apart<T>(rules: Vec<Rule<T>>) -> (Vec<RuleSource>, Vec<(Pattern, T)>) {
    rules.into_iter().map(|(source, pattern, outcome)| (source, (pattern, outcome))).unzip()
}

/// Carbon's retention for a metric that no section matches: one week at a resolution of one minute.
fn default_retention() -> Retention {
    Retention::from(Stage { resolution: 60, points: 7 * 1440 })
}

/// Patterns and their outcomes.
#[derive(Debug)]
struct Choices<T> {
    patterns: FirstMatch,
    /// The outcome of each pattern, as an index into `distinct`.
    outcomes: Vec<usize>,
    /// The different outcomes. The first one is for names without a match.
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
