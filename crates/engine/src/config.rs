//! Settings of the engine.

use std::time::Duration;

use plumbago_model::units::{ByteSize, Period};
use serde::Deserialize;

/// Settings of the engine: section `[engine]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Number of shards, each with a worker thread and its part of the metrics. 0 stands for half of the
    /// processors.
    pub shards: usize,
    /// A metric whose oldest unflushed point is older than this gets a state row, so that the journal can drop
    /// the point.
    pub checkpoint_after: Period,
    /// A metric without new points for this long is flushed whole.
    pub idle_after: Period,
    /// Points further ahead of now than this are rejected.
    pub future_max: Period,
    /// New metrics per minute; 0 for no limit.
    pub max_creates_per_minute: u64,
    /// Memory that the process may take; 0 for no limit. Near it new metrics are refused, and reading pauses
    /// while queues take more than there is.
    pub memory_max: ByteSize,
    /// How often finished rows are flushed for a remote store. The embedded store is flushed by block.
    pub flush_interval: Period,
    /// Write open windows to a remote store at every flush, for programs that read its tables directly.
    pub emit_open_windows: bool,
}

impl Default for Config {
    fn default() -> Self {
        let period = |seconds| Period(Duration::from_secs(seconds));
        Self {
            shards: 0,
            checkpoint_after: period(45 * 60),
            idle_after: period(2 * 3600),
            future_max: period(86_400),
            max_creates_per_minute: 0,
            memory_max: ByteSize(0),
            flush_interval: period(60),
            emit_open_windows: false,
        }
    }
}
