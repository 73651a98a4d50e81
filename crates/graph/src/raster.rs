//! SVG to PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{ImageHrefResolver, Options as Parsing, Tree};

use crate::error::GraphError;
use crate::font::{self, FAMILY};
use crate::options::Options;

/// A document of [`crate::svg`] as a PNG file. Fonts are those of this crate, and pictures that a
/// document refers to are not looked for.
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
