//! Records in the shared store when metrics were last written (`updated_on`). The time is renewed rarely, not
//! with every point.

use std::time::Duration;

use plumbago_store::{MetadataStore, MetricMeta, SharedStore};

use crate::{ClusterError, LocalMetrics, Member, PAGE, meta_of, with_jitter};

/// Pause after a start or a failure before metrics are recorded. It is short, because the last time that they
/// were recorded may be long ago.
const SOON: Duration = Duration::from_secs(60);
/// How many metrics are recorded at once, and the pause after them: at most 400 a second, each with one read and
/// at most one write.
const AT_ONCE: usize = 100;
const PAUSE: Duration = Duration::from_millis(250);

impl Member {
    /// Records the metrics that are being written, once per `touch_after`. Never returns.
    pub(crate) async fn note_written_metrics(self, local: std::sync::Arc<dyn LocalMetrics>) {
        self.wait_until_checked().await;
        let every = self.touch_after().max(SOON);
        let mut pause = SOON;
        loop {
            tokio::time::sleep(pause).await;
            pause = every;
            if let Err(error) = self.note_written_since(&*local, every / 2).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to update updated_on of the written metrics; retrying in a minute"
                );
                pause = with_jitter(SOON);
            }
        }
    }

    async fn note_written_since(&self, local: &dyn LocalMetrics, age: Duration) -> Result<(), ClusterError> {
        let since = self.clock().now() - age.as_secs() as i64;
        let mut position = None;
        loop {
            let page = self.names().copy().scan(position, PAGE).await?;
            let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
            let written = local.are_written(&names, since).await?;
            let written: Vec<MetricMeta> =
                page.iter().zip(written).filter(|(_, written)| *written).map(|(e, _)| meta_of(e)).collect();
            for metrics in written.chunks(AT_ONCE) {
                self.note_written(metrics).await?;
                tokio::time::sleep(PAUSE).await;
            }
            position = page.next;
            if position.is_none() {
                return Ok(());
            }
        }
    }

    /// Records that metrics are being written, unless that was recorded within `touch_after`. A metric that is
    /// missing in the shared store, because the store lost it or another daemon deleted it, is created again from
    /// the local copy. Otherwise its points could not be found.
    pub(crate) async fn note_written(&self, metrics: &[MetricMeta]) -> Result<(), ClusterError> {
        let names: Vec<&str> = metrics.iter().map(|meta| meta.name.as_str()).collect();
        let age = i64::try_from(self.touch_after().as_secs()).unwrap_or(i64::MAX);
        let since = self.clock().now().saturating_sub(age);
        let exist = SharedStore::note_written(self.store(), &names, since).await?;
        let lost: Vec<MetricMeta> =
            metrics.iter().zip(exist).filter(|(_, exists)| !exists).map(|(m, _)| m.clone()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        tracing::info!(
            metrics = lost.len(),
            "creating metrics again that have new points but are missing on the server"
        );
        // The creation records the time too.
        Ok(self.names().create(&lost).await?)
    }
}
