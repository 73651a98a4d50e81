//! Settings of the engine.

use std::time::Duration;

use plumbago_model::units::{ByteSize, Period};
use serde::Deserialize;

/// How the engine holds and flushes points.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Owner threads, each with its share of the metrics; 0 chooses half of the processors.
    pub shards: usize,
    /// A metric whose oldest unflushed point is older than this gets a state row, so that the journal
    /// need not keep it.
    pub checkpoint_after: Period,
    /// A metric without points for this long is flushed whole.
    pub idle_after: Period,
    /// Points further ahead of now than this are rejected.
    pub future_max: Period,
    /// New metrics a minute; 0 for no limit.
    pub max_creates_per_minute: u64,
    /// Memory that the process may take before new metrics are refused and reading pauses;
    /// 0 chooses half of the machine's.
    pub memory_max: ByteSize,
    /// How often finished rows go to a remote store; the embedded store is flushed by block.
    pub flush_interval: Period,
    /// Windows that are still open go to a remote store as well, at every flush, for programs that
    /// read its tables and know nothing of heads.
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
