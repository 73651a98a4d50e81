//! The journal as its owner sees it.

use std::path::Path;
use std::sync::Arc;

use plumbago_model::Clock;
use plumbago_telemetry::Registry;

use crate::background::Background;
use crate::shared::Shared;
use crate::{Config, JournalError, JournalWriter, Record, ReplayReport, SegmentInfo};

/// The journal of one data directory. Cloning shares it; the last clone that goes syncs and ends
/// the background thread.
#[derive(Clone)]
pub struct Journal {
    // Field order: the thread ends before its database goes.
    background: Arc<Background>,
    shared: Arc<Shared>,
}

impl Journal {
    /// Opens the journal in `dir`, or creates it. A log file torn by power loss is repaired; see
    /// [`crate::repair`].
    pub fn open(
        dir: &Path,
        config: Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, JournalError> {
        let sync = config.sync;
        let shared = Arc::new(Shared::open(dir, config, clock, registry)?);
        let background = Background::start("journal", shared.clone(), sync)?;
        Ok(Self { background: Arc::new(background), shared })
    }

    /// Visits the records of all live segments by rising sequence number. Damaged frames are
    /// counted, named in the log and skipped. Call it before the first [`Journal::writer`].
    pub fn replay(&self, visit: &mut dyn FnMut(Record<'_>)) -> Result<ReplayReport, JournalError> {
        self.shared.replay(visit)
    }

    /// Makes `next_sequence` the next number that is handed out, unless that one is larger already.
    pub fn start_at(&self, next_sequence: u64) {
        self.shared.start_at(next_sequence);
    }

    /// The last sequence number that was handed out or reserved.
    pub fn sequence(&self) -> u64 {
        self.shared.last_sequence()
    }

    /// A writer, one for each shard's owner.
    pub fn writer(&self) -> JournalWriter {
        JournalWriter::new(self.shared.clone())
    }

    /// The live segments that hold frames, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.segments()
    }

    /// The segment of this moment. Never goes back, also when the clock does.
    pub fn current_segment(&self) -> u32 {
        self.shared.current_segment()
    }

    /// Drops all segments before `segment` and returns how many. The caller has made sure that all
    /// their points are in synced commits.
    pub fn drop_before(&self, segment: u32) -> Result<usize, JournalError> {
        self.shared.drop_before(segment)
    }

    /// Makes everything handed over survive power loss.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.shared.sync()
    }

    /// What the journal takes on the disk. Walks its directory, so not for every point.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes()
    }

    /// False while points are refused, and for good after a failed sync.
    pub fn healthy(&self) -> bool {
        self.shared.healthy()
    }

    /// Why points are refused, while they are.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// Syncs and lets the directory go. Writers that still exist are refused from now on.
    pub fn close(self) -> Result<(), JournalError> {
        self.background.stop();
        let result = self.shared.sync();
        self.shared.close();
        result
    }
}
