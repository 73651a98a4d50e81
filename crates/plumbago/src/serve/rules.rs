//! Storage rules that a running daemon can exchange.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use plumbago_api::Certificates;
use plumbago_engine::ConfigFor;
use plumbago_model::StorageRules;
use plumbago_telemetry::log::LevelHandle;

use crate::config::{self, Config};

/// The rules in force.
pub(crate) struct Live(Arc<ArcSwap<StorageRules>>);

impl Live {
    pub(crate) fn new(rules: StorageRules) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(rules)))
    }

    /// The rules in force now.
    pub(crate) fn load(&self) -> Arc<StorageRules> {
        self.0.load_full()
    }

    /// Asks the rules in force at that moment.
    pub(crate) fn config_for(&self) -> ConfigFor {
        let rules = Arc::clone(&self.0);
        Arc::new(move |name| rules.load().config_for(name))
    }
}

/// What SIGHUP reads again: rules, lists, certificates and the log level.
pub(crate) struct Reload {
    pub(crate) file: Option<PathBuf>,
    /// The last configuration that was right: its files are read again even when that of today is wrong.
    pub(crate) config: Config,
    pub(crate) level: Option<LevelHandle>,
    /// Of the HTTP ports, each with its section.
    pub(crate) certificates: Vec<(&'static str, Arc<Certificates>)>,
}

impl Reload {
    /// Everything that is right takes effect; what is wrong stays as it was, and is named.
    pub(crate) fn reload(&mut self, rules: &Live, listeners: &plumbago_ingest::Handle) {
        match config::load(self.file.as_deref()) {
            Ok(loaded) => {
                rules.0.store(Arc::new(loaded.rules));
                self.set_level(&loaded.config.log.level);
                self.config = loaded.config;
                tracing::info!("storage rules reloaded; they apply to new metrics");
            }
            Err(problems) => tracing::error!(%problems, "nothing reloaded, the old rules stay"),
        }
        if let Err(error) = listeners.reload(&self.config.ingest) {
            tracing::error!(%error, "not all of the listeners' files reloaded");
        }
        for (section, certificates) in &self.certificates {
            let tls = if *section == "api" { &self.config.api.tls } else { &self.config.admin.tls };
            if let Err(error) = certificates.reload(&tls.files()) {
                tracing::error!(%error, "{section}.tls not reloaded, the old certificate stays");
            }
        }
    }

    fn set_level(&self, level: &str) {
        if let (Some(handle), Some(filter)) = (&self.level, plumbago_telemetry::log::filter(level)) {
            let _ = handle.reload(filter);
        }
    }
}
