//! Colours by Graphite's names.

use crate::error::{GraphError, shortened};

/// A colour and its opacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Color {
    /// Red, green and blue, from 0 to 255.
    pub rgb: (u8, u8, u8),
    /// Opacity from 0 (invisible) to 1. `None` if the text did not give one.
    pub alpha: Option<f64>,
}

/// Graphite's colour names. They differ from those of HTML: `red` is darker, and `darkred` is lighter.
const NAMES: [(&str, (u8, u8, u8)); 22] = [
    ("aqua", (0, 150, 150)),
    ("black", (0, 0, 0)),
    ("blue", (100, 100, 255)),
    ("brown", (150, 100, 50)),
    ("cyan", (0, 255, 255)),
    ("darkblue", (0, 0, 255)),
    ("darkgray", (111, 111, 111)),
    ("darkgreen", (0, 255, 0)),
    ("darkgrey", (111, 111, 111)),
    ("darkred", (255, 0, 0)),
    ("gold", (200, 200, 0)),
    ("gray", (175, 175, 175)),
    ("green", (0, 200, 0)),
    ("grey", (175, 175, 175)),
    ("magenta", (255, 0, 255)),
    ("orange", (255, 165, 0)),
    ("pink", (255, 100, 100)),
    ("purple", (200, 100, 255)),
    ("red", (200, 0, 50)),
    ("rose", (200, 150, 200)),
    ("white", (255, 255, 255)),
    ("yellow", (255, 255, 0)),
];

impl Color {
    /// The outline of legend boxes.
    pub(crate) const OUTLINE: Self = Self { rgb: (111, 111, 111), alpha: None };
    /// The colour of the text "No Data".
    pub(crate) const WARNING: Self = Self { rgb: (200, 0, 50), alpha: None };

    /// Reads a colour name of Graphite, or six or eight hexadecimal digits with or without `#`.
    ///
    /// # Errors
    ///
    /// Returns [`GraphError::Color`] for any other text.
    pub fn parse(text: &str) -> Result<Self, GraphError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("transparent") {
            return Ok(Self { rgb: (255, 255, 255), alpha: Some(0.0) });
        }
        if let Some((_, rgb)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Self { rgb: *rgb, alpha: None });
        }
        let digits = text.strip_prefix("%23").or_else(|| text.strip_prefix('#')).unwrap_or(text);
        Self::of_digits(digits).ok_or_else(|| GraphError::Color(shortened(text)))
    }

    fn of_digits(digits: &str) -> Option<Self> {
        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hex || !matches!(digits.len(), 6 | 8) {
            return None;
        }
        let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let alpha = pair(6).map(|alpha| f64::from(alpha) / 255.0);
        Some(Self { rgb: (pair(0)?, pair(2)?, pair(4)?), alpha })
    }

    /// The opacity of the colour; `alpha` if the colour has none, and 1 if that is `None`.
    pub(crate) fn opacity(self, alpha: Option<f64>) -> f64 {
        self.alpha.or(alpha).unwrap_or(1.0).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_digits() {
        assert_eq!(Color::parse("blue").unwrap().rgb, (100, 100, 255));
        for text in ["ff8000", "#ff8000", "%23ff8000", " FF8000 "] {
            assert_eq!(Color::parse(text).unwrap(), Color { rgb: (255, 128, 0), alpha: None });
        }
        assert_eq!(Color::parse("#00000080").unwrap().opacity(Some(1.0)), 128.0 / 255.0);
        assert_eq!(Color::parse("000000").unwrap().opacity(Some(7.0)), 1.0);
        for text in ["", "#", "blu", "ff80", "ff80000", "gggggg", "ééé", "-12345"] {
            assert!(Color::parse(text).is_err(), "{text}");
        }
    }
}
