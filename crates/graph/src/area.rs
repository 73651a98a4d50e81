//! Paints areas that overlap.
//!
//! An area reaches from its values to zero. It shows only where the areas before it leave room, so the areas
//! are painted from the last to the first. An invisible area cuts its shape out of everything painted before
//! it.

use crate::canvas::{Area, Canvas, Path};
use crate::color::Color;

/// An area to paint.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) outline: Path,
    pub(crate) color: Color,
    pub(crate) alpha: Option<f64>,
    /// Whether the area is invisible: it is cut out of what lies below it.
    pub(crate) is_gap: bool,
}

/// Maximum number of invisible areas that are cut out; later ones have no effect. Painting each of them needs
/// a layer of the size of the picture.
const GAPS_MAX: usize = 4;

/// Paints areas inside `area`. They are given in stacking order, the lowest first.
pub(crate) fn paint(canvas: &mut Canvas, shapes: &[Shape], area: Area) {
    let mut opacities = shapes.iter().filter(|s| !s.is_gap).map(|s| s.color.opacity(s.alpha));
    let first = opacities.next().unwrap_or(1.0);
    // Areas with the same opacity are painted as one group, so that a lower one does not shine through.
    let fade = (first < 1.0 && opacities.all(|opacity| opacity == first)).then_some(first);
    if let Some(opacity) = fade {
        canvas.open_faded(opacity);
    }
    let gaps: Vec<&Shape> = shapes.iter().filter(|shape| shape.is_gap).take(GAPS_MAX).collect();
    for gap in &gaps {
        canvas.open_within(&outside(gap, area));
    }
    let mut open = gaps.len();
    let mut gaps_left = shapes.iter().filter(|shape| shape.is_gap).count();
    for shape in shapes.iter().rev() {
        if !shape.is_gap {
            let color = if fade.is_some() { Color { alpha: None, ..shape.color } } else { shape.color };
            canvas.fill_path(&shape.outline.0, color, if fade.is_some() { None } else { shape.alpha });
            continue;
        }
        gaps_left -= 1;
        if gaps_left < open {
            canvas.close();
            open -= 1;
        }
    }
    if fade.is_some() {
        canvas.close();
    }
}

/// The part of the area outside the outline of a shape.
fn outside(shape: &Shape, area: Area) -> String {
    let mut path = Path::default();
    path.move_to((area.left, area.top));
    for corner in [(area.right, area.top), (area.right, area.bottom), (area.left, area.bottom)] {
        path.line_to(corner);
    }
    path.close();
    path.0 + &shape.outline.0
}
