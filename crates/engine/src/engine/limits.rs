//! Limits that change while the engine runs: quotas, and how many metrics may be created.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use plumbago_model::rules::QuotaRules;
use plumbago_store::{FetchError, MetaPage, StoreError};

use super::Engine;
use crate::command::{ShardCommand, ask};
use crate::config::CreateLimit;
use crate::quotas::{Generation, Quotas};
use crate::shard::quota::Decision;

/// Number of metrics in one page of the metadata scan.
const PAGE: usize = 10_000;
/// Largest number of searches of the metadata store for metrics that have no account yet.
const PASSES: u32 = 5;
/// Pause before the next search, because metrics that are being created are not in the metadata store yet.
const PAUSE: Duration = Duration::from_secs(1);

/// Why new quotas did not come into effect.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// The names could not be read from the metadata store.
    #[error("failed to read the names of metrics, so the old quotas stay in effect")]
    Store(#[from] StoreError),
    /// The engine is shutting down.
    #[error(transparent)]
    Engine(#[from] FetchError),
}

impl Engine {
    /// The quotas in effect, and how much of them is used.
    pub fn quotas(&self) -> &Arc<Quotas> {
        &self.0.parts.quotas
    }

    /// Changes the limit on new metrics per minute.
    pub fn set_max_creates(&self, limit: CreateLimit) {
        self.0.creates.set(limit);
    }

    /// Puts new quotas into effect. The old quotas stay in effect until all metrics have an account under the new ones.
    /// Returns how many metrics have no such account, because the metadata store does not have these metrics.
    ///
    /// # Errors
    /// [`QuotaError`]; the old quotas stay in effect.
    pub async fn set_quotas(&self, rules: QuotaRules) -> Result<u64, QuotaError> {
        let _alone = self.0.quota_changes.lock().await;
        let Some(next) = self.quotas().begin(rules) else { return Ok(0) };
        match self.decide_quotas(&next).await {
            Ok(undecided) => {
                self.ask_all(ShardCommand::EndQuotas).await?;
                self.quotas().end();
                Ok(undecided)
            }
            Err(error) => {
                self.quotas().abandon();
                Err(error)
            }
        }
    }

    async fn decide_quotas(&self, next: &Generation) -> Result<u64, QuotaError> {
        self.ask_all(|answer| ShardCommand::BeginQuotas(next.number, answer)).await?;
        let mut undecided = 0;
        for pass in 0..PASSES {
            if pass > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let mut position = None;
            loop {
                let page = self.0.parts.metadata.scan(position, PAGE).await?;
                self.decide_page(next, &page).await?;
                position = page.next;
                if position.is_none() {
                    break;
                }
            }
            undecided = self.ask_all(ShardCommand::UndecidedQuotas).await?.into_iter().sum();
            if undecided == 0 {
                break;
            }
        }
        Ok(undecided)
    }

    async fn decide_page(&self, next: &Generation, page: &MetaPage) -> Result<(), FetchError> {
        let mut shares: Vec<Vec<Decision>> = self.0.workers.iter().map(|_| Vec::new()).collect();
        for (name, _) in page.iter() {
            let hash = self.0.router.hash(name);
            shares[self.0.router.shard(&hash)].push((hash, next.account(name)));
        }
        for (worker, share) in self.0.workers.iter().zip(shares) {
            let command = ShardCommand::DecideQuotas(share);
            worker.send(command).await.map_err(|_| FetchError::Stopping)?;
        }
        Ok(())
    }

    async fn ask_all<T>(
        &self,
        question: impl Fn(tokio::sync::oneshot::Sender<T>) -> ShardCommand,
    ) -> Result<Vec<T>, FetchError> {
        try_join_all(self.0.workers.iter().map(|worker| ask(worker, &question))).await
    }
}
