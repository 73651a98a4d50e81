//! A series on its way through an evaluation.

use std::sync::Arc;

use plumbago_model::Series;

use crate::tags::Tags;

/// How values fold when a series is read coarser than it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// Mean of the known values.
    #[default]
    Average,
    /// Mean, unknown values counted as zero.
    AvgZero,
    /// Sum of the known values.
    Sum,
    /// Largest known value.
    Max,
    /// Smallest known value.
    Min,
    /// First known value.
    First,
    /// Last known value.
    Last,
}

impl Consolidation {
    /// The consolidation that Graphite calls so.
    pub fn named(name: &str) -> Option<Self> {
        const ALL: [Consolidation; 7] = [
            Consolidation::Average,
            Consolidation::AvgZero,
            Consolidation::Sum,
            Consolidation::Max,
            Consolidation::Min,
            Consolidation::First,
            Consolidation::Last,
        ];
        let name = if name == "avg" { "average" } else { name };
        ALL.into_iter().find(|consolidation| consolidation.name() == name)
    }

    /// Graphite's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::AvgZero => "avg_zero",
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// A series with what Graphite's functions carry along.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSeries {
    /// What it is called in the answer.
    pub name: Arc<str>,
    /// The text that produced it; combining functions name their result from it.
    pub path_expression: Arc<str>,
    /// Time of the first value.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// Seconds between two values.
    pub step: i64,
    /// The values; NaN is unknown. Shared until a function writes.
    pub values: Arc<Vec<f64>>,
    /// How it folds when it is read coarser.
    pub consolidation: Consolidation,
    /// Known ÷ all values below which a folded value is unknown.
    pub x_files_factor: f64,
    /// Its tags.
    pub tags: Tags,
    /// How it wants to be drawn.
    pub options: DrawOptions,
}

/// What a graph is told about a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawOptions {
    /// `color()`: a name or hexadecimal digits, as it was written.
    pub color: Option<Arc<str>>,
    /// `alpha()`: opacity.
    pub alpha: Option<f64>,
    /// `lineWidth()`, in pixels.
    pub line_width: Option<f64>,
    /// `dashed()`: length of a dash in pixels.
    pub dashed: Option<f64>,
    /// `secondYAxis()`.
    pub second_y_axis: bool,
    /// `stacked()` and `areaBetween()`: drawn as an area over what is stacked below.
    pub stacked: bool,
    /// The lower edge of an area: takes its place and is not painted.
    pub invisible: bool,
    /// `drawAsInfinite()`: values other than zero are lines from the bottom to the top.
    pub draw_as_infinite: bool,
}

impl TimeSeries {
    /// About what a series takes beside its values: itself, an ordinary name, its tags.
    pub const BYTES: usize = 512;

    /// An ordinary name is no longer.
    const NAME_BYTES: usize = 128;

    /// Memory that is this series' alone; values that others hold too are not.
    pub(crate) fn own_bytes(&self) -> usize {
        let is_shared = Arc::strong_count(&self.values) > 1;
        let values = if is_shared { 0 } else { self.values.len().saturating_mul(size_of::<f64>()) };
        // Functions make names out of those of all series.
        let texts = [&self.name, &self.path_expression];
        let texts = texts.into_iter().filter(|text| Arc::strong_count(text) == 1);
        let texts = texts.map(|text| text.len().saturating_sub(Self::NAME_BYTES));
        values.saturating_add(Self::BYTES).saturating_add(texts.sum())
    }

    /// A series as it was fetched for `expression`.
    pub fn fetched(series: Series, expression: &Arc<str>, x_files_factor: f64) -> Self {
        Self {
            start: series.start,
            end: series.end(),
            step: i64::from(series.step.max(1)),
            tags: Tags::of(&series.name),
            name: series.name,
            path_expression: Arc::clone(expression),
            values: Arc::new(series.values),
            consolidation: Consolidation::default(),
            x_files_factor,
            options: DrawOptions::default(),
        }
    }

    /// A series that a function made, named by itself; its tags are those of its name.
    pub(crate) fn made(
        name: impl Into<Arc<str>>,
        (start, end, step): (i64, i64, i64),
        values: Vec<f64>,
        x_files_factor: f64,
    ) -> Self {
        let name = name.into();
        Self {
            tags: Tags::of(&name),
            path_expression: Arc::clone(&name),
            name,
            start,
            end,
            step: step.max(1),
            values: Arc::new(values),
            consolidation: Consolidation::default(),
            x_files_factor,
            options: DrawOptions::default(),
        }
    }

    /// A series made of this one: new name and values, same times, tags and folding; how it was to be
    /// drawn is forgotten, as in Graphite.
    pub(crate) fn derived(self, name: impl Into<Arc<str>>, values: Vec<f64>) -> Self {
        let name = name.into();
        let path_expression = Arc::clone(&name);
        Self { name, path_expression, values: Arc::new(values), options: DrawOptions::default(), ..self }
    }

    /// Its times: start, end, step.
    pub(crate) fn times(&self) -> (i64, i64, i64) {
        (self.start, self.end, self.step)
    }

    /// Replaces every value.
    pub(crate) fn map(&mut self, change: impl Fn(f64) -> f64) {
        self.values_mut().iter_mut().for_each(|value| *value = change(*value));
    }

    /// The values, to be changed; copied only when somebody else holds them too.
    pub fn values_mut(&mut self) -> &mut Vec<f64> {
        Arc::make_mut(&mut self.values)
    }

    /// Gives it the text of the call that made it, as name and as path expression.
    pub(crate) fn rename(&mut self, name: String) {
        self.name = name.into();
        self.path_expression = Arc::clone(&self.name);
    }
}
