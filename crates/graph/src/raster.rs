//! Paints SVG as PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{ImageHrefResolver, Options as Parsing, Tree};

use crate::error::GraphError;
use crate::font::{self, FAMILY};
use crate::options::Options;

/// Paints a document made by [`crate::svg`] as a PNG file. Only the fonts of this crate are used, and other
/// files that the document refers to are ignored.
///
/// # Errors
///
/// Returns [`GraphError::Paint`] if the text is not an SVG document, or too large to be painted.
pub fn png(svg: &str) -> Result<Vec<u8>, GraphError> {
    let parsing = Parsing {
        fontdb: font::database(),
        font_family: FAMILY.to_owned(),
        image_href_resolver: ImageHrefResolver {
            resolve_data: Box::new(|_, _, _| None),
            resolve_string: Box::new(|_, _| None),
        },
        ..Parsing::default()
    };
    let paint = |reason: String| GraphError::Paint(reason);
    let tree = Tree::from_str(svg, &parsing).map_err(|error| paint(error.to_string()))?;
    let size = tree.size().to_int_size();
    if u64::from(size.width()) * u64::from(size.height()) > Options::PIXELS_MAX {
        return Err(paint("it is too large".to_owned()));
    }
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| paint("it has no size".to_owned()))?;
    resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| paint(error.to_string()))
}
