//! The series that are drawn, with their drawing options.

use std::fmt;
use std::sync::Arc;

/// A series to draw.
#[derive(Debug, Clone)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Time of the first value, in seconds since the epoch.
    pub start: i64,
    /// End of the series (exclusive), in seconds since the epoch.
    pub end: i64,
    /// Seconds between two values.
    pub step: i64,
    /// One value per step; NaN if unknown.
    pub values: Arc<Vec<f64>>,
    /// How values are combined if several of them share a pixel.
    pub fold: Fold,
    /// The drawing options of the target language.
    pub options: DrawOptions,
}

/// Combines several values into one.
#[derive(Clone)]
pub struct Fold(Arc<Folding>);

type Folding = dyn Fn(&[f64], usize) -> f64 + Send + Sync;

impl Fold {
    /// Makes a fold from a function. Its arguments are the values of a group and the size of a full group.
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

/// Drawing options of a series that functions of the target language set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawOptions {
    /// `color()`: the colour as text.
    pub color: Option<String>,
    /// `alpha()`: opacity from 0 to 1.
    pub alpha: Option<f64>,
    /// `lineWidth()`: width of the line in pixels.
    pub line_width: Option<f64>,
    /// `dashed()`: length of a dash in pixels.
    pub dashed: Option<f64>,
    /// `secondYAxis()`: use the axis on the right.
    pub second_y_axis: bool,
    /// `stacked()`: draw an area on top of the stacked series before it.
    pub stacked: bool,
    /// `areaBetween()`: do not paint this area, and cut it out of the others.
    pub invisible: bool,
    /// `drawAsInfinite()`: draw values above zero as lines from the bottom to the top.
    pub draw_as_infinite: bool,
}
