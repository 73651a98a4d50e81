//! The newest metrics, with the storage rules that apply to them.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use plumbago_model::{MetricConfig, StorageRules};
use plumbago_store::{MetadataStore, MetricRow};
use serde::Serialize;

/// A metric that was created recently.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Newest {
    /// The name of the metric.
    pub name: String,
    /// When the metric was created, in seconds since the epoch.
    pub created_on: u32,
    /// The retention of the metric, like `1m:1w,1h:730d`.
    pub retention: String,
    /// The section of the present storage schemas that matches the metric; `None` for carbon's default.
    pub section: Option<String>,
    /// The line of the section's header, from 1.
    pub line: Option<usize>,
    /// Whether that section has another retention, because the rules were changed after the metric was
    /// created or the metric has its own settings.
    pub differs: bool,
}

/// A metric, ordered by its time of creation, then by name.
#[derive(Debug)]
pub(super) struct Created {
    pub(super) created_on: u32,
    pub(super) name: String,
    pub(super) config: Arc<MetricConfig>,
}

impl Created {
    pub(super) fn of(row: MetricRow) -> Option<Self> {
        Some(Self { created_on: row.created_on, config: row.config?, name: row.name })
    }

    fn rank(&self) -> (u32, Reverse<&str>) {
        (self.created_on, Reverse(self.name.as_str()))
    }
}

impl Ord for Created {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Created {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Created {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Created {}

/// Looks up the rules of the metrics. Matching a pattern may take long.
pub(super) fn with_rules(
    metrics: Vec<Created>,
    rules: &StorageRules,
    metadata: &dyn MetadataStore,
) -> Vec<Newest> {
    let newest = |metric: Created| {
        let source = rules.explain(&metric.name).0.source;
        let wanted = metadata.as_read(rules.config_for(&metric.name));
        Newest {
            created_on: metric.created_on,
            retention: metric.config.retention.spelled(),
            section: source.map(|source| source.section.clone()),
            line: source.map(|source| source.line),
            differs: wanted.retention != metric.config.retention,
            name: metric.name,
        }
    };
    metrics.into_iter().map(newest).collect()
}

#[cfg(test)]
mod tests {
    use plumbago_store::memory::MemoryStore;

    use super::*;
    use crate::costs::top::Top;

    #[test]
    fn the_newest_have_their_rules() {
        let schemas =
            "[web]\npattern = ^web\nretentions = 10s:1d\n[db]\npattern = ^db\nretentions = 60s:1d\n";
        let (rules, _) = StorageRules::parse(Some(schemas), None);
        let mut top = Top::new(3);
        for (name, created_on, config) in [
            ("web.a", 5, "10s:86400s"),
            ("web.b", 9, "60s:86400s"),
            ("x", 7, "60s:604800s"),
            ("db", 1, "60s:86400s"),
        ] {
            let config = Arc::new(MetricConfig::from_text(&format!("{config} average 0.5")).unwrap());
            top.add(Created { created_on, name: name.to_owned(), config });
        }
        let found = with_rules(top.into_sorted(), &rules, &MemoryStore::default());
        let found: Vec<(&str, Option<&str>, Option<usize>, bool)> = found
            .iter()
            .map(|one| (one.name.as_str(), one.section.as_deref(), one.line, one.differs))
            .collect();
        assert_eq!(
            found,
            [
                ("web.b", Some("web"), Some(1), true),
                ("x", None, None, false),
                ("web.a", Some("web"), Some(1), false)
            ]
        );
    }
}
