//! Stores and an engine without a daemon, for commands and for stores that are only read.

use std::pin::Pin;
use std::sync::Arc;

use plumbago_engine::Recovered;
use plumbago_maintenance::verb::Work;
use plumbago_model::Clock;
use plumbago_telemetry::Damage;
use tokio_util::sync::CancellationToken;

use super::{Core, STORE_TIMEOUT, clock, events, greeting, rules, start_failure};
use crate::config::{Config, Loaded};
use crate::error::Failure;

/// The stores and the engine of a data directory that no daemon uses.
pub(super) struct AtRest {
    pub(super) config: Config,
    pub(super) core: Core,
    stop: CancellationToken,
}

impl AtRest {
    /// Opens the stores and the engine, without listeners. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// If a store cannot be opened.
    pub(super) fn open(mut loaded: Loaded, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let budget = loaded.divide_memory();
        let rules = rules::Live::new(loaded.rules, &loaded.config);
        let stop = CancellationToken::new();
        let core = super::open(&loaded.config, &budget, &rules, clock, &stop)?;
        greeting::opened(&loaded.config.data_dir);
        Ok(Self { config: loaded.config, core, stop })
    }

    /// Loads the points of earlier runs, including those that are only in the journal.
    ///
    /// # Errors
    ///
    /// If the points cannot be loaded.
    pub(super) async fn start(&self) -> Result<Recovered, Failure> {
        self.core.engine.start().await.map_err(start_failure)
    }

    /// Ends the engine and closes the stores.
    ///
    /// # Errors
    ///
    /// If a store cannot be closed.
    pub(super) async fn close(self) -> Result<(), Failure> {
        self.core.engine.stop(STORE_TIMEOUT).await;
        self.stop.cancel();
        super::close(self.core).await?;
        // If this cannot be written, the next start replays an empty journal, which does no harm.
        let _ = greeting::closed(&self.config.data_dir);
        Ok(())
    }
}

/// What a verb does with the opened stores.
pub(crate) type AtRestWork<'a> =
    Box<dyn FnOnce(Work) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>> + 'a>;

/// Opens the stores and the engine without listeners, does the work of a verb, and closes them. The work can
/// read the points of earlier runs, including those that were only in the journal.
///
/// # Errors
///
/// If the stores or the engine cannot be opened, started or closed, or `work` fails.
pub(crate) async fn work_at_rest(loaded: Loaded, work: AtRestWork<'_>) -> Result<Damage, Failure> {
    let clock = clock::Setting::from(loaded.config.debug.clock).shared();
    let rest = AtRest::open(loaded, clock)?;
    rest.start().await?;
    let events = events::Events::at_rest(&rest.config);
    let done = work(rest.core.work(&rest.config, rest.core.job_lease(), events)).await;
    let damage = rest.core.damage();
    let closed = rest.close().await;
    // If a full disk makes both fail, the error of the work is more informative.
    done?;
    closed?;
    Ok(damage)
}
