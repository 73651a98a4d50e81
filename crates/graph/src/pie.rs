//! Pie charts.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::fmt::Write as _;

use crate::canvas::{Align, Area, Canvas, Height, Path};
use crate::color::Color;
use crate::error::{GraphError, shortened};
use crate::font::Font;
use crate::legend::{self, Entry};
use crate::options::{Options, PieLabel};
use crate::plot::{background, no_data, title};

/// A slice of a pie.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The name in the legend.
    pub name: String,
    /// The size of the slice, in any unit. Slices of zero or less are not drawn.
    pub value: f64,
}

/// Which value of a series is the size of its slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieMode {
    /// The mean of the known values.
    Average,
    /// The largest known value.
    Maximum,
    /// The smallest known value.
    Minimum,
}

impl PieMode {
    /// Reads the value of `pieMode`.
    ///
    /// # Errors
    ///
    /// Returns [`GraphError::Option`] for an unknown mode.
    pub fn named(name: &str) -> Result<Self, GraphError> {
        match name.to_ascii_lowercase().as_str() {
            "average" => Ok(Self::Average),
            "maximum" => Ok(Self::Maximum),
            "minimum" => Ok(Self::Minimum),
            _ => Err(GraphError::Option {
                name: "pieMode",
                value: shortened(name),
                expected: "average, maximum or minimum",
            }),
        }
    }

    /// Reduces the values of a series to one; 0 if none is known.
    pub fn value(self, values: &[f64]) -> f64 {
        let known = || values.iter().copied().filter(|value| !value.is_nan());
        let value = match self {
            Self::Average => {
                Some(known().fold(0.0, |sum, value| sum + value) / known().count().max(1) as f64)
            }
            Self::Maximum => known().reduce(f64::max),
            Self::Minimum => known().reduce(f64::min),
        };
        value.unwrap_or(0.0)
    }
}

/// Maximum number of slices of a pie.
const SLICES_MAX: usize = 10_000;

/// Draws a pie. Without slices the picture says "No Data".
pub(crate) fn draw(options: &Options, slices: Vec<Slice>) -> Result<String, GraphError> {
    if slices.len() > SLICES_MAX {
        return Err(GraphError::TooManyPoints(SLICES_MAX));
    }
    let amount = |slice: &Slice| if slice.value < 1e300 { slice.value.max(0.0) } else { 0.0 };
    let total: f64 = slices.iter().map(amount).sum();
    if !(total > 0.0 && total.is_finite()) {
        return Ok(no_data(options));
    }
    let mut canvas = background(options);
    let (width, margin) = (f64::from(options.width), options.margin);
    let mut area = Area {
        left: margin + 10.0,
        right: width - margin,
        top: margin,
        bottom: f64::from(options.height) - margin,
    };
    title(&mut canvas, options, &mut area);
    let font = Font::new(options.font.clone());
    let colors = options.colors.iter().copied().cycle();
    let slices: Vec<(Slice, Color)> = slices.into_iter().zip(colors).collect();
    if !options.legend.hide.unwrap_or(false) {
        let entry = |(slice, color): &(Slice, Color)| Entry {
            name: slice.name.clone(),
            color: *color,
            is_right: false,
        };
        let entries: Vec<Entry> = slices.iter().map(entry).collect();
        legend::draw(&mut canvas, &entries, &font, options.foreground, width, &mut area);
    }
    let circle = Circle::within(area);
    let mut labels = Vec::new();
    let mut angle = -FRAC_PI_2;
    for (slice, color) in &slices {
        let share = amount(slice) / total;
        let end = angle + share * TAU;
        canvas.fill_path(&circle.sector(angle, end), *color, options.area_alpha);
        labels.push((text(options, amount(slice), share), (angle + end) / 2.0));
        angle = end;
    }
    for (text, angle) in labels {
        circle.write(&mut canvas, options, &font, &text.unwrap_or_default(), angle);
    }
    Ok(canvas.finish())
}

/// The label of a slice; `None` if the slice is too small for one.
fn text(options: &Options, value: f64, share: f64) -> Option<String> {
    let percent = share * 100.0;
    match options.pie.shown {
        PieLabel::Percent if percent >= options.pie.min => Some(format!("%{percent:.2}")),
        PieLabel::Number if value >= options.pie.min && value < 10.0 && value.fract() != 0.0 => {
            Some(format!("{value:.2}"))
        }
        PieLabel::Number if value >= options.pie.min => Some(format!("{value:.0}")),
        _ => None,
    }
}

struct Circle {
    center: (f64, f64),
    radius: f64,
}

impl Circle {
    fn within(area: Area) -> Self {
        let (half_width, half_height) = ((area.right - area.left) / 2.0, (area.bottom - area.top) / 2.0);
        let radius = (half_width.min(half_height) * 0.95).max(0.0);
        Self { center: (area.left + half_width, area.top + half_height), radius }
    }

    fn point(&self, angle: f64, radius: f64) -> (f64, f64) {
        (self.center.0 + radius * angle.cos(), self.center.1 + radius * angle.sin())
    }

    /// The path of a slice, in arcs of at most a third of the circle.
    fn sector(&self, start: f64, end: f64) -> String {
        if self.radius < 0.01 {
            return String::new();
        }
        let mut path = Path::default();
        path.move_to(self.center);
        path.line_to(self.point(start, self.radius));
        let arcs = ((end - start) / (TAU / 3.0)).ceil().clamp(1.0, 3.0) as u32;
        for arc in 1..=arcs {
            let angle = start + (end - start) * f64::from(arc) / f64::from(arcs);
            let ((x, y), radius) = (self.point(angle, self.radius), self.radius);
            let _ = write!(path.0, "A{radius:.2} {radius:.2} 0 0 1 {x:.2} {y:.2}");
        }
        path.close();
        path.0
    }

    fn write(&self, canvas: &mut Canvas, options: &Options, font: &Font, text: &str, angle: f64) {
        let at = self.point(angle, self.radius / 2.0);
        let turn = match options.pie.is_rotated {
            false => 0.0,
            // Keeps the text from being upside down.
            true if angle > FRAC_PI_2 && angle <= 3.0 * FRAC_PI_2 => angle - PI,
            true => angle,
        };
        let place = (Align::Center, Height::Middle);
        canvas.write(text, font, options.pie.color, at, place, turn.to_degrees());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_nothing_or_of_negative_zeros_is_zero() {
        for values in [&[][..], &[f64::NAN], &[-0.0, -0.0]] {
            assert_eq!(PieMode::Average.value(values).to_bits(), 0.0_f64.to_bits(), "{values:?}");
        }
    }
}
