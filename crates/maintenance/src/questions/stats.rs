//! The question `stats`: how many metrics and points each namespace has. A namespace is a pattern of names.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::rules::Pattern;
use plumbago_model::{MetricId, Stage};
use serde::{Deserialize, Serialize};

use super::du::POINT_BYTES;
use super::is_zero;
use crate::question::{Question, Rows};
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Largest number of namespaces in a question.
const NAMESPACES_MAX: usize = 10_000;
/// The name of the only namespace if none is given.
const TOTAL: &str = "total";
/// The namespace of metrics that belong to no other.
const NONE: &str = "none";

/// Counts all metrics, tagged ones too.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stats {
    /// The namespaces. A metric belongs to the first whose pattern matches. If the list is empty, all metrics
    /// are in one namespace, `total`.
    pub namespaces: Vec<Namespace>,
    /// Whether to add up the bytes too.
    pub bytes: bool,
    /// Maximum number of metrics per second; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate: u32,
}

/// The metrics whose names match a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// The name of the namespace.
    pub name: String,
    /// A regular expression in Python's syntax that matches from the beginning of the name, as in BigGraphite.
    pub pattern: String,
}

/// The counts of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSize {
    /// The namespace; `none` for the metrics that match no pattern.
    pub namespace: String,
    /// The number of metrics.
    pub metrics: u64,
    /// The number of points that the metrics have when all their stages are full.
    pub points: u64,
    /// The size of the points in bytes, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Whether the bytes are not measured, but computed for full stages.
    pub estimated: bool,
    /// Whether tagged series are not counted, because the process has no names in memory.
    pub without_tagged: bool,
}

#[boxed_futures]
impl Question for Stats {
    const NAME: &'static str = "stats";
    type Row = NamespaceSize;

    fn check(&self) -> Result<(), String> {
        if self.namespaces.len() > NAMESPACES_MAX {
            return Err(format!("there are too many namespaces; the limit is {NAMESPACES_MAX}"));
        }
        self.patterns().map(drop)
    }

    fn rate(&self) -> u32 {
        self.rate
    }

    async fn answer(&self, work: &Work, rows: &Rows<NamespaceSize>) -> Result<(), VerbError> {
        let mut tally = Tally::new(self, work).map_err(VerbError::Invalid)?;
        work.progress.begin("metrics counted", None);
        for which in [Which::glob("**"), Which::tagged()] {
            let mut found = work.names.find(&which);
            while let Some(names) = found.recv().await {
                let names = match names {
                    Err(VerbError::Invalid(_)) if which.glob.is_none() => {
                        tally.sizes.iter_mut().for_each(|size| size.without_tagged = true);
                        break;
                    }
                    names => names?,
                };
                work.go_on()?;
                tally.count(work, &names).await?;
                work.progress.add(names.len() as u64);
            }
        }
        for size in tally.sizes {
            rows.send(size).await?;
        }
        Ok(())
    }
}

impl Stats {
    /// The patterns in their order.
    fn patterns(&self) -> Result<Vec<Pattern>, String> {
        let compile = |Namespace { name, pattern }: &Namespace| {
            Pattern::new(&format!("\\A(?:{pattern})"))
                .map_err(|error| format!("the pattern of {name} is not a regular expression: {error}"))
        };
        self.namespaces.iter().map(compile).collect()
    }
}

/// The counts so far.
struct Tally {
    patterns: Vec<Pattern>,
    /// A size for each pattern, and one for the metrics that match none of them.
    sizes: Vec<NamespaceSize>,
}

impl Tally {
    fn new(stats: &Stats, work: &Work) -> Result<Self, String> {
        let rest = if stats.namespaces.is_empty() { TOTAL } else { NONE };
        let names = stats.namespaces.iter().map(|namespace| namespace.name.as_str()).chain([rest]);
        let sizes = names.map(|name| NamespaceSize {
            namespace: name.to_owned(),
            metrics: 0,
            points: 0,
            bytes: stats.bytes.then_some(0),
            estimated: stats.bytes && work.sizes.is_none(),
            without_tagged: false,
        });
        Ok(Self { sizes: sizes.collect(), patterns: stats.patterns()? })
    }

    async fn count(&mut self, work: &Work, names: &[String]) -> Result<(), VerbError> {
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let known = work.stores.metadata.get(&texts).await?;
        let mut found: Vec<(usize, (MetricId, Vec<Stage>))> = Vec::new();
        for (name, meta) in texts.iter().zip(known) {
            let at = self.place(name);
            self.sizes[at].metrics += 1;
            if let Some(meta) = meta {
                found.push((at, (meta.id(), meta.config.retention.stages().to_vec())));
            }
        }
        let (places, stages): (Vec<usize>, Vec<(MetricId, Vec<Stage>)>) = found.into_iter().unzip();
        for (at, (_, stages)) in places.iter().zip(&stages) {
            self.sizes[*at].points += stages.iter().map(|stage| u64::from(stage.points)).sum::<u64>();
        }
        if self.sizes.iter().all(|size| size.bytes.is_none()) {
            return Ok(());
        }
        let bytes: Vec<u64> = match &work.sizes {
            Some(sizes) => sizes.sizes(&stages).await?.iter().map(|bytes| bytes.iter().sum()).collect(),
            None => {
                let points =
                    |stages: &[Stage]| stages.iter().map(|stage| u64::from(stage.points)).sum::<u64>();
                stages.iter().map(|(_, stages)| points(stages) * POINT_BYTES).collect()
            }
        };
        for (at, more) in places.into_iter().zip(bytes) {
            let size = &mut self.sizes[at];
            size.bytes = size.bytes.map(|bytes| bytes + more);
        }
        Ok(())
    }

    /// The position of the namespace of a metric.
    fn place(&self, name: &str) -> usize {
        let matches = |pattern: &Pattern| pattern.is_match(name) == Some(true);
        self.patterns.iter().position(matches).unwrap_or(self.patterns.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(patterns: &[(&str, &str)]) -> Stats {
        let namespace = |(name, pattern): &(&str, &str)| Namespace {
            name: (*name).to_owned(),
            pattern: (*pattern).to_owned(),
        };
        Stats { namespaces: patterns.iter().map(namespace).collect(), ..Stats::default() }
    }

    #[test]
    fn patterns_match_from_the_begin_and_the_first_counts() {
        let stats = stats(&[("a", "web|db"), ("b", "(?i)WEB"), ("c", "x$")]);
        let tally = Tally { patterns: stats.patterns().unwrap(), sizes: Vec::new() };
        let places = ["web.a", "db", "a.web", "Web.a", "x", "a.x"].map(|name| tally.place(name));
        assert_eq!(places, [0, 0, 3, 1, 2, 3]);
    }

    #[test]
    fn patterns_that_cannot_be_read_are_named() {
        assert!(stats(&[("a", ".*")]).check().is_ok());
        assert!(stats(&[("a", ".*"), ("odd", "(")]).check().unwrap_err().contains("the pattern of odd"));
    }
}
