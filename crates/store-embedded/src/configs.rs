//! The configurations of the metrics. They are few and shared: a metric's row holds the number of its configuration.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use fjall::Keyspace;
use plumbago_model::MetricConfig;
use plumbago_store::{ErrorKind, StoreError};

use crate::errors::read_error;
use crate::locks::{read, write};

/// The configurations in use, by number.
pub(crate) struct Configs {
    rows: Keyspace,
    known: RwLock<Known>,
    /// A row was added since the last [`Configs::take_changed`].
    changed: AtomicBool,
    /// Held while metrics are created or deleted.
    pub(crate) changes: Mutex<()>,
}

#[derive(Default)]
struct Known {
    by_number: HashMap<u32, Arc<MetricConfig>>,
    by_text: HashMap<String, u32>,
}

impl Configs {
    pub(crate) fn load(rows: Keyspace) -> Result<Self, StoreError> {
        let mut known = Known::default();
        for row in rows.iter() {
            let (key, text) = row.into_inner().map_err(|error| read_error("read configurations", error))?;
            let number = key.as_ref().try_into().ok().map(u32::from_be_bytes);
            let text = String::from_utf8_lossy(&text).into_owned();
            let (Some(number), Some(config)) = (number, MetricConfig::from_text(&text)) else {
                let operation = format!("open the store: configuration {text:?} is damaged");
                return Err(StoreError::new(ErrorKind::Corrupt, operation));
            };
            known.by_number.insert(number, Arc::new(config));
            known.by_text.insert(text, number);
        }
        let changed = AtomicBool::new(false);
        Ok(Self { rows, known: RwLock::new(known), changed, changes: Mutex::default() })
    }

    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.rows
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<MetricConfig>> {
        read(&self.known).by_number.get(&number).cloned()
    }

    /// The number of a configuration. A new one gets the next number, by a row in the batch.
    pub(crate) fn number(&self, config: &Arc<MetricConfig>, batch: &mut fjall::OwnedWriteBatch) -> u32 {
        let text = config.to_text();
        if let Some(number) = read(&self.known).by_text.get(&text) {
            return *number;
        }
        let mut known = write(&self.known);
        let number = known.by_number.keys().max().map_or(0, |last| last + 1);
        batch.insert(&self.rows, number.to_be_bytes(), text.as_str());
        self.changed.store(true, Ordering::Release);
        known.by_number.insert(number, config.clone());
        known.by_text.insert(text, number);
        number
    }
}
