//! Quotas: read at the start, changed by reloads, measured and shown.

use std::sync::Arc;

use plumbago_engine::Engine;
use plumbago_engine::quotas::{Limited, QuotaUse, Quotas};
use plumbago_maintenance::questions::du;
use plumbago_maintenance::quotas::{DirectoryQuota, DirectoryQuotas, LimitUse};
use plumbago_maintenance::verb::Work;
use plumbago_model::Clock;
use plumbago_model::rules::QuotaRules;
use plumbago_telemetry::Throttle;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::config::Config;
use crate::error::{Exit, Failure};

/// Reads the file of quotas.
pub(super) fn open(config: &Config) -> Result<Arc<Quotas>, Failure> {
    let rules = config.quotas.load_rules();
    let failure = |problems: Vec<String>| Failure::new(Exit::Config, anyhow::anyhow!(problems.join("\n")));
    Ok(Arc::new(Quotas::new(rules.map_err(failure)?)))
}

/// Puts new quotas into effect. This takes a while, because each metric is assigned to its new quota.
pub(super) fn replace(engine: &Engine, rules: QuotaRules) {
    let engine = engine.clone();
    tokio::spawn(async move {
        let count = rules.quotas().len();
        match engine.set_quotas(rules).await {
            Ok(0) => tracing::info!("{count} quota(s) are in effect"),
            Ok(undecided) => tracing::warn!(
                undecided,
                "{count} quota(s) are in effect; some metrics do not count for them, because they are missing in \
                 the metadata store"
            ),
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(error, "the old quotas stay in effect; reload again");
            }
        }
    });
}

impl Core {
    /// Adds the metrics of quotas to the export, and measures bytes until `stop`.
    pub(super) fn watch_quotas(&self, config: &Config, work: Work, stop: &CancellationToken) {
        let (quotas, clock) = (Arc::clone(self.engine.quotas()), Arc::clone(&self.clock));
        self.registry.add_text(move || quotas.prometheus(clock.now()));
        let (engine, pause, stop) = (self.engine.clone(), *config.quotas.measure_every, stop.clone());
        tokio::spawn(async move {
            loop {
                measure(&engine, &work).await;
                if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                    return;
                }
            }
        });
    }
}

/// Measures the directories whose bytes are limited.
async fn measure(engine: &Engine, work: &Work) {
    static FAILED: Throttle = Throttle::new(600_000);
    for used in engine.quotas().uses(work.context.clock.now()) {
        if used.limits.bytes.is_none() {
            continue;
        }
        match du::below(work, &used.directory).await {
            Ok(size) => engine.quotas().set_bytes(&used.directory, size.bytes),
            Err(error) => {
                if let Some(suppressed) = FAILED.pass(work.context.clock.now_ms()) {
                    let (directory, error) = (used.directory, error.text());
                    tracing::warn!(
                        directory,
                        error,
                        suppressed,
                        "cannot measure the size of a directory with a quota; its last size stays in effect"
                    );
                }
            }
        }
    }
}

/// Tells verbs how much of their quotas directories use.
#[derive(Debug)]
pub(super) struct Uses {
    pub(super) quotas: Arc<Quotas>,
    pub(super) clock: Arc<dyn Clock>,
}

impl DirectoryQuotas for Uses {
    fn of(&self, directory: &str) -> Option<DirectoryQuota> {
        self.quotas.use_of(directory, self.clock.now()).map(|used| shown(&used))
    }
}

fn shown(used: &QuotaUse) -> DirectoryQuota {
    let limit = |limited: Limited| LimitUse {
        what: limited.key().to_owned(),
        used: used.used(limited),
        limit: used.limit(limited),
    };
    DirectoryQuota {
        quota: used.quota.clone(),
        dry_run: used.dry_run,
        limits: Limited::ALL.map(limit).into(),
        refused_points: used.refused.iter().sum(),
    }
}
