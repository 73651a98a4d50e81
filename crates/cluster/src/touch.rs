//! Records in the shared store when metrics were last written (`updated_on`). The time is renewed rarely, not
//! with every point.

use std::time::Duration;

use plumbago_store::{MetaPage, MetadataStore, MetricMeta, SharedStore};

use crate::pace::{AT_ONCE, CREATED_AT_ONCE, Work};
use crate::retry::{RETRY_PAUSE, with_jitter};
use crate::{ClusterError, LocalMetrics, Member, meta_of};

/// Pause after a failure, and the longest wait before the next metrics are checked.
const SOON: Duration = Duration::from_secs(60);
/// Largest number of metrics that are checked before the next pause.
const PAGE: usize = 1000;

/// A pass over all metrics of the local copy, spread over a whole period.
#[derive(Debug)]
struct Pass {
    /// When the pass began, in seconds since the epoch.
    began: i64,
    position: Option<Vec<u8>>,
    /// How many metrics the pass has checked, and how many there are.
    done: usize,
    total: usize,
    /// The value of [`Member::returns`] when the pass began.
    returns: u64,
}

impl Pass {
    /// When the next metrics are due, in seconds since the epoch.
    fn due(&self, period: i64) -> i64 {
        let share = self.done.min(self.total) as f64 / self.total.max(1) as f64;
        self.began + (period as f64 * share) as i64
    }

    fn page(&self) -> usize {
        (self.total / 1000).clamp(AT_ONCE, PAGE)
    }
}

impl Member {
    /// Records in the store which metrics are being written. Checks each metric slightly less often than once
    /// per `touch_after`. Together with the other tasks this makes at most two requests per metric in that
    /// time. After a standstill it catches up. Never returns.
    pub(crate) async fn note_written_metrics(self, local: std::sync::Arc<dyn LocalMetrics>) {
        self.wait_until_checked().await;
        // Wait until the copy has all names: a pass over some of them would take as long.
        while !self.finds_names() && !self.names().is_complete() {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let period = (self.touch_after() + self.touch_after() / 10).max(SOON).as_secs() as i64;
        let touched = self.scan_file().progress.touched.clone();
        let (began, position) = touched.unwrap_or_else(|| (self.clock().now(), Vec::new()));
        let position = Some(position).filter(|position| !position.is_empty());
        let mut pass = Pass { began, position, done: 0, total: 0, returns: self.handled_returns() };
        let mut is_counted = false;
        loop {
            let now = self.clock().now();
            if pass.began > now + period {
                // The clock was set back.
                pass.began = now;
            }
            let wait = u64::try_from(pass.due(period) - now).unwrap_or(0);
            if is_counted && wait > 0 {
                tokio::time::sleep(Duration::from_secs(wait).min(SOON)).await;
                continue;
            }
            if let Err(error) = self.go_on(&*local, &mut pass, &mut is_counted, period).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to record on the server which metrics are written (updated_on); retrying in a \
                     minute. If this \
                     fails for days, `clean` may treat metrics as unused"
                );
                tokio::time::sleep(with_jitter(SOON)).await;
            }
        }
    }

    /// Checks the next metrics of the pass.
    async fn go_on(
        &self,
        local: &dyn LocalMetrics,
        pass: &mut Pass,
        is_counted: &mut bool,
        period: i64,
    ) -> Result<(), ClusterError> {
        if !*is_counted {
            (pass.done, pass.total) = self.count(pass.position.as_deref()).await?;
            *is_counted = true;
            return Ok(());
        }
        let page = self.names().copy().scan(pass.position.clone(), pass.page()).await?;
        self.note_written_of(local, &page).await?;
        pass.done += page.entries.len();
        pass.position = page.next;
        if pass.position.is_none() {
            if self.finds_names() {
                self.set_handled_returns(pass.returns);
            }
            let began = (pass.began + period).max(self.clock().now());
            let returns = self.returns();
            *pass = Pass { began, position: None, done: 0, total: 0, returns };
            *is_counted = false;
        }
        let position = pass.position.clone().unwrap_or_default();
        self.scan_file().progress.touched = Some((pass.began, position));
        Ok(())
    }

    /// Returns the number of names in the copy before `until`, and the number of all.
    async fn count(&self, until: Option<&[u8]>) -> Result<(usize, usize), ClusterError> {
        let (mut before, mut all, mut position) = (0, 0, None);
        loop {
            let page = self.names().copy().scan(position, crate::PAGE).await?;
            before +=
                page.iter().filter(|(name, _)| until.is_some_and(|until| name.as_bytes() < until)).count();
            all += page.entries.len();
            position = page.next;
            if position.is_none() {
                return Ok((before, all));
            }
        }
    }

    async fn note_written_of(&self, local: &dyn LocalMetrics, page: &MetaPage) -> Result<(), ClusterError> {
        let since = self.clock().now() - (self.touch_after() / 2).as_secs() as i64;
        let names: Vec<&str> = page.iter().map(|(name, _)| name).collect();
        let written = local.are_written(&names, since).await?;
        let written: Vec<MetricMeta> =
            page.iter().zip(written).filter(|(_, written)| *written).map(|(e, _)| meta_of(e)).collect();
        for metrics in written.chunks(AT_ONCE) {
            self.pace().wait(metrics.len(), Work::Note).await;
            let missing = self.note_written(metrics).await?;
            self.handle_missing(local, &missing).await?;
        }
        Ok(())
    }

    /// Handles metrics that got points but are missing in the shared store. If another program deleted them,
    /// they are created again only if they get points from now on. Names that a returned server lost are
    /// created again by the round over all names, or here if there is no such round.
    async fn handle_missing(
        &self,
        local: &dyn LocalMetrics,
        missing: &[MetricMeta],
    ) -> Result<(), ClusterError> {
        if !self.has_unhandled_return() {
            let names: Vec<_> = missing.iter().map(|meta| (meta.name.as_str(), None)).collect();
            return self.unload_or_watch(local, &names).await;
        }
        if self.finds_names() { self.create_missing(missing).await } else { Ok(()) }
    }

    /// Records that metrics are being written, unless that was recorded within `touch_after`. Returns those that
    /// are missing in the shared store.
    async fn note_written(&self, metrics: &[MetricMeta]) -> Result<Vec<MetricMeta>, ClusterError> {
        let names: Vec<&str> = metrics.iter().map(|meta| meta.name.as_str()).collect();
        let age = i64::try_from(self.touch_after().as_secs()).unwrap_or(i64::MAX);
        let since = self.clock().now().saturating_sub(age);
        let exist = SharedStore::note_written(self.store(), &names, since).await?;
        let missing = metrics.iter().zip(exist).filter(|(_, exists)| !exists);
        Ok(missing.map(|(meta, _)| meta.clone()).collect())
    }

    /// Creates the metrics that are missing in the shared store again, with their configurations from the
    /// local copy. Otherwise their points could not be found.
    pub(crate) async fn create_missing(&self, metrics: &[MetricMeta]) -> Result<(), ClusterError> {
        for metrics in metrics.chunks(CREATED_AT_ONCE) {
            self.pace().wait(metrics.len(), Work::Create).await;
            let missing = self.note_written(metrics).await?;
            if missing.is_empty() {
                continue;
            }
            tracing::info!(
                metrics = missing.len(),
                "creating metrics again that have new points but are missing on the server"
            );
            // Creating a metric also records when it was written.
            self.names().create(&missing).await?;
        }
        Ok(())
    }
}
