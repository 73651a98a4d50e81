//! What is drawn, and how it wants to be drawn.

use std::fmt;
use std::sync::Arc;

/// A series.
#[derive(Debug, Clone)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Time of the first value, in seconds since the epoch.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// Seconds between two values.
    pub step: i64,
    /// The values; NaN is unknown.
    pub values: Arc<Vec<f64>>,
    /// How values fold where several of them share a pixel.
    pub fold: Fold,
    /// How it wants to be drawn.
    pub options: DrawOptions,
}

/// Makes one value of up to so many values.
#[derive(Clone)]
pub struct Fold(Arc<Folding>);

type Folding = dyn Fn(&[f64], usize) -> f64 + Send + Sync;

impl Fold {
    /// By a function of a group's values and of how many there could have been.
    pub fn new(fold: impl Fn(&[f64], usize) -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(fold))
    }

    /// The mean of the known values.
    pub fn mean() -> Self {
        Self::new(|values, _| {
            let known = || values.iter().filter(|value| !value.is_nan());
            known().sum::<f64>() / known().count() as f64
        })
    }

    pub(crate) fn fold(&self, values: &[f64], group: usize) -> f64 {
        (self.0)(values, group)
    }
}

impl fmt::Debug for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fold")
    }
}

/// What functions of the target language say about drawing a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawOptions {
    /// A colour of its own, as it was written.
    pub color: Option<String>,
    /// Opacity.
    pub alpha: Option<f64>,
    /// Width of the line in pixels.
    pub line_width: Option<f64>,
    /// Length of a dash in pixels.
    pub dashed: Option<f64>,
    /// By the axis on the right.
    pub second_y_axis: bool,
    /// As an area, over what is stacked before it.
    pub stacked: bool,
    /// An area that is left out of the next ones, and not painted.
    pub invisible: bool,
    /// Values above zero are lines from the bottom to the top.
    pub draw_as_infinite: bool,
}
