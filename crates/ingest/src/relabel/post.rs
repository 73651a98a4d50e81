//! The rewrite rules under `[post]`, if they apply after aggregation.

use std::sync::Arc;

use plumbago_model::PointBatch;
use plumbago_telemetry::{Counter, Registry};

use super::{Relabel, Rules};
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
    /// Makes the step that applies the rules under `[post]` of `rules`.
    pub fn new(rules: Rules, names: NameOptions, registry: &Registry) -> Self {
        let rejected = Reject::ALL.map(|reason| {
            let labels = [("stage", "post"), ("reason", reason.label())];
            let help = "points that were refused, by the stage that refused them and the reason";
            registry.counter("plumbago_rejected_points_total", help, &labels)
        });
        Self { rules, names, rejected: Arc::new(rejected) }
    }

    /// Rewrites names of received points, which are in normal form. Points whose new name is refused are
    /// counted and left out. Returns `None` if there are no rules, so that the batch stays as it is.
    pub fn rewrite(&self, batch: &PointBatch) -> Option<PointBatch> {
        let relabel = self.rules.current();
        (!relabel.post.is_empty()).then(|| self.all(batch, Some(&relabel)))
    }

    /// Brings names that the aggregation rules have made into normal form. As in carbon 1.1.10, the rules under
    /// `[post]` do not apply to them. Points whose name is refused are counted and left out.
    pub fn normalise(&self, batch: &PointBatch) -> PointBatch {
        self.all(batch, None)
    }

    /// Number of points that these lists and rules refused for a reason.
    pub fn rejected_for(&self, reason: Reject) -> u64 {
        self.rejected[reason as usize].get()
    }

    fn all(&self, batch: &PointBatch, relabel: Option<&Relabel>) -> PointBatch {
        let mut rewritten = PointBatch::with_capacity(batch.len());
        for point in batch.points() {
            let name = batch.name(point);
            let push = |name: &[u8]| rewritten.push_utf8(name, point.timestamp, point.value);
            let result = match relabel {
                Some(relabel) => relabel.apply_post(name).and_then(|name| finish(&name, self.names, push)),
                None => finish(name, self.names, push),
            };
            if let Err(reason) = result {
                self.rejected[reason as usize].add(1);
            }
        }
        rewritten
    }
}
