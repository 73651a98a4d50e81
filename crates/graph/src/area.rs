//! Areas on top of each other.
//!
//! Each area reaches from its values to zero, and shows where those before it leave it room. So they
//! are painted from the last to the first; one that is to be left out cuts its room out of what was
//! painted before it.

use crate::canvas::{Area, Canvas, Path};
use crate::color::Color;

/// An area to be painted.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) outline: Path,
    pub(crate) color: Color,
    pub(crate) alpha: Option<f64>,
    /// Left out: nothing is painted in its place.
    pub(crate) is_gap: bool,
}

/// Each gap is a layer of its own while a picture is painted; those beyond this are not cut out.
const GAPS_MAX: usize = 4;

/// Paints areas, given in their order from zero on, within `area`.
pub(crate) fn paint(canvas: &mut Canvas, shapes: &[Shape], area: Area) {
    let mut opacities = shapes.iter().filter(|s| !s.is_gap).map(|s| s.color.opacity(s.alpha));
    let first = opacities.next().unwrap_or(1.0);
    // Areas of one opacity fade together: what lies below another does not shine through.
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

/// All but the outline of a shape.
fn outside(shape: &Shape, area: Area) -> String {
    let mut path = Path::default();
    path.move_to((area.left, area.top));
    for corner in [(area.right, area.top), (area.right, area.bottom), (area.left, area.bottom)] {
        path.line_to(corner);
    }
    path.close();
    path.0 + &shape.outline.0
}
