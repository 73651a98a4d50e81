//! Finds out which metrics may have points in a time range, for finds that hide the others
//! (`find.hide_inactive`).

use std::sync::Arc;

use plumbago_api::{Activity, FindRange};
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Engine;
use plumbago_store::{FetchError, RowStore};

use super::Core;
use crate::config::{Config, StoreKind};

/// Number of metrics in one request to a shard, which does nothing else while it answers.
const ASKED_AT_ONCE: usize = 4096;
/// Largest number of metrics of one find that are looked up in the shared store. If there are more, all of
/// them are shown.
const LOOKED_UP_MAX: usize = 1000;

/// Knows the newest points in memory and, on a shared store, when other daemons last wrote a metric.
#[derive(Debug)]
pub(super) struct NewestPoints {
    engine: Engine,
    /// How long a metric is shown after its last point, in seconds.
    tolerance: i64,
    /// The rows with the last write time (`updated_on`), and how many seconds this time may lag behind the last
    /// write.
    shared: Option<(Arc<dyn RowStore>, i64)>,
}

impl NewestPoints {
    /// Returns the filter for finds, if the configuration enables it.
    pub(super) fn of(config: &Config, core: &Core) -> Option<Arc<dyn Activity>> {
        let seconds = |period: plumbago_model::Period| i64::try_from(period.as_secs()).unwrap_or(i64::MAX);
        let touched = seconds(config.store.cassandra.touch_after);
        let shared = (config.store.kind == StoreKind::Cassandra)
            .then(|| (Arc::clone(&core.stores.rows), touched.saturating_mul(2)));
        let tolerance = seconds(config.find.tolerance);
        config
            .find
            .hide_inactive
            .then(|| Arc::new(Self { engine: core.engine.clone(), tolerance, shared }) as Arc<dyn Activity>)
    }

    /// For each metric, whether the shared store shows that no daemon has written it since `since`.
    async fn are_silent(&self, names: &[&str], since: i64) -> Vec<bool> {
        let Some((rows, late)) = &self.shared else { return vec![true; names.len()] };
        if names.len() > LOOKED_UP_MAX {
            return vec![false; names.len()];
        }
        match rows.look_up_rows(names).await {
            Ok(rows) => {
                let updated = rows.into_iter().map(|row| row.and_then(|row| row.updated_on));
                let is_old = |time: u32| i64::from(time).saturating_add(*late) < since;
                updated.map(|updated| updated.is_some_and(is_old)).collect()
            }
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "the answer to a find may contain metrics without points in the range: the store cannot \
                     tell when they were written"
                );
                vec![false; names.len()]
            }
        }
    }
}

#[boxed_futures]
impl Activity for NewestPoints {
    async fn are_active(&self, names: &[&str], range: FindRange) -> Result<Vec<bool>, FetchError> {
        let since = range.from.saturating_sub(self.tolerance);
        let mut known = Vec::with_capacity(names.len());
        for names in names.chunks(ASKED_AT_ONCE) {
            known.extend(self.engine.may_have_points(names, since, range.until).await?);
        }
        // On a shared store, another daemon may write a metric that this one does not.
        let is_asked = |known: Option<bool>| known == Some(false) || known.is_none() && self.shared.is_some();
        let asked: Vec<&str> =
            names.iter().zip(&known).filter(|(_, known)| is_asked(**known)).map(|(name, _)| *name).collect();
        let mut silent = self.are_silent(&asked, since).await.into_iter();
        let is_active = |known| !is_asked(known) || !silent.next().unwrap_or(false);
        Ok(known.into_iter().map(is_active).collect())
    }
}
