//! The fonts of this crate, and measuring texts in them.

use std::sync::{Arc, LazyLock};

use resvg::usvg::fontdb::Database;
use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::GlyphMetrics;
use skrifa::{FontRef, MetadataProvider};

/// DejaVu Sans, reduced to Latin, Greek and Cyrillic letters. `fonts/README.md` says how it was made.
const REGULAR: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../fonts/DejaVuSans-Bold.ttf");
const OBLIQUE: &[u8] = include_bytes!("../fonts/DejaVuSans-Oblique.ttf");

/// The family name of the fonts.
pub(crate) const FAMILY: &str = "DejaVu Sans";

/// The fonts for painting. Fonts of the machine are not used, so that pictures look the same everywhere.
pub(crate) fn database() -> Arc<Database> {
    static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
        let mut fonts = Database::new();
        for font in [REGULAR, BOLD, OBLIQUE] {
            fonts.load_font_data(font.to_vec());
        }
        fonts.set_sans_serif_family(FAMILY);
        fonts.set_serif_family(FAMILY);
        fonts.set_monospace_family(FAMILY);
        fonts.set_cursive_family(FAMILY);
        fonts.set_fantasy_family(FAMILY);
        Arc::new(fonts)
    });
    Arc::clone(&FONTS)
}

/// How texts look.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Style {
    /// The font name of the request, if it is not the default.
    pub(crate) family: Option<String>,
    pub(crate) size: f64,
    pub(crate) is_bold: bool,
    pub(crate) is_italic: bool,
}

/// A font in one size, for measuring texts.
pub(crate) struct Font {
    pub(crate) style: Style,
    glyphs: Option<(Charmap<'static>, GlyphMetrics<'static>)>,
}

/// The ascent of DejaVu Sans, relative to the font size.
const ASCENT: f64 = 0.928;
const DESCENT: f64 = 0.236;
/// The width of a letter that the font does not have, relative to the font size.
const UNKNOWN: f64 = 0.6;

impl Font {
    pub(crate) fn new(style: Style) -> Self {
        let bytes = match (style.is_bold, style.is_italic) {
            (true, _) => BOLD,
            (false, true) => OBLIQUE,
            (false, false) => REGULAR,
        };
        let size = Size::new(style.size as f32);
        let glyphs = FontRef::new(bytes)
            .ok()
            .map(|font| (font.charmap(), font.glyph_metrics(size, LocationRef::default())));
        Self { style, glyphs }
    }

    /// The same font at another size.
    pub(crate) fn sized(&self, size: f64) -> Self {
        Self::new(Style { size, ..self.style.clone() })
    }

    pub(crate) fn width(&self, text: &str) -> f64 {
        text.chars().map(|letter| self.advance(letter)).sum()
    }

    fn advance(&self, letter: char) -> f64 {
        let known = self.glyphs.as_ref().and_then(|(letters, metrics)| {
            letters.map(letter).and_then(|glyph| metrics.advance_width(glyph))
        });
        known.map_or(UNKNOWN * self.style.size, f64::from)
    }

    pub(crate) fn ascent(&self) -> f64 {
        (ASCENT * self.style.size).ceil()
    }

    pub(crate) fn descent(&self) -> f64 {
        (DESCENT * self.style.size).ceil()
    }

    pub(crate) fn height(&self) -> f64 {
        ((ASCENT + DESCENT) * self.style.size).ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_measured() {
        let style = Style { family: None, size: 10.0, is_bold: false, is_italic: false };
        let font = Font::new(style.clone());
        assert!((font.width("0000") - 25.4).abs() < 0.2, "{}", font.width("0000"));
        assert!(font.width("WW") > font.width("ii") * 2.0);
        assert_eq!(font.width("\u{65e5}"), 6.0);
        assert!(Font::new(Style { is_bold: true, ..style }).width("m") > font.width("m"));
        assert_eq!(font.sized(20.0).width("x"), 2.0 * font.width("x"));
    }

    #[test]
    fn all_faces_are_there() {
        assert_eq!(database().faces().count(), 3);
        assert!(database().faces().all(|face| face.families.iter().any(|(name, _)| name == FAMILY)));
    }
}
