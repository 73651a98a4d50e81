//! Settings that SIGHUP reloads.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use plumbago_api::Certificates;
use plumbago_engine::ConfigFor;
use plumbago_model::StorageRules;
use plumbago_telemetry::log::LevelHandle;

use crate::config::{self, Config};

/// The storage rules in effect. A reload replaces them.
pub(crate) struct Live(Arc<ArcSwap<StorageRules>>);

impl Live {
    pub(crate) fn new(rules: StorageRules) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(rules)))
    }

    /// Returns the current rules.
    pub(crate) fn load(&self) -> Arc<StorageRules> {
        self.0.load_full()
    }

    /// Returns a function that applies the rules that are current at each call.
    pub(crate) fn config_for(&self) -> ConfigFor {
        let rules = Arc::clone(&self.0);
        Arc::new(move |name| rules.load().config_for(name))
    }
}

/// Everything that SIGHUP reloads: rules, lists, certificates and the log level.
pub(crate) struct Reload {
    pub(crate) file: Option<PathBuf>,
    /// The last valid configuration. The files that it names are reloaded even if the configuration file is
    /// invalid now.
    pub(crate) config: Config,
    pub(crate) level: Option<LevelHandle>,
    /// Certificates of the HTTP ports, with the sections that configure them (`api`, `admin`).
    pub(crate) certificates: Vec<(&'static str, Arc<Certificates>)>,
}

impl Reload {
    /// Reloads every part that is valid. An invalid part is logged and stays as it was.
    pub(crate) fn reload(&mut self, rules: &Live, listeners: &plumbago_ingest::Handle) {
        match config::load(self.file.as_deref()) {
            Ok(loaded) => {
                rules.0.store(Arc::new(loaded.rules));
                self.set_level(&loaded.config.log.level);
                self.config = loaded.config;
                tracing::info!("storage rules reloaded; they apply to new metrics");
            }
            Err(problems) => {
                tracing::error!(%problems, "the configuration was not reloaded; the old rules stay in effect");
            }
        }
        if let Err(error) = listeners.reload(&self.config.ingest) {
            tracing::error!(%error, "some files of the listeners were not reloaded; their old contents stay in effect");
        }
        for (section, certificates) in &self.certificates {
            let tls = if *section == "api" { &self.config.api.tls } else { &self.config.admin.tls };
            if let Err(error) = certificates.reload(&tls.files()) {
                tracing::error!(%error, "{section}.tls was not reloaded; the old certificate stays in effect");
            }
        }
    }

    fn set_level(&self, level: &str) {
        if let (Some(handle), Some(filter)) = (&self.level, plumbago_telemetry::log::filter(level)) {
            let _ = handle.reload(filter);
        }
    }
}
