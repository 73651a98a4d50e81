//! Lists the sections of the storage rules, and all sections that match a name. They explain why a metric has its
//! settings, and which settings it would have if a section were moved.

use super::{Pattern, RuleSource, StorageRules};
use crate::{Aggregation, Retention};

/// A section of the rules, with the setting that it decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuleSection<'a, T> {
    /// The position in the order in which sections are tried, from 0.
    pub place: usize,
    /// The section in the file.
    pub source: &'a RuleSource,
    /// What metrics that match the section get: their retention, or their method and xFilesFactor.
    pub outcome: &'a T,
}

impl<T> RuleSection<'_, T> {
    /// Whether the pattern is found in the name. If it exceeds the backtracking limit, it counts as not
    /// found.
    fn fits(&self, name: &str) -> bool {
        Pattern::new(&self.source.pattern).is_ok_and(|pattern| pattern.is_match(name) == Some(true))
    }
}

impl StorageRules {
    /// The texts that were parsed: first the schemas, then the aggregation rules.
    pub fn texts(&self) -> (&str, &str) {
        (&self.texts.0, &self.texts.1)
    }

    /// All sections of the schemas, in the order in which they are tried.
    pub fn schemas(&self) -> impl Iterator<Item = RuleSection<'_, Retention>> {
        sections(&self.schema_sources, &self.schemas.outcomes, &self.schemas.distinct)
    }

    /// All sections of the aggregation rules, in the order in which they are tried, with method and xFilesFactor.
    pub fn aggregations(&self) -> impl Iterator<Item = RuleSection<'_, (Aggregation, f64)>> {
        sections(&self.aggregation_sources, &self.aggregations.outcomes, &self.aggregations.distinct)
    }

    /// The sections of the schemas that match a name, in the order in which they are tried. The first one is
    /// used. Each of the others would be used if those before it were removed. Compiles the patterns, so do
    /// not call it for many names.
    pub fn schemas_of(&self, name: &str) -> Vec<RuleSection<'_, Retention>> {
        self.schemas().filter(|section| section.fits(name)).collect()
    }

    /// Like [`Self::schemas_of`], for the aggregation rules.
    pub fn aggregations_of(&self, name: &str) -> Vec<RuleSection<'_, (Aggregation, f64)>> {
        self.aggregations().filter(|section| section.fits(name)).collect()
    }

    /// The positions of the sections that are used for a name: that of the schemas, and that of the
    /// aggregation rules. `None` if no section matches, so that carbon's default applies.
    pub fn places(&self, name: &str) -> (Option<usize>, Option<usize>) {
        (self.schemas.patterns.find(name), self.aggregations.patterns.find(name))
    }

    /// The settings that apply if no section matches: the retention, and the method with the xFilesFactor.
    pub fn defaults(&self) -> (&Retention, &(Aggregation, f64)) {
        (&self.schemas.distinct[0], &self.aggregations.distinct[0])
    }
}

fn sections<'a, T>(
    sources: &'a [RuleSource],
    outcomes: &'a [usize],
    distinct: &'a [T],
) -> impl Iterator<Item = RuleSection<'a, T>> {
    let all = sources.iter().zip(outcomes).enumerate();
    all.map(|(place, (source, outcome))| RuleSection { place, source, outcome: &distinct[*outcome] })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMAS: &str = "\
[carbon]\npattern = ^carbon\\.\nretentions = 60s:90d\n
[web]\npattern = ^web\\.\nretentions = 10s:1d,60s:30d\n
[old]\npattern = (?<!new)\\.cpu$\nretentions = 60s:1d\n
[all]\npattern = .*\nretentions = 60s:7d\n
[never]\npattern = ^web\nretentions = 60s:1y\n
[first]\npattern = ^urgent\nretentions = 1s:1d\npriority = 5\n";
    const AGGREGATION: &str = "\
[count]\npattern = \\.count$\nxFilesFactor = 0\naggregationMethod = sum\n
[web]\npattern = ^web\naggregationMethod = max\n";

    fn places<T>(found: &[RuleSection<'_, T>]) -> Vec<(String, usize, usize)> {
        found
            .iter()
            .map(|section| (section.source.section.clone(), section.place, section.source.line))
            .collect()
    }

    #[test]
    fn all_sections_that_fit_come_in_their_order() {
        let (rules, problems) = StorageRules::parse(Some(SCHEMAS), Some(AGGREGATION));
        assert_eq!(problems, []);
        let found = rules.schemas_of("web.a.cpu");
        let named = |name: &str, place: usize, line: usize| (name.to_owned(), place, line);
        assert_eq!(
            places(&found),
            [named("web", 2, 5), named("old", 3, 9), named("all", 4, 13), named("never", 5, 17)]
        );
        assert_eq!(found[0].outcome.to_string(), "10s:86400s,60s:2592000s");
        assert_eq!(places(&rules.schemas_of("urgent")), [named("first", 0, 21), named("all", 4, 13)]);
        let found = rules.aggregations_of("web.a.count");
        assert_eq!(places(&found), [named("count", 0, 1), named("web", 1, 6)]);
        assert_eq!(*found[1].outcome, (Aggregation::Max, 0.5));
        assert!(rules.aggregations_of("other").is_empty());
    }

    #[test]
    fn the_first_of_them_is_the_one_that_decides() {
        let (rules, _) = StorageRules::parse(Some(SCHEMAS), Some(AGGREGATION));
        for name in ["web.a.cpu", "web.count", "carbon.x", "a.cpu", "anew.cpu", "urgent.count", "x"] {
            let (schema, aggregation) = rules.places(name);
            assert_eq!(schema, rules.schemas_of(name).first().map(|section| section.place), "{name}");
            let found = rules.aggregations_of(name);
            assert_eq!(aggregation, found.first().map(|section| section.place), "{name}");
            let (_, otherwise) = rules.defaults();
            let (method, factor) = *found.first().map_or(otherwise, |section| section.outcome);
            let config = rules.config_for(name);
            assert_eq!((config.aggregation, config.x_files_factor), (method, factor), "{name}");
        }
        assert_eq!(rules.schemas().count(), 6);
        assert_eq!(rules.texts(), (SCHEMAS, AGGREGATION));
        assert_eq!(StorageRules::built_in().texts().0, super::super::BUILT_IN_SCHEMAS);
    }
}
