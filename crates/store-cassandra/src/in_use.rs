//! Which tables for points this process uses, without a request to the servers.

use std::collections::HashMap;

use plumbago_model::Retention;
use plumbago_store::StoreError;

use crate::layout::Table;
use crate::schema;
use crate::store::CassandraStore;

/// A table for points, and what this process knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInUse {
    /// Which table it is.
    pub table: Table,
    /// Whether this process has written or read the table since its start.
    pub is_used: bool,
    /// The reason why the table cannot be used; `None` if no problem is known.
    pub trouble: Option<String>,
}

impl CassandraStore {
    /// The keyspace with the tables for points.
    pub fn keyspace(&self) -> &str {
        &self.config.keyspace
    }

    /// Returns whether both stores use the same tables for points: their keyspaces have the same name, and
    /// their clusters have a node in common.
    ///
    /// # Errors
    /// `Unavailable` if one of them is not connected.
    pub fn shares_tables_with(&self, other: &Self) -> Result<bool, StoreError> {
        if self.keyspace() != other.keyspace() {
            return Ok(false);
        }
        let (own, others) = (self.clusters.points.node_ids()?, other.clusters.points.node_ids()?);
        Ok(own.iter().any(|node| others.contains(node)))
    }

    /// Returns the tables that metrics of these retentions need, and all others that were used since the
    /// start. Sends no request.
    pub fn tables_in_use<'a>(&self, retentions: impl IntoIterator<Item = &'a Retention>) -> Vec<TableInUse> {
        let mut tables = schema::tables_of(retentions);
        let used = self.tables.used();
        let mut troubles: HashMap<Table, String> = self.tables.refused().into_iter().collect();
        tables.extend(used.iter().copied());
        tables.extend(troubles.keys().copied());
        let in_use = |table: Table| TableInUse {
            table,
            is_used: used.contains(&table),
            trouble: troubles.remove(&table),
        };
        tables.into_iter().map(in_use).collect()
    }
}
