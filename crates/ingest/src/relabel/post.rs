//! The rewrite rules under `[post]`, where they apply after aggregation.

use std::sync::Arc;

use plumbago_model::PointBatch;
use plumbago_telemetry::{Counter, Registry};

use super::{Relabel, Rules};
use crate::config::Config;
use crate::name::{NameOptions, finish};
use crate::reject::Reject;

/// Applies the rules under `[post]` to names in normal form. Clones share the rules and counters.
#[derive(Debug, Clone)]
pub struct Post {
    rules: Rules,
    names: NameOptions,
    rejected: Arc<[Counter; Reject::COUNT]>,
}

impl Post {
    /// Applies the rules of `rules`.
    pub fn new(rules: Rules, config: &Config, registry: &Registry) -> Self {
        let rejected = Reject::ALL.map(|reason| {
            let labels = [("stage", "post"), ("reason", reason.label())];
            let help = "points that were refused, by the stage that refused them and the reason";
            registry.counter("plumbago_rejected_points_total", help, &labels)
        });
        Self { rules, names: config.names(), rejected: Arc::new(rejected) }
    }

    /// Rewrites names of received points, which are in normal form. Points whose new name is refused are counted and
    /// left out. Returns `None` if there are no rules, so that the batch stays as it is.
    pub fn rewrite(&self, batch: &PointBatch) -> Option<PointBatch> {
        let relabel = self.rules.current();
        (!relabel.post.is_empty()).then(|| self.all(batch, &relabel))
    }

    /// Like [`Post::rewrite`], for names that the aggregation rules have made: they are brought into normal form even
    /// without rules.
    pub fn normalise(&self, batch: &PointBatch) -> PointBatch {
        self.all(batch, &self.rules.current())
    }

    /// Points refused here for a reason.
    pub fn rejected_for(&self, reason: Reject) -> u64 {
        self.rejected[reason as usize].get()
    }

    fn all(&self, batch: &PointBatch, relabel: &Relabel) -> PointBatch {
        let mut rewritten = PointBatch::with_capacity(batch.len());
        for point in batch.points() {
            let name = relabel.apply_post(batch.name(point));
            let push = |name: &[u8]| rewritten.push_utf8(name, point.timestamp, point.value);
            if let Err(reason) = name.and_then(|name| finish(&name, self.names, push)) {
                self.rejected[reason as usize].add(1);
            }
        }
        rewritten
    }
}
