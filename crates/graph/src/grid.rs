//! The grid behind a graph, and the labels along its axes.

use crate::axis::Axis;
use crate::canvas::{Align, Area, Canvas, Height, Path, Stroke};
use crate::color::Color;
use crate::font::Font;
use crate::options::Options;
use crate::time_axis::{Ticks, text, times};

/// A time range, and the width on which it is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The width of the range in pixels.
    pub(crate) pixels: f64,
    pub(crate) ticks: Ticks,
}

impl Span {
    fn x(&self, time: i64, area: Area) -> f64 {
        area.left + (time - self.start) as f64 / (self.end - self.start) as f64 * self.pixels
    }
}

/// The width that the labels of an axis need, in pixels.
pub(crate) fn label_width(axis: &Axis, font: &Font) -> f64 {
    axis.labels.iter().map(|(_, text)| font.width(text)).fold(0.0, f64::max)
}

fn y(axis: &Axis, value: f64, area: Area) -> Option<f64> {
    let y = area.bottom - axis.height(value)? * (area.bottom - area.top);
    (area.top - 0.5..=area.bottom + 0.5).contains(&y).then_some(y)
}

/// Writes the labels of a vertical axis, on its left or right side.
pub(crate) fn write_values(
    canvas: &mut Canvas,
    axis: &Axis,
    font: &Font,
    ink: Color,
    area: Area,
    align: Align,
) {
    let width = label_width(axis, font);
    let x = if align == Align::Right { area.left - width * 0.02 } else { area.right + width * 0.02 + 3.0 };
    for (value, text) in &axis.labels {
        if let Some(y) = y(axis, *value, area) {
            canvas.write(text, font, ink, (x, y), (align, Height::Middle), 0.0);
        }
    }
}

/// Writes the times below the graph.
pub(crate) fn write_times(canvas: &mut Canvas, span: &Span, options: &Options, font: &Font, area: Area) {
    let format = options.x_format.as_deref().unwrap_or(span.ticks.format);
    for time in times(span.start, span.end, span.ticks.label, &options.zone) {
        let point = (span.x(time, area), area.bottom + font.ascent());
        let text = text(time, format, &options.zone);
        canvas.write(&text, font, options.foreground, point, (Align::Center, Height::Top), 0.0);
    }
}

/// Draws the horizontal lines at the labels of an axis and between them, and the vertical lines at times.
pub(crate) fn draw(canvas: &mut Canvas, axis: &Axis, span: &Span, options: &Options, area: Area) {
    canvas.open("grid");
    let (mut major, mut minor) = (Path::default(), Path::default());
    for (index, (value, _)) in axis.labels.iter().enumerate() {
        horizontal(&mut major, axis, *value, area);
        if let Some((next, _)) = axis.labels.get(index + 1) {
            let distance = (next - value) / f64::from(options.minor_y + 1);
            for part in 1..=options.minor_y {
                horizontal(&mut minor, axis, value + distance * f64::from(part), area);
            }
        }
    }
    canvas.stroke_path(&minor.0, Stroke::thin(options.minor, 0.3));
    canvas.stroke_path(&major.0, Stroke::thin(options.major, 0.4));
    let minor = vertical(span, span.ticks.minor, options, area);
    canvas.stroke_path(&minor.0, Stroke::thin(options.minor, 0.25));
    let major = vertical(span, span.ticks.major, options, area);
    canvas.stroke_path(&major.0, Stroke::thin(options.major, 0.33));
    let mut sides = Path::default();
    for x in [area.right, area.left] {
        sides.line((x, area.bottom), (x, area.top));
    }
    canvas.stroke_path(&sides.0, Stroke::thin(options.major, 0.5));
    canvas.close();
}

fn horizontal(path: &mut Path, axis: &Axis, value: f64, area: Area) {
    if let Some(y) = y(axis, value, area) {
        path.line((area.left, y), (area.right, y));
    }
}

fn vertical(span: &Span, step: i64, options: &Options, area: Area) -> Path {
    let mut path = Path::default();
    for time in times(span.start, span.end, step, &options.zone) {
        let x = span.x(time, area);
        if x < area.right {
            path.line((x, area.bottom), (x, area.top));
        }
    }
    path
}
