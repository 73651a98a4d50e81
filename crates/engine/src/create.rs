//! Creates metrics that have no points yet.

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{Creation, ErrorKind, MetricCreator, MetricMeta, SettingsChange, StoreError};

use crate::engine::Engine;

#[boxed_futures]
impl MetricCreator for Engine {
    async fn create_metrics(
        &self,
        metrics: Vec<SettingsChange>,
        dry_run: bool,
    ) -> Result<Vec<Creation>, StoreError> {
        let parts = self.parts();
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        let stopping = |_| StoreError::new(ErrorKind::Closed, "create metrics: the engine is stopping");
        let has_heads = self.contains(&names).await.map_err(stopping)?;
        let stored = parts.metadata.get(&names).await?;
        let created_on = u32::try_from(parts.clock.now()).unwrap_or(0);
        let mut new = Vec::new();
        let create = |((metric, has_head), stored): ((&SettingsChange, bool), Option<MetricMeta>)| {
            if let Some(meta) = stored {
                return Creation::Known(meta.config);
            }
            if has_head {
                return Creation::Starting;
            }
            if let Some(why) = self.refuses(&metric.name, dry_run) {
                return Creation::Refused(why);
            }
            let (name, config) = (metric.name.clone(), Arc::clone(&metric.config));
            new.push(MetricMeta { name, config, created_on });
            Creation::Created
        };
        let creations: Vec<Creation> = metrics.iter().zip(has_heads).zip(stored).map(create).collect();
        if !dry_run && !new.is_empty() {
            let _both = self.between_stores().await;
            parts.metadata.create(&new).await?;
            self.adopt(&new).await.map_err(stopping)?;
        }
        Ok(creations)
    }
}
