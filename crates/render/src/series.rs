//! A series on its way through an evaluation.

use std::sync::Arc;

use plumbago_model::Series;

/// How values fold when a series is read coarser than it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// Mean of the known values.
    #[default]
    Average,
    /// Mean, unknown values counted as zero.
    AvgZero,
    /// Sum of the known values.
    Sum,
    /// Largest known value.
    Max,
    /// Smallest known value.
    Min,
    /// First known value.
    First,
    /// Last known value.
    Last,
}

impl Consolidation {
    /// The consolidation that Graphite calls so.
    pub fn named(name: &str) -> Option<Self> {
        const ALL: [Consolidation; 7] = [
            Consolidation::Average,
            Consolidation::AvgZero,
            Consolidation::Sum,
            Consolidation::Max,
            Consolidation::Min,
            Consolidation::First,
            Consolidation::Last,
        ];
        let name = if name == "avg" { "average" } else { name };
        ALL.into_iter().find(|consolidation| consolidation.name() == name)
    }

    /// Graphite's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::AvgZero => "avg_zero",
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// The tags of a series, in the order in which Graphite prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tags(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Only the name: nearly all series, so it costs no allocation.
    Plain(Arc<str>),
    Pairs(Vec<(String, String)>),
}

impl Tags {
    /// The tags that a name holds: `cpu;dc=a` has `dc` and `name`, a plain name only `name`. A name
    /// that looks tagged and is not well formed is a plain one.
    pub fn of(name: &Arc<str>) -> Self {
        if !name.contains([';', '~']) {
            return Self(Kind::Plain(Arc::clone(name)));
        }
        tagged(name).unwrap_or_else(|| Self(Kind::Plain(Arc::clone(name))))
    }

    /// Key and value pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (plain, pairs) = match &self.0 {
            Kind::Plain(name) => (Some(("name", &**name)), &[][..]),
            Kind::Pairs(pairs) => (None, &pairs[..]),
        };
        plain.into_iter().chain(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    /// The value of a tag.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// The tags that are the same in all of some sets.
    pub fn common<'a>(mut sets: impl Iterator<Item = &'a Self>) -> Self {
        let mut common: Vec<(String, String)> = Vec::new();
        if let Some(first) = sets.next() {
            common = first.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        }
        for tags in sets {
            common.retain(|(key, value)| tags.get(key) == Some(value));
        }
        Self(Kind::Pairs(common))
    }

    /// Sets a tag; a new one comes last.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        if let Kind::Plain(name) = &self.0 {
            self.0 = Kind::Pairs(vec![("name".to_owned(), name.to_string())]);
        }
        if let Kind::Pairs(pairs) = &mut self.0 {
            match pairs.iter_mut().find(|(k, _)| k == key) {
                Some((_, old)) => *old = value.into(),
                None => pairs.push((key.to_owned(), value.into())),
            }
        }
    }
}

fn tagged(name: &str) -> Option<Tags> {
    let mut segments = name.split(';');
    let metric = segments.next()?.trim_start_matches('~');
    let mut tags = Tags(Kind::Pairs(Vec::new()));
    for segment in segments {
        let (key, value) = segment.split_once('=')?;
        if key.is_empty() || value.is_empty() {
            return None;
        }
        tags.set(key, value);
    }
    (!metric.is_empty()).then(|| {
        tags.set("name", metric);
        tags
    })
}

/// A series with what Graphite's functions carry along.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSeries {
    /// What it is called in the answer.
    pub name: Arc<str>,
    /// The text that produced it; combining functions name their result from it.
    pub path_expression: Arc<str>,
    /// Time of the first value.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// Seconds between two values.
    pub step: i64,
    /// The values; NaN is unknown. Shared until a function writes.
    pub values: Arc<Vec<f64>>,
    /// How it folds when it is read coarser.
    pub consolidation: Consolidation,
    /// Known ÷ all values below which a folded value is unknown.
    pub x_files_factor: f64,
    /// Its tags.
    pub tags: Tags,
}

impl TimeSeries {
    /// A series as it was fetched for `expression`.
    pub fn fetched(series: Series, expression: &Arc<str>, x_files_factor: f64) -> Self {
        Self {
            start: series.start,
            end: series.end(),
            step: i64::from(series.step.max(1)),
            tags: Tags::of(&series.name),
            name: series.name,
            path_expression: Arc::clone(expression),
            values: Arc::new(series.values),
            consolidation: Consolidation::default(),
            x_files_factor,
        }
    }

    /// The values, to be changed; copied only when somebody else holds them too.
    pub fn values_mut(&mut self) -> &mut Vec<f64> {
        Arc::make_mut(&mut self.values)
    }

    /// Gives it the text of the call that made it, as name and as path expression.
    pub(crate) fn rename(&mut self, name: String) {
        self.name = name.into();
        self.path_expression = Arc::clone(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_names() {
        let tags =
            |name| Tags::of(&Arc::from(name)).iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>();
        assert_eq!(tags("a.b"), ["name=a.b"]);
        assert_eq!(tags("cpu;dc=a;rack=1"), ["dc=a", "rack=1", "name=cpu"]);
        assert_eq!(tags("cpu;dc=a;dc=b"), ["dc=b", "name=cpu"]);
        assert_eq!(tags("~cpu"), ["name=cpu"]);
        assert_eq!(tags("cpu;dc"), ["name=cpu;dc"]);
        assert_eq!(tags("cpu;=x"), ["name=cpu;=x"]);
    }
}
