//! Measures how much is stored, in rows, points and bytes.

use plumbago_model::Stage;
use plumbago_store::StoreError;

use crate::EmbeddedStore;
use crate::catalogue::{Kind, Layer, StageBuckets, StageKey};
use crate::locks::read;
use crate::row::{Block, parse_key};

/// The amount of stored data.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Usage {
    /// The usage of each stage in each role, raw stages first.
    pub stages: Vec<StageUsage>,
    /// Size of the tables of state rows, in bytes.
    pub state_bytes: u64,
    /// Size of the tables of names, in bytes.
    pub metadata_bytes: u64,
    /// Size of fjall's write-ahead logs, in bytes.
    pub log_bytes: u64,
}

/// The amount of stored data of a stage in one role.
#[derive(Debug, Clone, PartialEq)]
pub struct StageUsage {
    /// The stage; metrics with the same stage share its tables.
    pub stage: Stage,
    /// Whether the stage is coarse (windows); false for raw points.
    pub coarse: bool,
    /// The number of time buckets.
    pub buckets: u64,
    /// Number of rows with blocks as they were flushed.
    pub fresh_rows: u64,
    /// Number of known slots in the fresh rows.
    pub fresh_points: u64,
    /// Size of the tables of fresh rows, in bytes. Rows in memory are not counted.
    pub fresh_bytes: u64,
    /// Number of rows with long blocks.
    pub merged_rows: u64,
    /// Number of known slots in the merged rows.
    pub merged_points: u64,
    /// Size of the tables of merged rows, in bytes.
    pub merged_bytes: u64,
}

impl StageUsage {
    /// Size of the tables per known slot, in bytes.
    pub fn bytes_per_point(&self) -> f64 {
        (self.fresh_bytes + self.merged_bytes) as f64 / (self.fresh_points + self.merged_points).max(1) as f64
    }
}

/// The amount of stored data according to the metadata of the tables, without reading a row.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct TableUsage {
    /// The tables of each stage in each role, raw stages first.
    pub stages: Vec<StageTables>,
    /// Size of the tables of state rows, in bytes.
    pub state_bytes: u64,
    /// Size of the tables of names, in bytes.
    pub metadata_bytes: u64,
    /// Size of fjall's write-ahead logs, in bytes. The logs contain the rows that are in no table yet.
    pub log_bytes: u64,
}

/// The amount of data in the tables of a stage in one role.
#[derive(Debug, Clone, PartialEq)]
pub struct StageTables {
    /// The stage; metrics with the same stage share its tables.
    pub stage: Stage,
    /// Whether the stage is coarse (windows); false for raw points.
    pub coarse: bool,
    /// The number of time buckets.
    pub buckets: u64,
    /// The start of the oldest bucket, in seconds since the epoch.
    pub since: u64,
    /// Number of rows with blocks as they were flushed, including rows in memory. A row that was replaced
    /// counts twice until fjall has compacted its tables.
    pub fresh_rows: u64,
    /// Number of rows with long blocks, counted in the same way.
    pub merged_rows: u64,
    /// Size of all these tables on the disk, in bytes.
    pub bytes: u64,
}

impl EmbeddedStore {
    /// Returns the amount of stored data according to the metadata of the tables; `None` while the database
    /// is closed. Reads no row, but lists the files of the logs, so it may block for a moment.
    pub fn table_usage(&self) -> Option<TableUsage> {
        // If the database has to be reopened, this call does not do so, because statistics are not worth the
        // wait.
        let open = self.core.host.get().ok()?;
        let mut stages: Vec<_> = read(&open.catalogue).stages.values().cloned().collect();
        stages.retain(|stage| !stage.buckets.is_empty());
        stages.sort_by_key(|stage| (stage.key.coarse, stage.key.stage));
        Some(TableUsage {
            stages: stages.iter().map(|stage| StageTables::of(stage)).collect(),
            state_bytes: open.state.disk_space(),
            metadata_bytes: open.names.rows.disk_space() + open.names.copy.disk_space(),
            log_bytes: open.fjall.journal_disk_space().unwrap_or(0),
        })
    }

    /// Counts the stored data. Reads every row, and blocks meanwhile.
    ///
    /// # Errors
    /// `Closed`, or `Unavailable` while the database is being reopened.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        let open = self.core.open()?;
        let mut stages: Vec<_> = read(&open.catalogue).stages.values().cloned().collect();
        stages.sort_by_key(|stage| (stage.key.coarse, stage.key.stage));
        let mut usage = Usage {
            stages: Vec::new(),
            state_bytes: open.state.disk_space(),
            metadata_bytes: open.names.rows.disk_space() + open.names.copy.disk_space(),
            log_bytes: open.fjall.journal_disk_space().unwrap_or(0),
        };
        for stage in stages {
            let mut of_stage = StageUsage::new(stage.key.stage, stage.key.coarse);
            of_stage.buckets = stage.buckets.len() as u64;
            stage.buckets.values().flat_map(|bucket| &bucket.layers).for_each(|layer| of_stage.add(layer));
            usage.stages.push(of_stage);
        }
        Ok(usage)
    }
}

impl StageTables {
    fn of(stage: &StageBuckets) -> Self {
        let StageKey { stage: of, coarse } = stage.key;
        let oldest = stage.buckets.keys().next().map_or(0, |number| stage.start_of(*number));
        let (mut fresh_rows, mut merged_rows, mut bytes) = (0, 0, 0);
        for layer in stage.buckets.values().flat_map(|bucket| &bucket.layers) {
            let rows = layer.keyspace.approximate_len() as u64;
            bytes += layer.keyspace.disk_space();
            match layer.kind {
                Kind::Fresh { .. } => fresh_rows += rows,
                Kind::Merged { .. } => merged_rows += rows,
            }
        }
        let buckets = stage.buckets.len() as u64;
        let since = u64::from(oldest) * u64::from(of.resolution);
        Self { stage: of, coarse, buckets, since, fresh_rows, merged_rows, bytes }
    }
}

impl StageUsage {
    fn new(stage: Stage, coarse: bool) -> Self {
        Self {
            stage,
            coarse,
            buckets: 0,
            fresh_rows: 0,
            fresh_points: 0,
            fresh_bytes: 0,
            merged_rows: 0,
            merged_points: 0,
            merged_bytes: 0,
        }
    }

    fn add(&mut self, layer: &Layer) {
        let (mut rows, mut points) = (0, 0);
        let mut block = Block::default();
        for row in layer.keyspace.iter() {
            let Ok((key, row)) = row.into_inner() else { break };
            if parse_key(&key).is_some()
                && block.decode(&key, &row, layer.block_slots() as usize, layer.coarse).is_ok()
            {
                rows += 1;
                points += block.values.iter().filter(|v| !v.is_nan()).count() as u64;
            }
        }
        let bytes = layer.keyspace.disk_space();
        match layer.kind {
            Kind::Fresh { .. } => {
                self.fresh_rows += rows;
                self.fresh_points += points;
                self.fresh_bytes += bytes;
            }
            Kind::Merged { .. } => {
                self.merged_rows += rows;
                self.merged_points += points;
                self.merged_bytes += bytes;
            }
        }
    }
}
