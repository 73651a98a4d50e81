//! Series during an evaluation.

use std::sync::Arc;

use plumbago_model::Series;

use crate::tags::Tags;

/// How values are combined into a longer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// Mean of the known values.
    #[default]
    Average,
    /// Mean; unknown values count as zero.
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
    /// The consolidation with this name in Graphite.
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

    /// The name in Graphite.
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

/// A series with the properties that Graphite's functions use.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSeries {
    /// The name that the answer shows.
    pub name: Arc<str>,
    /// The expression or call that produced the series. Functions that combine series derive the name of
    /// their result from it.
    pub path_expression: Arc<str>,
    /// Time of the first value, in seconds since the epoch.
    pub start: i64,
    /// End of the series (exclusive), in seconds since the epoch.
    pub end: i64,
    /// Seconds between two values.
    pub step: i64,
    /// The values; NaN is unknown. Shared until a function changes them.
    pub values: Arc<Vec<f64>>,
    /// How values are combined into a longer step.
    pub consolidation: Consolidation,
    /// The share of values, from 0 to 1, that must be known in a combined value.
    pub x_files_factor: f64,
    /// The tags that the answer shows and that `groupByTags` and others use.
    pub tags: Tags,
    /// How the series is drawn, for example its colour.
    pub options: DrawOptions,
    /// Whether the values are counts, such as those of `isNonNull`. In graphite-web these are integers, which
    /// are shown as `1` in names and tags, where floats are `1.0`.
    pub is_whole: bool,
}

/// Drawing options of a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawOptions {
    /// `color()`: a colour name or hexadecimal digits.
    pub color: Option<Arc<str>>,
    /// `alpha()`: opacity from 0 to 1.
    pub alpha: Option<f64>,
    /// `lineWidth()`: width of the line in pixels.
    pub line_width: Option<f64>,
    /// `dashed()`: length of a dash in pixels.
    pub dashed: Option<f64>,
    /// `secondYAxis()`: use the axis on the right.
    pub second_y_axis: bool,
    /// `stacked()` and `areaBetween()`: draw an area on top of the series stacked before.
    pub stacked: bool,
    /// The lower edge of `areaBetween()` or of a confidence band, which is part of the stack but is not
    /// painted.
    pub invisible: bool,
    /// `drawAsInfinite()`: draw values as lines from the bottom to the top.
    pub draw_as_infinite: bool,
}

impl TimeSeries {
    /// An estimate of the memory of a series without its values, in bytes: the struct, an ordinary name, and
    /// tags.
    pub const BYTES: usize = 512;

    /// The longest ordinary name, in bytes.
    const NAME_BYTES: usize = 128;

    /// The memory of this series alone, in bytes. Values shared with others do not count.
    pub(crate) fn own_bytes(&self) -> usize {
        let is_shared = Arc::strong_count(&self.values) > 1;
        let values = if is_shared { 0 } else { self.values.len().saturating_mul(size_of::<f64>()) };
        // Functions join the names of all their series, so names can be long.
        let texts = [&self.name, &self.path_expression];
        let texts = texts.into_iter().filter(|text| Arc::strong_count(text) == 1);
        let texts = texts.map(|text| text.len().saturating_sub(Self::NAME_BYTES));
        values.saturating_add(Self::BYTES).saturating_add(texts.sum())
    }

    /// Makes a series that was fetched for `expression`.
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
            is_whole: false,
        }
    }

    /// Makes a new series. Its path expression is its name, and its tags are those of the name.
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
            is_whole: false,
        }
    }

    /// Makes a result from this series: a new name and new values, with the same times, tags and consolidation.
    /// As in Graphite its drawing options are lost.
    pub(crate) fn derived(self, name: impl Into<Arc<str>>, values: Vec<f64>) -> Self {
        let name = name.into();
        let path_expression = Arc::clone(&name);
        let options = DrawOptions::default();
        Self { name, path_expression, values: Arc::new(values), options, is_whole: false, ..self }
    }

    /// Sets whether the values are integers in graphite-web.
    pub(crate) fn whole(self, is_whole: bool) -> Self {
        Self { is_whole, ..self }
    }

    /// The start, end and step.
    pub(crate) fn times(&self) -> (i64, i64, i64) {
        (self.start, self.end, self.step)
    }

    /// Replaces every value. The new values are floats in graphite-web.
    pub(crate) fn map(&mut self, change: impl Fn(f64) -> f64) {
        self.is_whole = false;
        self.values_mut().iter_mut().for_each(|value| *value = change(*value));
    }

    /// Makes the values unknown for which `is_out` returns true.
    pub(crate) fn remove(&mut self, is_out: impl Fn(f64) -> bool) {
        self.values_mut().iter_mut().filter(|value| is_out(**value)).for_each(|value| *value = f64::NAN);
    }

    /// The values for changes. They are copied if they are shared.
    pub fn values_mut(&mut self) -> &mut Vec<f64> {
        Arc::make_mut(&mut self.values)
    }

    /// Sets the name and the path expression.
    pub(crate) fn rename(&mut self, name: String) {
        self.name = name.into();
        self.path_expression = Arc::clone(&self.name);
    }
}
