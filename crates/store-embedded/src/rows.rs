//! The rows of metrics as the clean-up sees them. Each metric has one row, which is sound or broken.
//! Directories have none.

use fjall::PersistMode;
use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricId;
use plumbago_store::{MetricRow, RowPage, RowProblem, RowStore, Share, StoreError};

use crate::errors::write_error;
use crate::locks::lock;
use crate::name_row::NameRow;
use crate::open::Open;
use crate::shared::Core;
use crate::store::{EmbeddedStore, run_blocking};

/// Maximum number of metrics in a page.
const PAGE_MAX: usize = 100_000;

fn row(open: &Open, name: &str, value: &[u8]) -> MetricRow {
    let parsed = NameRow::parse(value);
    let config = parsed.and_then(|row| open.configs.get(row.config));
    let broken = || RowProblem::Broken("its configuration cannot be read".to_owned());
    let problem = config.is_none().then(broken);
    let row = parsed.unwrap_or_default();
    let (created_on, read_on) = (row.created_on, crate::reads::last_read(&row));
    MetricRow { name: name.to_owned(), config, created_on, updated_on: None, read_on, problem }
}

/// Whether a name belongs to a part. Names are assigned by a hash, because alphabetical parts would have
/// unequal sizes.
fn is_in(share: Share, name: &[u8]) -> bool {
    let (from, to) = share.bounds();
    (from..=to).contains(&xxhash_rust::xxh3::xxh3_64(name))
}

fn scan(core: &Core, open: &Open, share: Share, position: Option<Vec<u8>>, limit: usize) -> RowPage {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut page = RowPage::default();
    let mut looked_at = 0;
    let met = open.names.scan(&position.unwrap_or_default(), &mut |key, value| {
        if looked_at == limit {
            page.next = Some(key.to_vec());
            return false;
        }
        looked_at += 1;
        match std::str::from_utf8(key) {
            Ok(name) if is_in(share, key) => page.rows.push(row(open, name, value)),
            Ok(_) => {}
            Err(_) => core.damage.report(&open.names.rows, &key.escape_ascii(), &"its name is not UTF-8"),
        }
        true
    });
    met.report(open, &core.damage);
    page
}

fn look_up(core: &Core, open: &Open, name: &str) -> Option<MetricRow> {
    open.names.get(name, &core.damage).map(|value| row(open, name, &value))
}

/// Deletes rows created up to `as_of_us`: rows have no other timestamp than their date of creation, in
/// seconds.
fn delete(core: &Core, open: &Open, names: &[String], as_of_us: i64) -> Result<(), StoreError> {
    let _changes = lock(&open.configs.changes);
    let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
    for name in names.iter().filter(|name| !name.is_empty()) {
        let found = look_up(core, open, name);
        if found.is_some_and(|row| i64::from(row.created_on).saturating_mul(1_000_000) <= as_of_us) {
            open.names.remove(&mut batch, name.as_bytes());
            core.noted.remove(&MetricId::of(name));
        }
    }
    batch
        .commit()
        .and_then(|()| open.names.rotate_when_full(core.config.memtable_bytes.0))
        .map_err(|error| write_error(format!("delete metrics in {}", core.dir.display()), error))
}

#[boxed_futures]
impl RowStore for EmbeddedStore {
    async fn scan_rows(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<RowPage, StoreError> {
        let store = self.clone();
        run_blocking("scan metrics", move || {
            let open = store.core.open()?;
            Ok(scan(&store.core, &open, share, position, limit))
        })
        .await
    }

    async fn look_up_rows(&self, names: &[&str]) -> Result<Vec<Option<MetricRow>>, StoreError> {
        let store = self.clone();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        run_blocking("look up metrics", move || {
            let open = store.core.open()?;
            Ok(names.iter().map(|name| look_up(&store.core, &open, name)).collect())
        })
        .await
    }

    async fn reads_noted_since(&self) -> Result<Option<u32>, StoreError> {
        let store = self.clone();
        run_blocking("look up since when reads are recorded", move || {
            let open = store.core.open()?;
            Ok(crate::reads::noted_since(&open))
        })
        .await
    }

    async fn delete_rows(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError> {
        let store = self.clone();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        run_blocking("delete metrics", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(delete(&store.core, &open, &names, as_of_us))
        })
        .await
    }
}
