//! A series as a line, thinned to fit the picture, with its coordinates.

use crate::axis::Axis;
use crate::canvas::{Area, Path};
use crate::color::Color;
use crate::options::{AreaMode, LineMode, Options};
use crate::series::Series;

/// A series with its colour and the values that are drawn.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) series: Series,
    pub(crate) color: Color,
    /// The values, thinned to fit the picture, and added up if they are stacked.
    pub(crate) values: Vec<f64>,
    /// How many values of the series each drawn value represents.
    group: usize,
    /// The distance between two values in pixels.
    step: f64,
}

/// The points of a line up to a gap.
pub(crate) type Run = Vec<(f64, f64)>;

/// The rectangle that a line is drawn in, and its scales.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) area: Area,
    pub(crate) axis: &'a Axis,
    /// The time at the left edge, in seconds since the epoch.
    pub(crate) start: i64,
    pub(crate) mode: LineMode,
}

impl Line {
    pub(crate) fn new(series: Series, color: Color) -> Self {
        Self { series, color, values: Vec::new(), group: 1, step: 1.0 }
    }

    /// Thins the values to what fits into `pixels`, which show `span` seconds.
    pub(crate) fn fit(&mut self, span: i64, pixels: f64, min_step: f64) {
        let pixels = pixels.max(1.0);
        let count = span as f64 / self.series.step.max(1) as f64;
        let step = pixels / count;
        if step >= min_step {
            (self.group, self.step) = (1, step);
            self.values = self.series.values.to_vec();
            return;
        }
        let drawn = (pixels / min_step).floor().max(1.0);
        self.group = ((count / drawn).ceil() as usize).max(1);
        self.step = pixels * self.group as f64 / count;
        let fold = |values: &[f64]| self.series.fold.fold(values, self.group);
        self.values = self.series.values.chunks(self.group).map(fold).collect();
    }

    /// Whether the line has no known value.
    pub(crate) fn is_null(&self) -> bool {
        self.series.values.iter().all(|value| value.is_nan())
    }

    /// The parts of the line between gaps. A part extends to the slot after its last value, so that a single
    /// value between two gaps is visible.
    pub(crate) fn runs(&self, place: &Place<'_>, options: &Options, is_area: bool) -> Vec<Run> {
        let mut runs = Runs::default();
        let mut nulls = 0;
        let mut x = self.left(place, options);
        for (index, value) in self.values.iter().enumerate() {
            let value = if options.null_as_zero && value.is_nan() { 0.0 } else { *value };
            match place.y(value) {
                None => {
                    if nulls == 0 {
                        runs.extend_to(x);
                    }
                    nulls += 1;
                    if place.mode != LineMode::Connected || is_area {
                        runs.end();
                    }
                }
                Some(_) if self.series.options.draw_as_infinite && value > 0.0 => {
                    runs.end();
                    runs.add((x, place.area.bottom));
                    runs.add((x, place.area.top));
                    runs.end();
                }
                Some(y) => {
                    if nulls == index || nulls as f64 > options.connected_limit {
                        runs.end();
                    }
                    runs.add((x, y));
                    if place.mode == LineMode::Staircase {
                        runs.add((x + self.step, y));
                    }
                    nulls = 0;
                }
            }
            x += self.step;
        }
        runs.end();
        runs.done
    }

    /// The horizontal position of the first value.
    fn left(&self, place: &Place<'_>, options: &Options) -> f64 {
        let missing = (self.series.start - place.start) as f64 / self.series.step.max(1) as f64;
        place.area.left + missing / self.group as f64 * self.step + options.line_width / 2.0
    }
}

impl Place<'_> {
    /// The vertical position of a value. Values beyond the upper edge are clamped to it; values below the
    /// lower edge are clamped only far below it.
    fn y(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let height = self.axis.height(value.clamp(-1e300, 1e300))?;
        let room = self.area.bottom - self.area.top;
        let y = self.area.bottom - height * room;
        Some(if y.is_nan() { self.area.bottom } else { y.min(self.area.bottom + 10.0 * room).max(0.0) })
    }

    /// The vertical position where areas end: zero, or the bottom if zero is outside of the axis.
    pub(crate) fn base(&self) -> f64 {
        self.y(0.0).unwrap_or(self.area.bottom)
    }
}

#[derive(Default)]
struct Runs {
    done: Vec<Run>,
    current: Run,
}

impl Runs {
    fn add(&mut self, point: (f64, f64)) {
        self.current.push(point);
    }

    fn extend_to(&mut self, x: f64) {
        if let Some((_, y)) = self.current.last() {
            self.current.push((x, *y));
        }
    }

    fn end(&mut self) {
        if !self.current.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
    }
}

/// The parts of a line as one path.
pub(crate) fn path(runs: &[Run]) -> Path {
    let mut path = Path::default();
    for run in runs {
        for (index, point) in run.iter().enumerate() {
            if index == 0 { path.move_to(*point) } else { path.line_to(*point) }
        }
    }
    path
}

/// The length of the parts of a line, in pixels.
pub(crate) fn length(runs: &[Run]) -> f64 {
    let between = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1);
    runs.iter().flat_map(|run| run.windows(2)).map(between).sum()
}

/// The parts of a line as closed shapes, down to a height.
pub(crate) fn outline(runs: &[Run], base: f64) -> Path {
    let mut path = Path::default();
    for run in runs {
        let ([(left, _), ..], [.., (right, _)]) = (&run[..], &run[..]) else { continue };
        path.move_to((*left, base));
        run.iter().for_each(|point| path.line_to(*point));
        path.line_to((*right, base));
        path.close();
    }
    path
}

/// Decides which series are areas, and adds up the values of stacked ones.
pub(crate) fn stack(lines: &mut [Line], mode: AreaMode, has_two_axes: bool) {
    let areas = lines.iter_mut().filter(|line| !line.series.options.draw_as_infinite);
    match mode {
        AreaMode::None => {}
        AreaMode::First => lines.iter_mut().take(1).for_each(|line| line.series.options.stacked = true),
        AreaMode::All => areas.for_each(|line| line.series.options.stacked = true),
        // As in graphite-web, values are not added up if there are two axes.
        AreaMode::Stacked if has_two_axes => {}
        AreaMode::Stacked => {
            let mut totals: Vec<f64> = Vec::new();
            for line in areas {
                line.series.options.stacked = true;
                totals.resize(totals.len().max(line.values.len()), 0.0);
                for (value, total) in line.values.iter_mut().zip(&mut totals) {
                    if !value.is_nan() {
                        *total += *value;
                        *value = *total;
                    }
                }
            }
        }
    }
}

/// The smallest and the largest value that an axis has to show.
pub(crate) fn data_limits<'a>(
    lines: impl Iterator<Item = &'a Line> + Clone,
    options: &Options,
    is_stacked: bool,
) -> (f64, f64) {
    let is_shown = |value: &f64| value.abs() < 1e300 && (options.log_base.is_none() || *value > 0.0);
    let lines = lines.filter(|line| !line.series.options.draw_as_infinite);
    let values = lines.clone().flat_map(|line| line.values.iter().copied()).filter(is_shown);
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (min, max) = (min.min(value), max.max(value));
    }
    if min > max {
        return (0.0, 1.0);
    }
    if is_stacked {
        max = highest_sum(lines.clone(), is_shown).unwrap_or(max);
    }
    let has_nulls = || lines.clone().any(|line| line.values.iter().any(|value| value.is_nan()));
    if options.null_as_zero && options.log_base.is_none() && has_nulls() {
        (min, max) = (min.min(0.0), max.max(0.0));
    }
    (min, max)
}

fn highest_sum<'a>(
    lines: impl Iterator<Item = &'a Line> + Clone,
    is_shown: impl Fn(&f64) -> bool,
) -> Option<f64> {
    let mut sums: Vec<f64> = Vec::new();
    for line in lines {
        sums.resize(sums.len().max(line.values.len()), 0.0);
        for (sum, value) in sums.iter_mut().zip(&line.values) {
            *sum += if is_shown(value) { *value } else { 0.0 };
        }
    }
    sums.into_iter().reduce(f64::max).filter(is_shown)
}
