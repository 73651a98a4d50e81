//! Draws series as SVG text, and SVG text as PNG.
//!
//! No I/O. Must not know: the target language, HTTP, stores. [`Options`] hold Graphite's parameters, [`svg`]
//! lays a graph out, and [`png`] paints it with the fonts of this crate. From the machine, only the time
//! zones are read. Start at `plot` (lines and areas) and `axis` (the numbers beside them).

mod area;
mod axis;
mod canvas;
mod color;
mod error;
mod font;
mod grid;
mod label;
mod legend;
mod lines;
mod options;
mod pie;
mod plot;
mod raster;
mod series;
mod template;
mod time_axis;

pub use color::Color;
pub use error::GraphError;
pub use options::Options;
pub use pie::{PieMode, Slice};
pub use raster::png;
pub use series::{DrawOptions, Fold, Series};

/// The data of a picture.
#[derive(Debug, Clone)]
pub enum Content {
    /// Lines and areas over time (`graphType=line`).
    Lines(Vec<Series>),
    /// A pie (`graphType=pie`).
    Pie(Vec<Slice>),
}

/// Draws a graph as an SVG document.
///
/// # Errors
///
/// Returns [`GraphError`] if a colour of a series is wrong, or if the picture exceeds a limit.
pub fn svg(options: &Options, content: Content) -> Result<String, GraphError> {
    match content {
        Content::Lines(series) => plot::draw(options, series),
        Content::Pie(slices) => pie::draw(options, slices),
    }
}
