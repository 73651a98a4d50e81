//! Series into pictures: SVG text, or the PNG of it.
//!
//! Pure and synchronous. Must not know: the target language, HTTP, stores. [`Options`] are what
//! Graphite's parameters say, [`svg`] lays a graph out, and [`png`] paints it with the fonts in
//! this crate; nothing is read from the machine but its time zones. Start at `plot` (lines and areas)
//! and `axis` (which numbers stand beside them).

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

/// What is drawn.
#[derive(Debug, Clone)]
pub enum Content {
    /// `graphType=line`.
    Lines(Vec<Series>),
    /// `graphType=pie`.
    Pie(Vec<Slice>),
}

/// A graph as an SVG document.
pub fn svg(options: &Options, content: Content) -> Result<String, GraphError> {
    match content {
        Content::Lines(series) => plot::draw(options, series),
        Content::Pie(slices) => pie::draw(options, slices),
    }
}
