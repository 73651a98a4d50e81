//! The texts of the statements that read and write data. All values are bound; the texts contain only the
//! names of keyspaces, tables and columns.

use crate::layout::Table;
use crate::schema::ddl::quoted;
use crate::schema::{CHANGES, DIRECTORIES, LEASES, METADATA, METRICS, TAGS, WRITERS};

fn table(keyspace: &str, name: &str) -> String {
    format!("{}.{}", quoted(keyspace), quoted(name))
}

/// Statements on one table for points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Points {
    /// Writes a row with the table's TTL.
    pub insert: String,
    /// Writes a row with its own TTL, for late points.
    pub insert_late: String,
    /// Reads a range of offsets in one partition.
    pub select: String,
    /// The same, with the time at which each row was written.
    pub select_timed: String,
    /// Finds out whether a partition has a row.
    pub any: String,
    /// Deletes a whole partition.
    pub delete: String,
    /// Finds out whether a range of offsets in a partition has a row.
    pub any_in: String,
    /// Deletes a range of offsets in a partition.
    pub delete_in: String,
    /// Finds out which of many partitions have a row.
    pub occupied: String,
}

impl Points {
    /// The statements of a table.
    pub fn new(keyspace: &str, of: Table) -> Self {
        let table = table(keyspace, &of.name());
        let (columns, marks) = if of.coarse {
            ("metric, time_start_ms, offset, shard, value, count", "?, ?, ?, ?, ?, ?")
        } else {
            ("metric, time_start_ms, offset, value", "?, ?, ?, ?")
        };
        let insert = format!("INSERT INTO {table} ({columns}) VALUES ({marks})");
        let part = "WHERE metric = ? AND time_start_ms = ? AND offset >= ? AND offset < ?";
        let wanted = if of.coarse { "offset, shard, count, value" } else { "offset, value" };
        Self {
            insert_late: format!("{insert} USING TTL ?"),
            insert,
            select: format!("SELECT {wanted} FROM {table} {part}"),
            select_timed: format!("SELECT {wanted}, WRITETIME(value) FROM {table} {part}"),
            any: format!("SELECT offset FROM {table} WHERE metric = ? AND time_start_ms = ? LIMIT 1"),
            delete: format!("DELETE FROM {table} WHERE metric = ? AND time_start_ms = ?"),
            any_in: format!("SELECT offset FROM {table} {part} LIMIT 1"),
            delete_in: format!("DELETE FROM {table} {part}"),
            occupied: format!(
                "SELECT time_start_ms FROM {table} WHERE metric = ? AND time_start_ms IN ? PER PARTITION LIMIT 1"
            ),
        }
    }
}

/// Statements on the tables for names.
#[derive(Debug, Clone)]
pub struct Names {
    keyspace: String,
    metadata: String,
}

impl Names {
    /// The statements on the tables in `keyspace`.
    pub fn new(keyspace: &str) -> Self {
        Self { keyspace: keyspace.to_owned(), metadata: table(keyspace, METADATA) }
    }

    /// Writes a metric or directory whose name has this many components. Columns after the end mark are not
    /// in the statement: a null value would leave a tombstone.
    pub fn insert_tree(&self, directories: bool, components: usize) -> String {
        let name = if directories { DIRECTORIES } else { METRICS };
        let columns: String = (0..=components).map(|n| format!(", component_{n}")).collect();
        let marks = ", ?".repeat(components + 1);
        format!("INSERT INTO {} (name, parent{columns}) VALUES (?, ?{marks})", table(&self.keyspace, name))
    }

    /// Writes the metadata of a new metric.
    pub fn insert_metadata(&self) -> String {
        format!(
            "INSERT INTO {} (name, created_on, updated_on, id, config) VALUES (?, ?, now(), ?, ?)",
            self.metadata
        )
    }

    /// Changes the settings of an existing metric.
    pub fn update_metadata(&self) -> String {
        format!("UPDATE {} SET updated_on = now(), id = ?, config = ? WHERE name = ?", self.metadata)
    }

    /// Sets the time of a metric's last write.
    pub fn touch(&self) -> String {
        format!("UPDATE {} SET updated_on = now() WHERE name = ?", self.metadata)
    }

    /// Sets the time of a metric's last read.
    pub fn note_read(&self) -> String {
        format!("UPDATE {} SET read_on = now() WHERE name = ?", self.metadata)
    }

    /// Reads the metadata of a metric.
    pub fn get(&self) -> String {
        format!("SELECT id, config, created_on, updated_on, read_on FROM {} WHERE name = ?", self.metadata)
    }

    /// Finds out whether a directory exists.
    pub fn get_directory(&self) -> String {
        format!("SELECT name FROM {} WHERE name = ?", table(&self.keyspace, DIRECTORIES))
    }

    /// Reads the metadata of all metrics in a part of the token ring, with tokens, up to a limit.
    pub fn scan_rows(&self) -> String {
        format!(
            "SELECT token(name), name, id, config, created_on, updated_on, read_on FROM {} \
             WHERE token(name) >= ? AND token(name) <= ? LIMIT ?",
            self.metadata
        )
    }

    /// Reads the names of all metrics or directories in a part of the token ring, with tokens, up to a limit.
    pub fn scan_tree(&self, directories: bool) -> String {
        let name = if directories { DIRECTORIES } else { METRICS };
        format!(
            "SELECT token(name), name FROM {} WHERE token(name) >= ? AND token(name) <= ? LIMIT ?",
            table(&self.keyspace, name)
        )
    }

    /// Finds out whether a metric is in the table of metrics.
    pub fn get_listed(&self) -> String {
        format!("SELECT name FROM {} WHERE name = ?", table(&self.keyspace, METRICS))
    }

    /// Finds one metric below a path.
    pub fn any_below(&self) -> String {
        format!("SELECT name FROM {} WHERE parent LIKE ? LIMIT 1", table(&self.keyspace, METRICS))
    }

    /// Reads the metadata of all metrics in a part of the token ring.
    pub fn scan(&self) -> String {
        format!(
            "SELECT name, id, config, created_on FROM {} WHERE token(name) >= ? AND token(name) <= ?",
            self.metadata
        )
    }

    /// Deletes a row by name from `metrics`, `directories` or `metrics_metadata`.
    pub fn delete(&self, from: &str) -> String {
        format!("DELETE FROM {} WHERE name = ?", table(&self.keyspace, from))
    }

    /// Adds a row to the change feed.
    pub fn insert_change(&self) -> String {
        format!(
            "INSERT INTO {} (bucket, at, deleted, names, origin) VALUES (?, now(), ?, ?, ?)",
            table(&self.keyspace, CHANGES)
        )
    }

    /// Reads the changes of a bucket that are later than a given time.
    pub fn changes(&self) -> String {
        format!(
            "SELECT at, deleted, names, origin FROM {} WHERE bucket = ? AND at > ?",
            table(&self.keyspace, CHANGES)
        )
    }

    /// Reads which rows of a bucket of the change feed are later than a given time, without their names.
    pub fn change_ids(&self) -> String {
        format!("SELECT at FROM {} WHERE bucket = ? AND at > ?", table(&self.keyspace, CHANGES))
    }

    /// Reads one row of the change feed.
    pub fn change(&self) -> String {
        format!(
            "SELECT at, deleted, names, origin FROM {} WHERE bucket = ? AND at = ?",
            table(&self.keyspace, CHANGES)
        )
    }

    /// Marks a series as hidden.
    pub fn insert_mark(&self) -> String {
        format!("INSERT INTO {} (tag, value, name, id) VALUES (?, ?, ?, ?)", table(&self.keyspace, TAGS))
    }

    /// Reads the hidden series.
    pub fn marks(&self) -> String {
        format!("SELECT name, id FROM {} WHERE tag = ? AND value = ?", table(&self.keyspace, TAGS))
    }

    /// Removes the mark of a hidden series.
    pub fn delete_mark(&self) -> String {
        format!("DELETE FROM {} WHERE tag = ? AND value = ? AND name = ?", table(&self.keyspace, TAGS))
    }

    /// Takes a lease. Only the statements on leases are lightweight transactions.
    pub fn take_lease(&self) -> String {
        format!(
            "INSERT INTO {} (name, holder, host) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?",
            table(&self.keyspace, LEASES)
        )
    }

    /// Renews a lease, if the caller still holds it.
    pub fn renew_lease(&self) -> String {
        format!(
            "UPDATE {} USING TTL ? SET holder = ?, host = ? WHERE name = ? IF holder = ?",
            table(&self.keyspace, LEASES)
        )
    }

    /// Releases a lease, if the caller still holds it.
    pub fn release_lease(&self) -> String {
        format!("DELETE FROM {} WHERE name = ? IF holder = ?", table(&self.keyspace, LEASES))
    }

    /// Reads which instances have registered a range of writer ids of a replica, with the time of each
    /// registration and the server's current time.
    pub fn writers(&self) -> String {
        format!(
            "SELECT writer, instance, toUnixTimestamp(since), toUnixTimestamp(now()) FROM {} \
             WHERE replica = ? AND writer >= ? AND writer <= ?",
            table(&self.keyspace, WRITERS)
        )
    }

    /// Registers a writer id for an instance.
    pub fn insert_writer(&self) -> String {
        format!(
            "INSERT INTO {} (replica, writer, instance, host, since) VALUES (?, ?, ?, ?, now())",
            table(&self.keyspace, WRITERS)
        )
    }

    /// All statements, for tests that check their texts.
    pub fn all(&self) -> Vec<String> {
        let mut all = vec![
            self.insert_metadata(),
            self.update_metadata(),
            self.touch(),
            self.note_read(),
            self.get(),
            self.get_directory(),
            self.scan(),
            self.scan_rows(),
            self.scan_tree(false),
            self.scan_tree(true),
            self.get_listed(),
            self.any_below(),
            self.insert_change(),
            self.changes(),
            self.change_ids(),
            self.change(),
            self.insert_mark(),
            self.delete_mark(),
            self.marks(),
            self.take_lease(),
            self.renew_lease(),
            self.release_lease(),
            self.writers(),
            self.insert_writer(),
        ];
        all.extend([METRICS, DIRECTORIES, METADATA].map(|from| self.delete(from)));
        all.extend((1..64).map(|n| self.insert_tree(n % 2 == 0, n)));
        all
    }
}
