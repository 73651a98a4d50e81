//! Helpers shared by the journal's tests.

use std::path::Path;
use std::sync::Arc;

use plumbago_journal::{Config, Journal, JournalError, Record, ReplayReport};
use plumbago_model::{Clock, ManualClock};
use plumbago_telemetry::Registry;

/// An owned record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// Sequence number, metric, timestamp, value.
    Point(u64, u32, u32, f64),
    /// Sequence number, metric, name.
    Creation(u64, u32, String),
    /// Sequence number, metric.
    Removal(u64, u32),
}

impl Seen {
    /// The record's sequence number.
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Self::Point(sequence, ..) | Self::Creation(sequence, ..) | Self::Removal(sequence, _) => {
                *sequence
            }
        }
    }
}

/// A directory and a clock, in which a test opens one journal after another.
pub(crate) struct Fixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) registry: Registry,
}

impl Fixture {
    /// An empty directory, and a clock at the start of a segment.
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(1_700_000_100)),
            registry: Registry::new(),
        }
    }

    /// Opens the journal as a new process would, with new counters.
    pub(crate) fn try_open(&mut self) -> Result<Journal, JournalError> {
        self.registry = Registry::new();
        open(self.dir.path(), Config::default(), self.clock.clone(), &self.registry)
    }

    /// Opens the journal. Panics if that fails.
    pub(crate) fn open(&mut self) -> Journal {
        self.try_open().unwrap()
    }

    /// The value of a self-metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.registry.value(name).unwrap()
    }
}

pub(crate) fn open(
    dir: &Path,
    config: Config,
    clock: Arc<dyn Clock>,
    registry: &Registry,
) -> Result<Journal, JournalError> {
    Journal::open(dir, config, clock, registry)
}

/// Replays the journal and checks that sequence numbers increase.
pub(crate) fn replay(journal: &Journal) -> (Vec<Seen>, ReplayReport) {
    let mut seen = Vec::new();
    let report = journal
        .replay(&mut |record| {
            seen.push(match record {
                Record::Point { sequence, metric, timestamp, value } => {
                    Seen::Point(sequence, metric, timestamp, value)
                }
                Record::Creation { sequence, metric, name } => {
                    Seen::Creation(sequence, metric, name.to_owned())
                }
                Record::Removal { sequence, metric } => Seen::Removal(sequence, metric),
            });
        })
        .unwrap();
    assert_eq!((report.points + report.events) as usize, seen.len());
    assert!(seen.windows(2).all(|pair| pair[0].sequence() < pair[1].sequence()), "numbers must rise");
    (seen, report)
}

/// Replays a journal that must have no damage.
pub(crate) fn replay_all(journal: &Journal) -> Vec<Seen> {
    let (seen, report) = replay(journal);
    assert_eq!(report.corrupt_frames, 0);
    seen
}
