//! Writes SVG text, element by element.

use std::fmt::Write as _;

use crate::color::Color;
use crate::font::{FAMILY, Font};

/// A rectangle of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// The horizontal position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Center,
    Right,
}

/// The vertical position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Height {
    Top,
    Middle,
    Baseline,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) color: Color,
    pub(crate) alpha: Option<f64>,
    pub(crate) width: f64,
    pub(crate) dash: Option<f64>,
}

impl Stroke {
    pub(crate) fn thin(color: Color, width: f64) -> Self {
        Self { color, alpha: None, width, dash: None }
    }
}

/// The shortest dash in pixels. Shorter ones look like a solid line and are slow to draw.
const DASH_MIN: f64 = 0.5;

/// An SVG document that is being written.
pub(crate) struct Canvas {
    text: String,
    height: f64,
    /// The number of clip paths so far. It determines their ids.
    clips: usize,
}

impl Canvas {
    pub(crate) fn new(width: u32, height: u32) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}px\" height=\"{height}px\" \
             viewBox=\"0 0 {width} {height}\" version=\"1.1\">\n"
        );
        Self { text, height: f64::from(height), clips: 0 }
    }

    /// Returns the finished document.
    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    /// Whether a stripe with the upper edge `top` and a height of `height` pixels is at least partly inside
    /// the picture.
    pub(crate) fn shows(&self, top: f64, height: f64) -> bool {
        top + height >= 0.0 && top <= self.height
    }

    /// Opens a group with a class that scripts can find. [`Canvas::close`] ends it.
    pub(crate) fn open(&mut self, class: &str) {
        let _ = writeln!(self.text, "<g class=\"{class}\">");
    }

    /// Opens a group that is painted only inside a rectangle.
    pub(crate) fn open_clipped(&mut self, class: &str, area: Area) {
        let id = self.next_clip();
        let (width, height) = (area.right - area.left, area.bottom - area.top);
        let _ = write!(self.text, "<clipPath id=\"{id}\"><rect");
        self.rectangle(area.left, area.top, width, height);
        let _ = writeln!(self.text, "/></clipPath>\n<g class=\"{class}\" clip-path=\"url(#{id})\">");
    }

    /// Opens a group that is painted only inside an outline, by the even-odd rule.
    pub(crate) fn open_within(&mut self, outline: &str) {
        let id = self.next_clip();
        let _ = writeln!(
            self.text,
            "<clipPath id=\"{id}\"><path clip-rule=\"evenodd\" d=\"{outline}\"/></clipPath>\n<g clip-path=\"url(#{id})\">"
        );
    }

    /// Opens a group that is painted with an opacity, as a whole.
    pub(crate) fn open_faded(&mut self, opacity: f64) {
        self.text.push_str("<g opacity=\"");
        push_number(&mut self.text, opacity);
        self.text.push_str("\">\n");
    }

    pub(crate) fn close(&mut self) {
        self.text.push_str("</g>\n");
    }

    fn next_clip(&mut self) -> String {
        self.clips += 1;
        format!("clip{}", self.clips)
    }

    pub(crate) fn fill_rectangle(&mut self, area: Area, color: Color) {
        self.text.push_str("<rect");
        self.rectangle(area.left, area.top, area.right - area.left, area.bottom - area.top);
        self.fill(color, None);
        self.text.push_str("/>\n");
    }

    /// Draws the border of a rectangle, inside the rectangle.
    pub(crate) fn stroke_rectangle(&mut self, area: Area, stroke: Stroke) {
        let half = stroke.width / 2.0;
        let (width, height) = (area.right - area.left - half, area.bottom - area.top - half);
        self.text.push_str("<rect");
        self.rectangle(area.left + half, area.top + half, width, height);
        self.text.push_str(" fill=\"none\"");
        self.stroke(stroke);
        self.text.push_str("/>\n");
    }

    pub(crate) fn stroke_path(&mut self, path: &str, stroke: Stroke) {
        if !path.is_empty() && stroke.width > 0.0 {
            let _ = write!(self.text, "<path fill=\"none\" d=\"{path}\"");
            self.stroke(stroke);
            self.text.push_str("/>\n");
        }
    }

    pub(crate) fn fill_path(&mut self, path: &str, color: Color, alpha: Option<f64>) {
        if !path.is_empty() {
            let _ = write!(self.text, "<path d=\"{path}\"");
            self.fill(color, alpha);
            self.text.push_str("/>\n");
        }
    }

    /// Writes a text, turned clockwise by `degrees` around its point.
    pub(crate) fn write(
        &mut self,
        text: &str,
        font: &Font,
        color: Color,
        point: (f64, f64),
        (align, height): (Align, Height),
        degrees: f64,
    ) {
        if text.trim().is_empty() {
            return;
        }
        // Texts are anchored at their left edge, so that a viewer with other fonts does not shift them.
        let width = font.width(text);
        let right = match align {
            Align::Left => 0.0,
            Align::Center => -width / 2.0,
            Align::Right => -width,
        };
        let down = match height {
            Height::Top => font.ascent(),
            Height::Middle => font.height() / 2.0 - font.descent(),
            Height::Baseline => 0.0,
        };
        self.text.push_str("<text");
        if degrees == 0.0 {
            self.attribute("x", point.0 + right);
            self.attribute("y", point.1 + down);
        } else {
            self.attribute("x", right);
            self.attribute("y", down);
            self.text.push_str(" transform=\"translate(");
            push_number(&mut self.text, point.0);
            self.text.push(' ');
            push_number(&mut self.text, point.1);
            self.text.push_str(") rotate(");
            push_number(&mut self.text, degrees);
            self.text.push_str(")\"");
        }
        self.font(font);
        self.fill(color, None);
        self.text.push('>');
        push_escaped(&mut self.text, text);
        self.text.push_str("</text>\n");
    }

    fn font(&mut self, font: &Font) {
        self.text.push_str(" font-family=\"");
        if let Some(family) = &font.style.family {
            push_escaped(&mut self.text, &family.replace(['\'', '"', ',', ';', '\\'], " "));
            self.text.push_str(", ");
        }
        let _ = write!(self.text, "'{FAMILY}', sans-serif\"");
        self.attribute("font-size", font.style.size);
        if font.style.is_bold {
            self.text.push_str(" font-weight=\"bold\"");
        }
        if font.style.is_italic {
            self.text.push_str(" font-style=\"italic\"");
        }
        self.text.push_str(" xml:space=\"preserve\"");
    }

    fn rectangle(&mut self, left: f64, top: f64, width: f64, height: f64) {
        self.attribute("x", left);
        self.attribute("y", top);
        self.attribute("width", width.max(0.0));
        self.attribute("height", height.max(0.0));
    }

    fn fill(&mut self, color: Color, alpha: Option<f64>) {
        self.paint("fill", color, alpha);
    }

    fn stroke(&mut self, stroke: Stroke) {
        self.paint("stroke", stroke.color, stroke.alpha);
        self.attribute("stroke-width", stroke.width);
        if let Some(dash) = stroke.dash.filter(|dash| *dash >= DASH_MIN) {
            self.attribute("stroke-dasharray", dash);
            self.attribute("stroke-dashoffset", 1.0);
        }
    }

    fn paint(&mut self, kind: &str, color: Color, alpha: Option<f64>) {
        let (red, green, blue) = color.rgb;
        let _ = write!(self.text, " {kind}=\"#{red:02x}{green:02x}{blue:02x}\"");
        let opacity = color.opacity(alpha);
        if opacity < 1.0 {
            let _ = write!(self.text, " {kind}-opacity=\"{opacity:.3}\"");
        }
    }

    fn attribute(&mut self, name: &str, value: f64) {
        let _ = write!(self.text, " {name}=\"");
        push_number(&mut self.text, value);
        self.text.push('"');
    }
}

/// The data of an SVG path.
#[derive(Debug, Default, Clone)]
pub(crate) struct Path(pub(crate) String);

impl Path {
    pub(crate) fn move_to(&mut self, point: (f64, f64)) {
        self.step('M', point);
    }

    pub(crate) fn line_to(&mut self, point: (f64, f64)) {
        self.step('L', point);
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.move_to(from);
        self.line_to(to);
    }

    pub(crate) fn close(&mut self) {
        self.0.push('Z');
    }

    fn step(&mut self, command: char, point: (f64, f64)) {
        self.0.push(command);
        push_number(&mut self.0, point.0);
        self.0.push(' ');
        push_number(&mut self.0, point.1);
    }
}

/// Writes a number rounded to a hundredth of a pixel, in the shortest form.
fn push_number(out: &mut String, value: f64) {
    /// The largest coordinate. SVG programs lose precision beyond it.
    const FAR: f64 = 1e6;
    let hundredths = if value.is_nan() { 0 } else { (value.clamp(-FAR, FAR) * 100.0).round() as i64 };
    if hundredths < 0 {
        out.push('-');
    }
    let (whole, part) = (hundredths.abs() / 100, hundredths.abs() % 100);
    let _ = match part {
        0 => write!(out, "{whole}"),
        part if part % 10 == 0 => write!(out, "{whole}.{}", part / 10),
        part => write!(out, "{whole}.{part:02}"),
    };
}

/// Writes a text escaped for XML.
fn push_escaped(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}');
            }
            letter => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let text = |value| {
            let mut out = String::new();
            push_number(&mut out, value);
            out
        };
        for (value, shown) in [
            (0.0, "0"),
            (-0.001, "0"),
            (-0.5, "-0.5"),
            (12.345, "12.35"),
            (-7.05, "-7.05"),
            (f64::NAN, "0"),
            (f64::INFINITY, "1000000"),
        ] {
            assert_eq!(text(value), shown);
        }
    }

    #[test]
    fn texts_are_xml() {
        let mut out = String::new();
        push_escaped(&mut out, "a<b>&\"c\"\u{0}\u{7f}\n\u{ffff}é");
        assert_eq!(out, "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\u{fffd} \u{fffd}é");
    }
}
