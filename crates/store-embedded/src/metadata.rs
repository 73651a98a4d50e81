//! Metadata: one row per metric with its name as the key, so that scans are in order of names. There are few
//! configurations, and metrics share them: a metric's row holds the number of its configuration.

use std::collections::HashMap;
use std::sync::Arc;

use fjall::PersistMode;
use plumbago_boxed_futures::boxed_futures;
use plumbago_fjall_host::pressure;
use plumbago_model::{MetricConfig, MetricId};
use plumbago_store::{ErrorKind, FlushStore, MetaEntry, MetaPage, MetadataStore, MetricMeta, StoreError};

use crate::damage::DamageReporter;
use crate::errors::{host_error, read_error, write_error};
use crate::locks::lock;
use crate::name_row::NameRow;
use crate::open::Open;
use crate::shared::Core;
use crate::store::{EmbeddedStore, run_blocking};

/// fjall's limit on the length of keys.
const NAME_BYTES_MAX: usize = 65_535;

/// Prefix of the names of series that are hidden from searches by tag, in the catalogue's keyspace.
const HIDDEN_PREFIX: &str = "hidden/";

/// Maximum number of metrics in a page.
const PAGE_MAX: usize = 100_000;

fn create(core: &Core, open: &Open, metrics: &[MetricMeta]) -> Result<(), StoreError> {
    let failed = |error| write_error(format!("create metrics in {}", core.dir.display()), error);
    pressure::wait(&open.fjall, [&open.names.rows, &open.names.copy].into_iter()).map_err(host_error)?;
    let _changes = lock(&open.configs.changes);
    let mut batch = fjall::OwnedWriteBatch::with_capacity(open.fjall.clone(), metrics.len() + 1)
        .durability(Some(PersistMode::Buffer));
    let mut numbers: HashMap<*const MetricConfig, u32> = HashMap::new();
    // Sorted rows are looked up and inserted several times faster.
    let mut in_order: Vec<&MetricMeta> = metrics.iter().collect();
    in_order.sort_by(|a, b| a.name.cmp(&b.name));
    // A name may occur twice in one call, and its first row is not visible yet.
    let mut last: Option<(&str, NameRow)> = None;
    for metric in in_order {
        if metric.name.is_empty() || metric.name.len() > NAME_BYTES_MAX {
            let operation = format!("create a metric with a name of {} bytes", metric.name.len());
            return Err(StoreError::new(ErrorKind::Invalid, operation));
        }
        let number = *numbers
            .entry(Arc::as_ptr(&metric.config))
            .or_insert_with(|| open.configs.number(&metric.config, &mut batch));
        let known = match last {
            Some((name, row)) if name == metric.name => Some(row),
            _ => row_of(core, open, &metric.name),
        };
        let new = NameRow { created_on: metric.created_on, config: number, read_on: 0 };
        let row = known.map_or(new, |known| NameRow { config: number, ..known });
        last = Some((&metric.name, row));
        open.names.insert(&mut batch, metric.name.as_bytes(), &row.to_bytes());
    }
    batch
        .commit()
        .and_then(|()| open.names.rotate_when_full(core.config.memtable_bytes.0))
        .map_err(failed)?;
    if open.configs.take_changed() {
        crate::second_copy::refresh(&core.dir, &open.system, open.configs.keyspace());
    }
    Ok(())
}

/// The row of a name; `None` if there is no such metric or its row is damaged.
pub(crate) fn row_of(core: &Core, open: &Open, name: &str) -> Option<NameRow> {
    open.names.get(name, &core.damage).and_then(|row| NameRow::parse(&row))
}

fn get(core: &Core, open: &Open, name: &str) -> Option<MetricMeta> {
    let row = open.names.get(name, &core.damage)?;
    let found = NameRow::parse(&row).and_then(|row| Some((row.created_on, open.configs.get(row.config)?)));
    if found.is_none() {
        core.damage.report(&open.names.rows, &name, &"its row is not metadata");
    }
    let (created_on, config) = found?;
    Some(MetricMeta { name: name.to_owned(), config, created_on })
}

fn delete(core: &Core, open: &Open, names: &[String]) -> Result<(), StoreError> {
    let _changes = lock(&open.configs.changes);
    let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
    for name in names.iter().filter(|name| !name.is_empty()) {
        open.names.remove(&mut batch, name.as_bytes());
        core.noted.remove(&MetricId::of(name));
        if name.contains(';') {
            batch.remove(&open.system, hidden_key(name));
        }
    }
    batch.commit().map_err(|error| write_error(format!("delete metrics in {}", core.dir.display()), error))
}

fn hidden_key(name: &str) -> String {
    format!("{HIDDEN_PREFIX}{name}")
}

/// Hides series since `at` (seconds since the epoch), or shows them again if `None`.
fn set_hidden(open: &Open, names: &[String], at: Option<u32>) -> Result<(), StoreError> {
    let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
    for key in names.iter().map(|name| hidden_key(name)) {
        match at {
            Some(at) => batch.insert(&open.system, key, at.to_le_bytes()),
            None => batch.remove(&open.system, key),
        }
    }
    batch.commit().map_err(|error| write_error("mark hidden series", error))
}

fn hidden(open: &Open, damage: &DamageReporter) -> Result<Vec<(String, u32)>, StoreError> {
    let mut names = Vec::new();
    for row in open.system.prefix(HIDDEN_PREFIX) {
        let (key, at) = row.into_inner().map_err(|error| read_error("list hidden series", error))?;
        let name = std::str::from_utf8(&key).ok().and_then(|key| key.strip_prefix(HIDDEN_PREFIX));
        match (name, at.as_ref().try_into()) {
            (Some(name), Ok(at)) => names.push((name.to_owned(), u32::from_le_bytes(at))),
            _ => damage.report(&open.system, &key.escape_ascii(), &"its row does not mark a hidden series"),
        }
    }
    Ok(names)
}

fn scan(open: &Open, damage: &DamageReporter, position: Option<Vec<u8>>, limit: usize) -> MetaPage {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut page = MetaPage::default();
    let met = open.names.scan(&position.unwrap_or_default(), &mut |key, row| {
        if page.entries.len() == limit {
            page.next = Some(key.to_vec());
            return false;
        }
        let meta = NameRow::parse(row).and_then(|row| Some((row.created_on, open.configs.get(row.config)?)));
        match (std::str::from_utf8(key), meta) {
            (Ok(name), Some((created_on, config))) => {
                page.text.push_str(name);
                let name_end = page.text.len() as u32;
                page.entries.push(MetaEntry { name_end, created_on, config });
            }
            _ => damage.report(&open.names.rows, &key.escape_ascii(), &"its row is not metadata"),
        }
        true
    });
    met.report(open, damage);
    page
}

#[boxed_futures]
impl MetadataStore for EmbeddedStore {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let (store, metrics) = (self.clone(), metrics.to_vec());
        run_blocking("create metrics", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(create(&store.core, &open, &metrics))
        })
        .await
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let store = self.clone();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        run_blocking("look up metrics", move || {
            let open = store.core.open()?;
            Ok(names.iter().map(|name| get(&store.core, &open, name)).collect())
        })
        .await
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let store = self.clone();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        run_blocking("delete metrics", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(delete(&store.core, &open, &names))
        })
        .await
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let store = self.clone();
        run_blocking("scan metrics", move || {
            let open = store.core.open()?;
            Ok(scan(&open, &store.core.damage, position, limit))
        })
        .await
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        self.mark_hidden(names, Some(at)).await
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        self.mark_hidden(names, None).await
    }

    async fn sync_names(&self) -> Result<(), StoreError> {
        let store = self.clone();
        run_blocking("sync names", move || FlushStore::sync(&store)).await
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        let store = self.clone();
        run_blocking("list hidden series", move || {
            let open = store.core.open()?;
            hidden(&open, &store.core.damage)
        })
        .await
    }
}

impl EmbeddedStore {
    async fn mark_hidden(&self, names: &[&str], at: Option<u32>) -> Result<(), StoreError> {
        let store = self.clone();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        run_blocking("mark hidden series", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(set_hidden(&open, &names, at))
        })
        .await
    }
}
