//! The vocabulary and the pure rules of Plumbago: names, points, stages, retentions, aggregation, globs,
//! storage rules and the clock.
//!
//! Must not know: tokio, files, file formats, logs. Start at [`name`] (names of metrics) and [`retention`] (how
//! long points are kept).

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
pub mod tags;
pub mod units;

pub use aggregation::{Aggregation, Window};
pub use batch::{PointBatch, PointRef};
pub use clock::{Clock, ManualClock, SystemClock};
pub use glob::{GlobError, Pattern, escaped, has_glob};
pub use name::{MetricId, NameError, sanitize};
pub use retention::{Retention, RetentionError, Stage};
pub use rules::StorageRules;
pub use series::Series;
pub use units::{ByteSize, Period};

/// How a metric is stored: its stages, its aggregation method, and how many slots of a coarse window must be
/// known.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricConfig {
    /// The stages, the finest first.
    pub retention: Retention,
    /// How slots fold into the windows of coarser stages.
    pub aggregation: Aggregation,
    /// Whisper's xFilesFactor: the share of slots, from 0 to 1, that must be known in a coarse window. It is
    /// applied when the window is read.
    pub x_files_factor: f64,
}

impl MetricConfig {
    /// Why the points of a metric with the settings `other` cannot be stored in the stages of these settings;
    /// `None` if they can.
    pub fn refuses_points_of(&self, other: &Self) -> Option<String> {
        let (raw, known) = (self.retention.finest().resolution, other.retention.finest().resolution);
        if raw != known {
            return Some(format!("the resolution of the raw stage would change from {known}s to {raw}s"));
        }
        let has_windows = other.retention.stages().len() > 1;
        let (method, made_by) = (self.aggregation, other.aggregation);
        (has_windows && !method.reads_windows_of(made_by)).then(|| {
            format!("its stored windows were made by {made_by}, and {method} would read them wrongly")
        })
    }

    /// Whether a metric that was stored with `other` may get these settings without changing the stored
    /// values. Requires the same stages, and windows with the same meaning, if there are any.
    pub fn reads_what_was_stored_with(&self, other: &Self) -> bool {
        let has_windows = self.retention.stages().len() > 1;
        self.retention == other.retention
            && (!has_windows || self.aggregation.reads_windows_of(other.aggregation))
    }
}

/// Equal settings have the same text, by which they are interned.
impl MetricConfig {
    /// The settings as text: retention, aggregation and factor, as in `60s:7d,900s:730d average 0.5`.
    pub fn to_text(&self) -> String {
        format!("{} {} {}", self.retention, self.aggregation, self.x_files_factor)
    }

    /// Parses a text of [`MetricConfig::to_text`]. `None` if it is not one.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let retention = Retention::from_text(parts.next()?).ok()?;
        let aggregation = parts.next()?.parse().ok()?;
        let x_files_factor = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { retention, aggregation, x_files_factor })
    }
}
