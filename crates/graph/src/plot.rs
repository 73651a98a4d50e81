//! Graphs of lines and areas over time.

use crate::area::{self, Shape};
use crate::axis::{Axis, Wanted};
use crate::canvas::{Align, Area, Canvas, Height, Stroke};
use crate::color::Color;
use crate::error::GraphError;
use crate::font::Font;
use crate::grid::{self, Span};
use crate::legend::{self, Entry};
use crate::lines::{Line, Place, data_limits, length, outline, path, stack};
use crate::options::{AreaMode, LineMode, Options, Range};
use crate::series::Series;
use crate::time_axis::Ticks;

/// Maximum number of points of all lines of a picture, after thinning.
const POINTS_MAX: usize = 2_000_000;

/// Maximum length of all lines of a picture in pixels; areas count in part. Painting this much takes about
/// ten seconds.
const INK_MAX: f64 = 20e6;

/// This many pixels of an area take as long to paint as one pixel of a line.
const AREA_PIXELS: f64 = 100.0;

/// Maximum number of series for which a legend is drawn, unless the request asks for one.
const LEGEND_MAX: usize = 10;

/// Maximum number of rounds of the layout. Labels and lines reduce each other's space; more rounds would
/// change nothing.
const ROUNDS_MAX: usize = 8;

/// Draws series. Without series the picture says "No Data".
pub(crate) fn draw(options: &Options, series: Vec<Series>) -> Result<String, GraphError> {
    let start = series.iter().map(|s| s.start).min().unwrap_or(0);
    let end = series.iter().map(|s| s.end).max().unwrap_or(0);
    if start >= end {
        return Ok(no_data(options));
    }
    let mut options = options.clone();
    if options.graph_only {
        strip(&mut options);
    }
    let mut plot = Plot::new(&options, series, (start, end))?;
    plot.titles();
    plot.legend();
    if !options.hide_axes && !options.hide_x_axis {
        plot.area.bottom -= 2.0 * plot.font.ascent();
    }
    let axes = plot.axes()?;
    if plot.area.left < plot.area.right && plot.area.top < plot.area.bottom {
        plot.surroundings(&axes);
        plot.lines(&axes)?;
    }
    Ok(plot.canvas.finish())
}

/// A picture that says "No Data".
pub(crate) fn no_data(options: &Options) -> String {
    let mut canvas = background(options);
    let (width, height) = (f64::from(options.width), f64::from(options.height));
    let font = Font::new(options.font.clone()).sized((width * height).ln().max(1.0));
    let at = (width / 2.0, height / 2.0);
    canvas.write("No Data", &font, Color::WARNING, at, (Align::Center, Height::Top), 0.0);
    canvas.finish()
}

/// A canvas with its background.
pub(crate) fn background(options: &Options) -> Canvas {
    let mut canvas = Canvas::new(options.width, options.height);
    if options.background.opacity(None) > 0.0 {
        let (right, bottom) = (f64::from(options.width), f64::from(options.height));
        canvas.fill_rectangle(Area { left: 0.0, right, top: 0.0, bottom }, options.background);
    }
    canvas
}

/// Writes the title above an area, and subtracts its height from the area.
pub(crate) fn title(canvas: &mut Canvas, options: &Options, area: &mut Area) {
    let Some(text) = &options.title else { return };
    let font = title_font(options);
    for line in text.split('\n') {
        let at = (f64::from(options.width) / 2.0, area.top);
        canvas.write(line, &font, options.foreground, at, (Align::Center, Height::Top), 0.0);
        area.top += font.height();
    }
    area.top += options.margin;
}

fn title_font(options: &Options) -> Font {
    let size = options.font.size;
    Font::new(options.font.clone()).sized(size + size.ln().floor().max(0.0))
}

/// Applies `graphOnly`, which leaves out everything but the lines.
fn strip(options: &mut Options) {
    (options.hide_axes, options.hide_grid, options.legend.hide) = (true, true, Some(true));
    (options.title, options.left_title, options.right_title) = (None, None, None);
    options.margin = 0.0;
}

struct Plot<'o> {
    options: &'o Options,
    canvas: Canvas,
    font: Font,
    area: Area,
    lines: Vec<Line>,
    start: i64,
    end: i64,
    mode: LineMode,
    has_two_axes: bool,
    /// The width of a title on the left, in pixels.
    left_taken: f64,
}

/// The axis of the left side (or the only one), and the axis of the right side if there are two.
struct Axes {
    left: Axis,
    right: Option<Axis>,
}

impl<'o> Plot<'o> {
    fn new(options: &'o Options, series: Vec<Series>, (start, end): (i64, i64)) -> Result<Self, GraphError> {
        let has_two_axes = series.iter().any(|s| s.options.second_y_axis);
        // A sloped line needs two points.
        let is_single = series.iter().any(|s| s.values.len() == 1);
        let is_slope = options.line_mode == LineMode::Slope;
        let margin = options.margin;
        let left = if options.graph_only { 0.0 } else { margin + 10.0 };
        Ok(Self {
            options,
            canvas: background(options),
            font: Font::new(options.font.clone()),
            area: Area {
                left,
                right: f64::from(options.width) - margin,
                top: margin,
                bottom: f64::from(options.height) - margin,
            },
            lines: colored(options, series, has_two_axes)?,
            start,
            end,
            mode: if is_slope && is_single { LineMode::Staircase } else { options.line_mode },
            has_two_axes,
            left_taken: margin,
        })
    }

    fn titles(&mut self) {
        title(&mut self.canvas, self.options, &mut self.area);
        let font = title_font(self.options);
        let (line, middle) = (font.height(), f64::from(self.options.height) / 2.0);
        let at = (Align::Center, Height::Baseline);
        if let Some(text) = &self.options.left_title {
            let mut x = self.area.left + line;
            for part in text.split('\n') {
                self.canvas.write(part, &font, self.options.foreground, (x, middle), at, 270.0);
                x += line;
            }
            self.left_taken = x - line + font.descent();
            self.area.left = x + self.options.margin + line;
        }
        if let Some(text) = self.options.right_title.as_ref().filter(|_| self.has_two_axes) {
            let mut x = self.area.right - line;
            for part in text.split('\n') {
                self.canvas.write(part, &font, self.options.foreground, (x, middle), at, 90.0);
                x -= line;
            }
            self.area.right = x - self.options.margin - line;
        }
    }

    fn legend(&mut self) {
        let said = self.options.legend;
        if said.hide.unwrap_or(self.lines.len() > LEGEND_MAX) {
            return;
        }
        let is_left_out = |line: &&Line| line.series.name.is_empty() || said.hide_null && line.is_null();
        let shown = self.lines.iter().filter(|line| !is_left_out(line));
        let entry = |line: &Line| Entry {
            name: line.series.name.clone(),
            color: line.color,
            is_right: line.series.options.second_y_axis,
        };
        let mut entries: Vec<Entry> = shown.map(entry).collect();
        if said.unique {
            legend::unique(&mut entries);
        }
        if !entries.is_empty() {
            let (ink, width) = (self.options.foreground, f64::from(self.options.width));
            legend::draw(&mut self.canvas, &entries, &self.font, ink, width, &mut self.area);
        }
    }

    /// Repeats thinning the lines and computing the axes until both agree: wider labels leave less room for
    /// lines, and thinned lines have other extremes.
    fn axes(&mut self) -> Result<Axes, GraphError> {
        let mut rounds = 0;
        loop {
            self.fit()?;
            let axes = self.fitted_axes();
            let before = self.area;
            self.make_room(&axes);
            rounds += 1;
            if self.area == before || rounds == ROUNDS_MAX {
                return Ok(axes);
            }
        }
    }

    fn pixels(&self) -> f64 {
        (self.area.right - self.area.left - self.options.line_width - 1.0).max(1.0)
    }

    fn fit(&mut self) -> Result<(), GraphError> {
        let (span, pixels) = (self.end - self.start, self.pixels());
        let mut points = 0;
        for line in &mut self.lines {
            line.fit(span, pixels, self.options.min_x_step);
            points += line.values.len();
            if points > POINTS_MAX {
                return Err(GraphError::TooManyPoints(POINTS_MAX));
            }
        }
        Ok(())
    }

    fn fitted_axes(&self) -> Axes {
        let options = self.options;
        let fitted = |range: Range, is_right: Option<bool>| {
            let of_side =
                |line: &&Line| is_right.is_none_or(|right| line.series.options.second_y_axis == right);
            let is_stacked = options.area_mode == AreaMode::Stacked && !self.has_two_axes;
            let data = data_limits(self.lines.iter().filter(of_side), options, is_stacked);
            let (divisors, units, log_base) = (&*options.divisors, options.units, options.log_base);
            Axis::new(data, &Wanted { range, divisors, units, log_base })
        };
        if self.has_two_axes {
            let right = Some(fitted(options.right.range, Some(true)));
            Axes { left: fitted(options.left.range, Some(false)), right }
        } else {
            Axes { left: fitted(options.y, None), right: None }
        }
    }

    /// Makes room for the numbers beside the axes.
    fn make_room(&mut self, axes: &Axes) {
        if self.options.hide_axes || self.options.hide_y_axis {
            return;
        }
        let room = |axis: &Axis| grid::label_width(axis, &self.font) * 1.02;
        let edge = f64::from(self.options.width);
        if let Some(right) = &axes.right {
            self.area.right = self.area.right.min(edge - room(right) - 3.0);
        } else if self.options.is_y_axis_right {
            self.area.right = self.area.right.min(edge - room(&axes.left) - 3.0);
            return;
        }
        self.area.left = self.area.left.max(self.left_taken + room(&axes.left));
    }

    /// Draws numbers, times and the grid.
    fn surroundings(&mut self, axes: &Axes) {
        let (options, area) = (self.options, self.area);
        if options.hide_axes {
            return;
        }
        let pixels = self.pixels();
        let ticks = Ticks::new(self.end - self.start, pixels);
        let span = Span { start: self.start, end: self.end, pixels, ticks };
        let (font, ink) = (&self.font, options.foreground);
        self.canvas.open("axes");
        if !options.hide_y_axis {
            let is_right = options.is_y_axis_right && axes.right.is_none();
            let align = if is_right { Align::Left } else { Align::Right };
            grid::write_values(&mut self.canvas, &axes.left, font, ink, area, align);
            if let Some(right) = &axes.right {
                grid::write_values(&mut self.canvas, right, font, ink, area, Align::Left);
            }
        }
        if !options.hide_x_axis {
            grid::write_times(&mut self.canvas, &span, options, font, area);
        }
        self.canvas.close();
        if !options.hide_grid {
            grid::draw(&mut self.canvas, &axes.left, &span, options, area);
        }
    }

    fn lines(&mut self, axes: &Axes) -> Result<(), GraphError> {
        stack(&mut self.lines, self.options.area_mode, self.has_two_axes);
        self.canvas.open_clipped("lines", self.area);
        let shapes = self.shapes(axes);
        let pixels = (self.area.right - self.area.left) * (self.area.bottom - self.area.top);
        let mut ink = shapes.len() as f64 * pixels / AREA_PIXELS;
        area::paint(&mut self.canvas, &shapes, self.area);
        for line in &self.lines {
            let options = &line.series.options;
            // A transparent area keeps an opaque edge.
            let is_edge = options.stacked && !options.invisible && self.options.area_alpha.is_some();
            if options.stacked && !is_edge {
                continue;
            }
            let stroke = if is_edge {
                Stroke::thin(line.color, self.options.line_width)
            } else {
                Stroke {
                    color: line.color,
                    alpha: if options.invisible { Some(0.0) } else { options.alpha },
                    width: options.line_width.unwrap_or(self.options.line_width).clamp(0.0, 1e3),
                    dash: options.dashed,
                }
            };
            let runs = line.runs(&self.place(line, axes), self.options, false);
            ink += length(&runs) * stroke.width.max(1.0);
            if ink > INK_MAX {
                return Err(GraphError::TooMuchInk);
            }
            self.canvas.stroke_path(&path(&runs).0, stroke);
        }
        self.canvas.close();
        Ok(())
    }

    fn shapes(&self, axes: &Axes) -> Vec<Shape> {
        let shape = |line: &Line| {
            let place = self.place(line, axes);
            Shape {
                outline: outline(&line.runs(&place, self.options, true), place.base()),
                color: line.color,
                alpha: self.options.area_alpha.or(line.series.options.alpha),
                is_gap: line.series.options.invisible,
            }
        };
        self.lines.iter().filter(|line| line.series.options.stacked).map(shape).collect()
    }

    fn place<'a>(&self, line: &Line, axes: &'a Axes) -> Place<'a> {
        let right = axes.right.as_ref().filter(|_| line.series.options.second_y_axis);
        Place { area: self.area, axis: right.unwrap_or(&axes.left), start: self.start, mode: self.mode }
    }
}

/// Gives each series a colour: its own colour, that of its axis, or the next one of the list.
fn colored(options: &Options, series: Vec<Series>, has_two_axes: bool) -> Result<Vec<Line>, GraphError> {
    let mut next = options.colors.iter().cycle();
    let color = |mut series: Series| {
        let side = if series.options.second_y_axis { options.right } else { options.left };
        let side = has_two_axes.then_some(side);
        if let Some(side) = side {
            series.options.line_width = side.width.or(series.options.line_width);
            series.options.dashed = side.dash.or(series.options.dashed);
        }
        let own = series.options.color.as_deref().map(Color::parse).transpose()?;
        let of_side = side.and_then(|side| side.color);
        let color = of_side.or(own).or_else(|| next.next().copied()).unwrap_or(Color::OUTLINE);
        Ok(Line::new(series, color))
    };
    series.into_iter().map(color).collect()
}
