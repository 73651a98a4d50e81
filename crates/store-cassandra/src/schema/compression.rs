//! How the server compresses the files of the tables for points.

use std::collections::HashMap;
use std::str::FromStr;

use super::ddl::{Engine, Server, quoted};
use super::{LiveSchema, Purpose, Schema};

/// A compressor of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// The default of every server: fast, but larger files.
    Lz4,
    /// Smaller files at the cost of more processor time. Available in Cassandra since 4.0.
    Zstd,
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            _ => Err(format!("{text:?} is neither lz4 nor zstd")),
        }
    }
}

impl Compression {
    /// The reason why a server does not support this compressor; `None` if it does.
    pub fn problem(self, server: Server) -> Option<String> {
        match (server.engine, self) {
            (Engine::Scylla, _) => {
                Some("ScyllaDB names compressors in another way: set them with cqlsh".to_owned())
            }
            (Engine::Cassandra, Self::Zstd) if server.version < (4, 0) => {
                let (major, minor) = server.version;
                Some(format!("Cassandra {major}.{minor} has no Zstd compressor; 4.0 is the first with one"))
            }
            _ => None,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4Compressor",
            Self::Zstd => "ZstdCompressor",
        }
    }

    pub(super) fn option(self) -> String {
        format!("compression = {{'class': '{}'}}", self.class())
    }

    fn is_of(self, options: &HashMap<String, String>) -> bool {
        options.get("class").and_then(|class| class.rsplit('.').next()) == Some(self.class())
    }
}

impl Schema {
    /// Sets the compression of the tables for points.
    pub(crate) fn compress(&mut self, compression: Compression) {
        for table in self.tables.iter_mut().filter(|table| matches!(table.purpose, Purpose::Points(_))) {
            table.options.compression = Some(compression);
        }
    }

    /// The statements that give existing tables the compression of this schema.
    pub(crate) fn compression_changes(&self, live: &LiveSchema) -> Vec<String> {
        let differs = |table: &&super::TableDef| {
            let there = live.table(&table.keyspace, &table.name);
            table
                .options
                .compression
                .zip(there)
                .is_some_and(|(wanted, there)| !wanted.is_of(&there.compression))
        };
        let change = |table: &super::TableDef| {
            let compression = table.options.compression?;
            let name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
            Some(format!("ALTER TABLE {name} WITH {}", compression.option()))
        };
        self.tables.iter().filter(differs).filter_map(change).collect()
    }
}
