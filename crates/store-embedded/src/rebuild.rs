//! Replaces a keyspace with damaged tables by a new one with the rows that can be read. Otherwise every start would
//! skip the damaged places again, together with newer versions of their rows, and a compaction would fail at them.

use std::path::Path;

use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode};
use plumbago_fjall_host::{damaged_in, pressure};
use plumbago_store::{ErrorKind, StoreError};

use crate::errors::{host_error, read_error, write_error};
use crate::locks::lock;
use crate::open::Open;
use crate::options;
use crate::shared::Core;

/// Key prefix of the catalogue rows that name the keyspace in use for a role.
const ROLE_PREFIX: &str = "keyspace/";
/// Number of rows that one batch copies.
const COPIED_AT_ONCE: usize = 5_000;

/// The keyspaces that are not listed in buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Names,
    NamesCopy,
    State,
    Configs,
}

impl Role {
    const ALL: [Self; 4] = [Self::Names, Self::NamesCopy, Self::State, Self::Configs];

    /// The name of the first keyspace of this role. Later ones have a number after it.
    fn name(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::NamesCopy => "names-copy",
            Self::State => "state",
            Self::Configs => "configs",
        }
    }

    /// The row of the catalogue that names the keyspace in use.
    fn row(self) -> String {
        format!("{ROLE_PREFIX}{}", self.name())
    }

    fn options(self) -> fn() -> KeyspaceCreateOptions {
        match self {
            Self::Names => options::names,
            Self::NamesCopy => options::names_copy,
            Self::State => options::state,
            Self::Configs => options::small,
        }
    }

    /// Opens the keyspace in use for this role, or creates it.
    ///
    /// # Errors
    /// `Corrupt` if the keyspace is missing although the store `has_data`.
    pub(crate) fn open(
        self,
        fjall: &fjall::Database,
        system: &Keyspace,
        has_data: bool,
    ) -> Result<Keyspace, StoreError> {
        let named = system.get(self.row()).map_err(|error| read_error("read the catalogue", error))?;
        let name = named.map(|name| String::from_utf8_lossy(&name).into_owned());
        let is_old = name.is_some() || (has_data && self != Self::NamesCopy);
        let name = name.unwrap_or_else(|| self.name().to_owned());
        if is_old && !fjall.keyspace_exists(&name) {
            let operation = format!(
                "open the store: its keyspace {name} is missing. Nothing was changed. Restore the directory from a \
                 backup"
            );
            return Err(StoreError::new(ErrorKind::Corrupt, operation));
        }
        fjall
            .keyspace(&name, self.options())
            .map_err(|error| write_error(format!("open keyspace {name}"), error))
    }

    /// Whether a keyspace of this name has, or had, one of the roles.
    pub(crate) fn had(name: &str) -> bool {
        Self::ALL.iter().any(|role| {
            let rest = name.strip_prefix(role.name());
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.').is_some_and(is_number))
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Copies the rows of `old` that can be read to a new keyspace, and makes that one the keyspace of the role.
/// The new keyspace is used after the database was reopened. The caller must prevent writes to `old`.
///
/// # Errors
/// If the database cannot be written. In that case the old keyspace stays in use.
pub(crate) fn rebuild(
    core: &Core,
    open: &Open,
    role: Role,
    old: &Keyspace,
    rows: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> bool),
) -> Result<(), StoreError> {
    let failed = |error| write_error(format!("rewrite {}", role.name()), error);
    let name = free_name(&open.fjall, role);
    let new = open.fjall.keyspace(&name, role.options()).map_err(failed)?;
    let mut copy = Copy { core, open, new: &new, batch: open.fjall.batch(), rows: 0 };
    let mut result = Ok(());
    rows(&mut |key, row| {
        result = copy.push(key, row);
        result.is_ok()
    });
    result?;
    copy.write()?;
    keep_damaged_files(&core.dir, old);
    open.system.insert(role.row(), name.as_str()).map_err(failed)?;
    core.host.sync(open, PersistMode::SyncAll).map_err(host_error)
}

struct Copy<'a> {
    core: &'a Core,
    open: &'a Open,
    new: &'a Keyspace,
    batch: fjall::OwnedWriteBatch,
    rows: usize,
}

impl Copy<'_> {
    fn push(&mut self, key: &[u8], row: &[u8]) -> Result<(), StoreError> {
        self.batch.insert(self.new, key, row);
        self.rows += 1;
        if self.rows.is_multiple_of(COPIED_AT_ONCE) { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        pressure::wait(&self.open.fjall, [self.new].into_iter()).map_err(host_error)?;
        let batch = std::mem::replace(&mut self.batch, self.open.fjall.batch());
        batch
            .durability(Some(PersistMode::Buffer))
            .commit()
            .and_then(|()| pressure::rotate_when_full(self.new, self.core.config.memtable_bytes.0))
            .map_err(|error| write_error("rewrite rows", error))
    }
}

/// Links the damaged files of a keyspace to `damaged/`, because its files are removed with it.
fn keep_damaged_files(dir: &Path, keyspace: &Keyspace) {
    let kept = dir.join("damaged");
    for file in damaged_in(keyspace.path()) {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let target = kept.join(format!("{}-{name}", keyspace.name().replace('/', "-")));
        let linked = std::fs::create_dir_all(&kept).and_then(|()| std::fs::hard_link(&file, &target));
        match linked {
            Ok(()) => tracing::warn!(
                file = %target.display(),
                "a damaged file was replaced; this copy of it is kept for inspection and may be removed"
            ),
            Err(error) => tracing::warn!(
                file = %file.display(), %error,
                "a damaged file is replaced, and no copy of it can be kept for inspection; nothing else depends on that copy"
            ),
        }
    }
}

/// Replaces the configurations by those of the second copy. Used while the database is being opened.
///
/// # Errors
/// `Corrupt` if the copy is damaged too.
pub(crate) fn rebuild_configs(
    core: &Core,
    fjall: &fjall::Database,
    system: &Keyspace,
    old: &Keyspace,
) -> Result<Keyspace, StoreError> {
    let failed = |error| write_error("rewrite the configurations", error);
    let rows = crate::second_copy::configs(&core.dir)?;
    let text =
        "it holds the configurations of metrics, which were restored from their second copy; nothing is lost";
    core.damage.found(old, 1, text);
    let name = free_name(fjall, Role::Configs);
    let new = fjall.keyspace(&name, Role::Configs.options()).map_err(failed)?;
    let mut batch = fjall.batch().durability(Some(PersistMode::SyncAll));
    rows.iter().for_each(|(key, value)| batch.insert(&new, key.as_slice(), value.as_slice()));
    batch.insert(system, Role::Configs.row(), name.as_str());
    batch.commit().map_err(failed)?;
    keep_damaged_files(&core.dir, old);
    Ok(new)
}

fn free_name(fjall: &fjall::Database, role: Role) -> String {
    let names = (1..).map(|number: u32| format!("{}.{number}", role.name()));
    names.into_iter().find(|name| !fjall.keyspace_exists(name)).unwrap_or_default()
}

/// Replaces the names if damage in them was found.
///
/// # Errors
/// If the database cannot be written.
pub(crate) fn rebuild_names(core: &Core, open: &Open) -> Result<(), StoreError> {
    let _changes = lock(&open.configs.changes);
    rebuild(core, open, Role::Names, &open.names.rows, |visit| {
        open.names.scan(&[], visit);
    })
}

/// Replaces the state rows.
///
/// # Errors
/// If the database cannot be written.
pub(crate) fn rebuild_state(core: &Core, open: &Open) -> Result<(), StoreError> {
    let _writer = lock(&open.writer);
    rebuild(core, open, Role::State, &open.state, |visit| {
        plumbago_fjall_host::scan(&open.state, &[], None, &mut |_, _| {}, &mut |key, row| visit(key, &row));
    })
}
