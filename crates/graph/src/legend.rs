//! The legend below a graph: the names of the series, each beside a box in its colour.

use crate::canvas::{Align, Area, Canvas, Height, Stroke};
use crate::color::Color;
use crate::font::Font;

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Whether the series belongs to the axis on the right.
    pub(crate) is_right: bool,
}

const PADDING: f64 = 5.0;

/// Removes entries whose name has occurred before.
pub(crate) fn unique(entries: &mut Vec<Entry>) {
    let mut seen = std::collections::HashSet::new();
    entries.retain(|entry| seen.insert(entry.name.clone()));
}

/// Writes the legend at the bottom of an area, and subtracts its height from the area.
pub(crate) fn draw(
    canvas: &mut Canvas,
    entries: &[Entry],
    font: &Font,
    ink: Color,
    width: f64,
    area: &mut Area,
) {
    let longest = entries.iter().map(|entry| font.width(&entry.name)).fold(0.0, f64::max);
    let cell = longest + 2.0 * (font.height() - 1.0 + PADDING);
    let has_two_sides = entries.iter().any(|entry| entry.is_right) && 2.0 * cell + 50.0 < width;
    let columns = (width / cell).floor().max(1.0);
    let columns = if has_two_sides { (columns / 2.0).floor().max(1.0) } else { columns } as usize;
    let is_right = |entry: &&Entry| has_two_sides && entry.is_right;
    let right: Vec<&Entry> = entries.iter().filter(is_right).collect();
    let left: Vec<&Entry> = entries.iter().filter(|entry| !is_right(entry)).collect();
    let lines = left.len().div_ceil(columns).max(right.len().div_ceil(columns));
    let line = font.height() + 1.0;
    area.bottom -= lines as f64 * line + PADDING;
    canvas.open("legend");
    let top = area.bottom + 2.0 * PADDING;
    for (index, entry) in left.iter().enumerate() {
        let point = (area.left + (index % columns) as f64 * cell, top + (index / columns) as f64 * line);
        write(canvas, entry, font, ink, point, Align::Left);
    }
    for (index, entry) in right.iter().enumerate() {
        let point = (area.right - (index % columns) as f64 * cell, top + (index / columns) as f64 * line);
        write(canvas, entry, font, ink, point, Align::Right);
    }
    canvas.close();
}

/// Writes a box and a name. On the right the box is to the right of the name.
fn write(canvas: &mut Canvas, entry: &Entry, font: &Font, ink: Color, (x, y): (f64, f64), align: Align) {
    let side = font.height() - 1.0;
    if !canvas.shows(y, side) {
        return;
    }
    let left = if align == Align::Right { x - side } else { x };
    let square = Area { left, right: left + side, top: y, bottom: y + side };
    canvas.fill_rectangle(square, entry.color);
    canvas.stroke_rectangle(square, Stroke::thin(Color::OUTLINE, 1.0));
    let text = if align == Align::Right { left - PADDING } else { left + side + PADDING };
    canvas.write(&entry.name, font, ink, (text, y), (align, Height::Top), 0.0);
}
