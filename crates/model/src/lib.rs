//! The vocabulary and the pure rules of Plumbago: names, points, stages, retentions, aggregation,
//! globs, storage rules and the clock.
//!
//! Must not know: tokio, files, file formats, logs. Everything here decides on values that are
//! passed in. Start at [`name`] (what a metric is called) and [`retention`] (how long it is kept).

pub mod aggregation;
pub mod batch;
pub mod clock;
pub mod codec;
pub mod glob;
pub mod name;
pub mod retention;
pub mod rules;
pub mod series;
pub mod setting;
pub mod units;

pub use aggregation::{Aggregation, Window};
pub use batch::{PointBatch, PointRef};
pub use clock::{Clock, ManualClock, SystemClock};
pub use glob::{GlobError, Pattern, has_glob};
pub use name::{MetricId, NameError, sanitize};
pub use retention::{Retention, RetentionError, Stage};
pub use rules::StorageRules;
pub use series::Series;
pub use units::{ByteSize, Period};

/// How a metric is kept: its stages, how points fold into the coarser ones, and how many known
/// slots a coarse window needs before reads show it.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricConfig {
    /// The stages, finest first.
    pub retention: Retention,
    /// How stage-0 slots fold into coarser windows.
    pub aggregation: Aggregation,
    /// Whisper's xFilesFactor, 0…1, applied when a coarse window is read.
    pub x_files_factor: f64,
}

/// A text that is equal for equal configurations; used to intern them.
impl MetricConfig {
    /// `retention aggregation factor`, e.g. `60s:7d,900s:730d average 0.5`.
    pub fn to_text(&self) -> String {
        format!("{} {} {}", self.retention, self.aggregation, self.x_files_factor)
    }

    /// Reads what [`MetricConfig::to_text`] wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let retention = Retention::from_text(parts.next()?).ok()?;
        let aggregation = parts.next()?.parse().ok()?;
        let x_files_factor = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { retention, aggregation, x_files_factor })
    }
}
