//! Many series into one, point by point.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::consolidate::fold;
use crate::function::{Args, Function, Kind, Need, Param};
use crate::request::Request;
use crate::series::{Consolidation, Tags, TimeSeries};

const SERIES_LISTS: &[Param] = &[Param { name: "seriesLists", kind: Kind::Series, need: Need::Any }];

/// `sumSeries(seriesList…)`.
pub(crate) const SUM_SERIES: Function = Function {
    names: &["sumSeries", "sum"],
    params: SERIES_LISTS,
    eval: |args, request| aggregate(args, request, Method::Sum),
};

/// `averageSeries(seriesList…)`.
pub(crate) const AVERAGE_SERIES: Function = Function {
    names: &["averageSeries", "avg"],
    params: SERIES_LISTS,
    eval: |args, request| aggregate(args, request, Method::Average),
};

/// `maxSeries(seriesList…)`.
pub(crate) const MAX_SERIES: Function = Function {
    names: &["maxSeries"],
    params: SERIES_LISTS,
    eval: |args, request| aggregate(args, request, Method::Max),
};

/// `minSeries(seriesList…)`.
pub(crate) const MIN_SERIES: Function = Function {
    names: &["minSeries"],
    params: SERIES_LISTS,
    eval: |args, request| aggregate(args, request, Method::Min),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Sum,
    Average,
    Max,
    Min,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Average => "average",
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// What a row is before its first known value.
    fn start(self) -> f64 {
        match self {
            Self::Sum | Self::Average => 0.0,
            Self::Max => f64::NEG_INFINITY,
            Self::Min => f64::INFINITY,
        }
    }

    fn merge(self, row: f64, value: f64) -> f64 {
        match self {
            Self::Sum | Self::Average => row + value,
            Self::Max if value > row => value,
            Self::Min if value < row => value,
            Self::Max | Self::Min => row,
        }
    }
}

/// Folds all series into one that is named after their path expressions.
fn aggregate(mut args: Args, request: &Request, method: Method) -> Result<Vec<TimeSeries>, String> {
    let series = args.series(0);
    let Some(grid) = Grid::of(&series)? else { return Ok(Vec::new()) };
    let mut values = vec![method.start(); grid.len];
    let mut known = vec![0u32; grid.len];
    for series in &series {
        let (offset, aligned) = grid.align(series);
        let rows = values.iter_mut().zip(&mut known).skip(offset);
        for ((row, known), value) in rows.zip(aligned.iter()) {
            if !value.is_nan() {
                *row = method.merge(*row, *value);
                *known += 1;
            }
        }
    }
    let total = series.len() as f64;
    for (row, known) in values.iter_mut().zip(&known) {
        let known = f64::from(*known);
        if known == 0.0 || known / total < request.x_files_factor {
            *row = f64::NAN;
        } else if method == Method::Average {
            *row /= known;
        }
    }
    Ok(vec![combined(&series, &grid, values, method.name(), request)])
}

fn combined(
    series: &[TimeSeries],
    grid: &Grid,
    values: Vec<f64>,
    method: &str,
    request: &Request,
) -> TimeSeries {
    let name: Arc<str> = format!("{method}Series({})", path_expressions(series)).into();
    let mut tags = Tags::common(series.iter().map(|s| &s.tags));
    if tags.get("name").is_none() {
        tags.set("name", &*name);
    }
    tags.set("aggregatedBy", method);
    TimeSeries {
        path_expression: Arc::clone(&name),
        name,
        start: grid.start,
        end: grid.start + grid.step * grid.len as i64,
        step: grid.step,
        values: Arc::new(values),
        consolidation: Consolidation::default(),
        x_files_factor: request.x_files_factor,
        tags,
    }
}

/// The texts that produced the series, each once, in order.
fn path_expressions(series: &[TimeSeries]) -> String {
    let mut seen = HashSet::new();
    let unique: Vec<&str> =
        series.iter().map(|s| &*s.path_expression).filter(|text| seen.insert(*text)).collect();
    unique.join(",")
}

/// The slots that hold all of some series: their common step, from the earliest start to the last
/// end. Series are laid on it by time; Graphite lays those of different steps on each other by
/// index, which shifts them.
struct Grid {
    start: i64,
    step: i64,
    len: usize,
}

impl Grid {
    /// `None` when there are no series.
    fn of(series: &[TimeSeries]) -> Result<Option<Self>, String> {
        /// About three years; larger ones come only from steps made up to be different.
        const STEP_MAX: i64 = 100_000_000;
        let Some(first) = series.first() else { return Ok(None) };
        let mut step = first.step;
        for series in series {
            step = step / gcd(step, series.step) * series.step;
            if step > STEP_MAX {
                return Err("the steps of the series have no common multiple of use".to_owned());
            }
        }
        let start = series.iter().map(|s| s.start).min().unwrap_or(first.start);
        let is_mixed = series.iter().any(|s| s.step != step || (s.start - start) % step != 0);
        let start = if is_mixed { start - start.rem_euclid(step) } else { start };
        let end = series.iter().map(|s| s.start + s.step * s.values.len() as i64).max().unwrap_or(start);
        let len = usize::try_from((end - start + step - 1) / step).unwrap_or(0);
        Ok(Some(Self { start, step, len }))
    }

    /// The values of a series on the grid, and the slot of the first.
    fn align<'a>(&self, series: &'a TimeSeries) -> (usize, Cow<'a, [f64]>) {
        let offset = usize::try_from((series.start - self.start) / self.step).unwrap_or(0);
        if series.step == self.step {
            return (offset, Cow::Borrowed(&series.values));
        }
        let group = usize::try_from(self.step / series.step).unwrap_or(1);
        let into = usize::try_from((series.start - self.start) % self.step / series.step).unwrap_or(0);
        let (head, rest) = series.values.split_at((group - into).min(series.values.len()));
        let fold = |values: &[f64]| fold(values, group, series.consolidation, series.x_files_factor);
        let folded = std::iter::once(head).chain(rest.chunks(group)).map(fold).collect();
        (offset, Cow::Owned(folded))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
