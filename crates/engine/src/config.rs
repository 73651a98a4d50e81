//! Settings of the engine.

use std::time::Duration;

use plumbago_model::units::{ByteSize, Period};
use serde::Deserialize;

/// The maximum number of shards. Each shard has its own thread and queues.
const SHARDS_MAX: usize = 1024;

/// Settings of the engine: section `[engine]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Number of shards, each with a worker thread and its part of the metrics. 0 means half of the
    /// processors.
    pub shards: usize,
    /// A metric whose oldest unflushed point is older than this gets a state row, so that the journal can drop
    /// the point.
    pub checkpoint_after: Period,
    /// A clean stop with at least this many metrics leaves a checkpoint for the next start and keeps the
    /// points in the journal. With fewer metrics, it stores everything that is in memory. Embedded store
    /// only.
    pub checkpoint_min_metrics: u64,
    /// A metric without new points for this long is flushed whole.
    pub idle_after: Period,
    /// Points further ahead of now than this are rejected.
    pub future_max: Period,
    /// Largest number of new metrics per minute. reload: yes
    pub max_creates_per_minute: CreateLimit,
    /// Memory that the process may take; 0 for no limit. Near this limit new metrics are refused, and reading
    /// pauses while the queues take more memory than is left.
    pub memory_max: ByteSize,
    /// How often finished rows are flushed for a remote store. The embedded store is flushed by block.
    pub flush_interval: Period,
    /// Write open windows to a remote store at every flush, for programs that read its tables directly.
    pub emit_open_windows: bool,
}

impl Config {
    /// Checks the section. Returns one text of the form `key: message` per problem.
    pub fn problems(&self) -> Vec<String> {
        let shards = self.shards;
        let message = format!(
            "engine.shards: {shards} threads are too many: set at most {SHARDS_MAX}, or 0 for half of the processors"
        );
        (shards > SHARDS_MAX).then_some(message).into_iter().collect()
    }
}

/// How many metrics may be created in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Text")]
pub enum CreateLimit {
    /// No metrics: points of new metrics are refused.
    None,
    /// At most this many; 0 for no limit.
    PerMinute(u64),
}

/// A [`CreateLimit`] as it is written in the configuration.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Number(i64),
    Word(String),
}

impl TryFrom<Text> for CreateLimit {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        match text {
            Text::Number(number) => match u64::try_from(number) {
                Ok(number) => Ok(Self::PerMinute(number)),
                Err(_) => Err(format!("must be a whole number of 0 or more, not {number}")),
            },
            Text::Word(word) if word == "none" => Ok(Self::None),
            Text::Word(word) => Err(format!("must be a whole number or \"none\", not {word:?}")),
        }
    }
}

impl CreateLimit {
    /// New metrics are created without a limit.
    pub const UNLIMITED: Self = Self::PerMinute(0);

    /// The number of tokens for one minute.
    pub(crate) fn tokens(self) -> u64 {
        match self {
            Self::None => 0,
            Self::PerMinute(number) => number,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let period = |seconds| Period(Duration::from_secs(seconds));
        Self {
            shards: 0,
            checkpoint_after: period(45 * 60),
            checkpoint_min_metrics: 100_000,
            idle_after: period(2 * 3600),
            future_max: period(86_400),
            max_creates_per_minute: CreateLimit::UNLIMITED,
            memory_max: ByteSize(0),
            flush_interval: period(60),
            emit_open_windows: false,
        }
    }
}
