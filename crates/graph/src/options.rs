//! Graphite's parameters for graphs.

use jiff::tz::TimeZone;

use crate::color::Color;
use crate::error::{GraphError, shortened};
use crate::font::Style;
use crate::label::Units;
use crate::template::Template;

/// The parameters of a graph.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) margin: f64,
    pub(crate) background: Color,
    pub(crate) foreground: Color,
    pub(crate) major: Color,
    pub(crate) minor: Color,
    /// The colours for series without one of their own, used in turn. Never empty.
    pub(crate) colors: Vec<Color>,
    pub(crate) font: Style,
    pub(crate) title: Option<String>,
    pub(crate) left_title: Option<String>,
    pub(crate) right_title: Option<String>,
    pub(crate) legend: Legend,
    pub(crate) hide_axes: bool,
    pub(crate) hide_x_axis: bool,
    pub(crate) hide_y_axis: bool,
    pub(crate) hide_grid: bool,
    pub(crate) graph_only: bool,
    pub(crate) is_y_axis_right: bool,
    pub(crate) line_mode: LineMode,
    pub(crate) line_width: f64,
    pub(crate) connected_limit: f64,
    pub(crate) area_mode: AreaMode,
    pub(crate) area_alpha: Option<f64>,
    pub(crate) null_as_zero: bool,
    pub(crate) min_x_step: f64,
    pub(crate) minor_y: u32,
    pub(crate) divisors: Vec<u32>,
    pub(crate) units: Units,
    pub(crate) log_base: Option<f64>,
    pub(crate) y: Range,
    /// The options of the left axis, if there are two.
    pub(crate) left: Side,
    pub(crate) right: Side,
    pub(crate) x_format: Option<String>,
    pub(crate) zone: TimeZone,
    pub(crate) pie: PieLabels,
}

/// The range of an axis, as far as the request determines it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Range {
    pub(crate) min: Option<f64>,
    pub(crate) max: Max,
    /// The top of the axis if the data go higher.
    pub(crate) limit: Option<f64>,
    pub(crate) step: Option<f64>,
}

/// The top of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Max {
    /// A round number above the largest value.
    #[default]
    Round,
    /// The largest value itself.
    Largest,
    At(f64),
}

/// The options of one of two axes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Side {
    pub(crate) range: Range,
    pub(crate) color: Option<Color>,
    pub(crate) width: Option<f64>,
    pub(crate) dash: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineMode {
    Slope,
    Staircase,
    Connected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AreaMode {
    None,
    First,
    All,
    Stacked,
}

/// What the legend shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Legend {
    /// Whether to hide the legend, if the request says so. Otherwise it is hidden if there are many series.
    pub(crate) hide: Option<bool>,
    pub(crate) unique: bool,
    pub(crate) hide_null: bool,
}

/// The labels on the slices of a pie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PieLabels {
    pub(crate) shown: PieLabel,
    /// Slices with a smaller number (value or percentage, depending on the label) have no label.
    pub(crate) min: f64,
    pub(crate) color: Color,
    pub(crate) is_rotated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieLabel {
    None,
    Number,
    Percent,
}

impl Options {
    /// Maximum number of pixels of a picture: 3840 × 2160. Each layer of such a picture takes 32 MiB while it
    /// is painted.
    pub const PIXELS_MAX: u64 = 1 << 23;
    /// The largest width and height of a picture, in pixels.
    pub const SIDE_MAX: u32 = 1 << 14;

    /// Reads the options. `given` returns the value of a parameter; `zone` is the name of the time zone.
    ///
    /// # Errors
    ///
    /// Returns [`GraphError::Option`] or [`GraphError::Color`] if a value is wrong.
    pub fn parse<'a>(given: &dyn Fn(&str) -> Option<&'a str>, zone: &str) -> Result<Self, GraphError> {
        let given = Given(given);
        let (width, height) = given.size()?;
        let template = Template::named(given.text("template").unwrap_or_default());
        let colored = |name, default| given.color_or(name, default);
        let colors = given.colors("colorList")?.unwrap_or_else(|| template.line_colors());
        let title = |name| given.text(name).map(str::to_owned);
        let foreground = colored("fgcolor", template.foreground)?;
        Ok(Self {
            width,
            height,
            margin: given.number("margin")?.filter(|margin| *margin >= 0.0).unwrap_or(10.0).min(1e4),
            background: colored("bgcolor", template.background)?,
            foreground,
            major: colored("majorGridLineColor", template.major)?,
            minor: colored("minorGridLineColor", template.minor)?,
            colors,
            font: given.font()?,
            title: title("title"),
            left_title: title("vtitle"),
            right_title: title("vtitleRight"),
            legend: Legend {
                hide: given.text("hideLegend").map(is_true),
                unique: given.switch("uniqueLegend"),
                hide_null: given.switch("hideNullFromLegend"),
            },
            hide_axes: given.switch("hideAxes"),
            hide_x_axis: given.switch("hideXAxis"),
            hide_y_axis: given.switch("hideYAxis"),
            hide_grid: given.switch("hideGrid"),
            graph_only: given.switch("graphOnly"),
            is_y_axis_right: given.text("yAxisSide") == Some("right"),
            line_mode: given.line_mode()?,
            line_width: given.first_number("lineWidth", "thickness")?.unwrap_or(1.2).clamp(0.0, 1e3),
            connected_limit: given.number("connectedLimit")?.unwrap_or(f64::INFINITY),
            area_mode: given.area_mode()?,
            area_alpha: given.text("areaAlpha").map(|text| finite(text).unwrap_or(0.5)),
            null_as_zero: given.switch("drawNullAsZero"),
            min_x_step: given.number("minXStep")?.unwrap_or(1.0),
            minor_y: given.number("minorY")?.map_or(1, |count| count.clamp(0.0, 100.0) as u32),
            divisors: given.divisors()?,
            units: Units::named(given.text("yUnitSystem").unwrap_or("si")),
            log_base: given.log_base()?,
            y: Range {
                min: given.first_number("yMin", "min")?,
                ..given.range(["yMin", "yMax", "yLimit", "yStep"])?
            },
            left: given.side(
                ["yMinLeft", "yMaxLeft", "yLimitLeft", "yStepLeft"],
                ["leftColor", "leftWidth", "leftDashed"],
            )?,
            right: given.side(
                ["yMinRight", "yMaxRight", "yLimitRight", "yStepRight"],
                ["rightColor", "rightWidth", "rightDashed"],
            )?,
            x_format: title("xFormat"),
            zone: TimeZone::get(zone).unwrap_or(TimeZone::UTC),
            pie: given.pie_labels()?,
        })
    }
}

/// The parameters by name. An empty value and `default` count as missing.
struct Given<'g, 'a>(&'g dyn Fn(&str) -> Option<&'a str>);

impl<'a> Given<'_, 'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        (self.0)(name).filter(|text| !text.is_empty() && !text.eq_ignore_ascii_case("default"))
    }

    fn switch(&self, name: &str) -> bool {
        self.text(name).is_some_and(is_true)
    }

    fn number(&self, name: &'static str) -> Result<Option<f64>, GraphError> {
        let number = |text| finite(text).ok_or_else(|| wrong(name, text, "a number"));
        self.text(name).map(number).transpose()
    }

    /// An option, or its older name.
    fn first_number(&self, name: &'static str, older: &'static str) -> Result<Option<f64>, GraphError> {
        let newer = self.number(name)?;
        if newer.is_some() { Ok(newer) } else { self.number(older) }
    }

    fn size(&self) -> Result<(u32, u32), GraphError> {
        let side = |name, default| match self.text(name) {
            None => Ok(default),
            Some(text) => {
                // Scripts compute sizes from the layout of a page, with fractions.
                let side = finite(text).map(|side| side as u32);
                let side = side.filter(|side| (1..=Options::SIDE_MAX).contains(side));
                side.ok_or_else(|| wrong(name, text, "a number from 1 to 16384"))
            }
        };
        let (width, height) = (side("width", 330)?, side("height", 250)?);
        if u64::from(width) * u64::from(height) > Options::PIXELS_MAX {
            let text = format!("{width}x{height}");
            return Err(wrong("width x height", &text, "a size of at most 8388608 pixels"));
        }
        Ok((width, height))
    }

    fn color(&self, name: &str) -> Result<Option<Color>, GraphError> {
        self.text(name).map(Color::parse).transpose()
    }

    fn color_or(&self, name: &str, default: &str) -> Result<Color, GraphError> {
        self.color(name)?.map_or_else(|| Color::parse(default), Ok)
    }

    fn colors(&self, name: &str) -> Result<Option<Vec<Color>>, GraphError> {
        self.text(name).map(|text| text.split(',').map(Color::parse).collect()).transpose()
    }

    fn font(&self) -> Result<Style, GraphError> {
        let is_default = |family: &&str| !family.eq_ignore_ascii_case("sans");
        Ok(Style {
            family: self.text("fontName").filter(is_default).map(shortened),
            size: self.number("fontSize")?.unwrap_or(10.0).trunc().clamp(1.0, 200.0),
            is_bold: self.switch("fontBold"),
            is_italic: self.switch("fontItalic"),
        })
    }

    fn line_mode(&self) -> Result<LineMode, GraphError> {
        match self.text("lineMode").map(str::to_ascii_lowercase).as_deref() {
            None | Some("slope") => Ok(LineMode::Slope),
            Some("staircase") => Ok(LineMode::Staircase),
            Some("connected") => Ok(LineMode::Connected),
            Some(other) => Err(wrong("lineMode", other, "slope, staircase or connected")),
        }
    }

    fn area_mode(&self) -> Result<AreaMode, GraphError> {
        match self.text("areaMode").map(str::to_ascii_lowercase).as_deref() {
            None | Some("none") => Ok(AreaMode::None),
            Some("first") => Ok(AreaMode::First),
            Some("all") => Ok(AreaMode::All),
            Some("stacked") => Ok(AreaMode::Stacked),
            Some(other) => Err(wrong("areaMode", other, "none, first, all or stacked")),
        }
    }

    fn divisors(&self) -> Result<Vec<u32>, GraphError> {
        const NAME: &str = "yDivisors";
        let text = self.text(NAME).unwrap_or("4,5,6");
        let divisor = |part: &str| part.trim().parse().ok().filter(|divisor| (1..=1000).contains(divisor));
        let divisors: Option<Vec<u32>> = text.split(',').map(divisor).collect();
        divisors.ok_or_else(|| wrong(NAME, text, "a list of whole numbers from 1 to 1000"))
    }

    /// As in graphite-web, a base below 1 counts as missing.
    fn log_base(&self) -> Result<Option<f64>, GraphError> {
        const NAME: &str = "logBase";
        match self.text(NAME) {
            None => Ok(None),
            Some("e") => Ok(Some(std::f64::consts::E)),
            Some(text) => match finite(text) {
                Some(base) if base < 1.0 => Ok(None),
                Some(base) if base > 1.0 => Ok(Some(base.min(LOG_BASE_MAX))),
                _ => Err(wrong(NAME, text, "a number above 1, or e")),
            },
        }
    }

    fn range(&self, [min, max, limit, step]: [&'static str; 4]) -> Result<Range, GraphError> {
        let older = if max == "yMax" { "max" } else { max };
        let at = match (self.text(max), self.text(older)) {
            (Some("max"), _) | (None, Some("max")) => Max::Largest,
            _ => self.first_number(max, older)?.map_or(Max::Round, Max::At),
        };
        let step = match self.number(step)? {
            Some(size) if size <= 0.0 => return Err(wrong(step, &size.to_string(), "above 0")),
            step => step,
        };
        Ok(Range { min: self.number(min)?, max: at, limit: self.number(limit)?, step })
    }

    fn side(
        &self,
        range: [&'static str; 4],
        [color, width, dash]: [&'static str; 3],
    ) -> Result<Side, GraphError> {
        Ok(Side {
            range: self.range(range)?,
            color: self.color(color)?,
            width: self.number(width)?,
            dash: self.number(dash)?,
        })
    }

    fn pie_labels(&self) -> Result<PieLabels, GraphError> {
        let shown = match self.text("valueLabels") {
            None | Some("percent") => PieLabel::Percent,
            Some("number") => PieLabel::Number,
            Some("none") => PieLabel::None,
            Some(other) => return Err(wrong("valueLabels", other, "none, number or percent")),
        };
        Ok(PieLabels {
            shown,
            min: self.number("valueLabelsMin")?.unwrap_or(5.0),
            color: self.color_or("valueLabelsColor", "black")?,
            is_rotated: self.text("pieLabels") == Some("rotated"),
        })
    }
}

/// The largest base. With a larger base the axis would have a single step, whose end is not a finite number.
const LOG_BASE_MAX: f64 = 1e6;

/// Whether a text is neither `false` nor zero.
fn is_true(text: &str) -> bool {
    !text.eq_ignore_ascii_case("false") && finite(text) != Some(0.0)
}

/// Reads a number that is small enough to be added to others without an overflow.
fn finite(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.abs() < 1e300)
}

fn wrong(name: &'static str, value: &str, expected: &'static str) -> GraphError {
    GraphError::Option { name, value: shortened(value), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &'static str)]) -> Result<Options, GraphError> {
        Options::parse(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value), "UTC")
    }

    #[test]
    fn defaults_are_graphites() {
        for pairs in [&[][..], &[("width", ""), ("height", "default"), ("bgcolor", "DEFAULT")]] {
            let options = parse(pairs).unwrap();
            assert_eq!((options.width, options.height, options.margin), (330, 250, 10.0));
            assert_eq!((options.line_width, options.minor_y, &*options.divisors), (1.2, 1, &[4, 5, 6][..]));
            assert_eq!((options.background.rgb, options.foreground.rgb), ((255, 255, 255), (0, 0, 0)));
            assert_eq!((options.colors.len(), options.legend.hide), (12, None));
        }
    }

    #[test]
    fn older_names_and_limits_of_axes() {
        let options = parse(&[("min", "1"), ("max", "max"), ("thickness", "3"), ("yMaxLeft", "7")]).unwrap();
        assert_eq!((options.y.min, options.y.max, options.line_width), (Some(1.0), Max::Largest, 3.0));
        assert_eq!(options.left.range.max, Max::At(7.0));
        let newer = parse(&[("yMax", "5"), ("max", "9"), ("yMin", "2"), ("min", "1")]).unwrap();
        assert_eq!((newer.y.min, newer.y.max), (Some(2.0), Max::At(5.0)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value, text) in [
            ("width", "0", "width=\"0\" is not a number from 1 to 16384"),
            ("height", "-5", "height=\"-5\" is not a number from 1 to 16384"),
            ("width", "0.9", "width=\"0.9\" is not a number from 1 to 16384"),
            ("width", "16385", "width=\"16385\" is not a number from 1 to 16384"),
            ("lineWidth", "thick", "lineWidth=\"thick\" is not a number"),
            ("yMax", "NaN", "yMax=\"NaN\" is not a number"),
            ("yStep", "0", "yStep=\"0\" is not above 0"),
            ("lineMode", "round", "lineMode=\"round\" is not slope, staircase or connected"),
            ("areaMode", "x", "areaMode=\"x\" is not none, first, all or stacked"),
            ("yDivisors", "4,0", "yDivisors=\"4,0\" is not a list of whole numbers from 1 to 1000"),
            ("logBase", "1", "logBase=\"1\" is not a number above 1, or e"),
            (
                "bgcolor",
                "blau",
                "\"blau\" is not a color; write a name like blue, or hexadecimal digits RRGGBB or RRGGBBAA",
            ),
        ] {
            assert_eq!(parse(&[(name, value)]).unwrap_err().to_string(), text);
        }
        let large = parse(&[("width", "16000"), ("height", "16000")]).unwrap_err();
        assert!(large.to_string().contains("16000x16000"), "{large}");
        assert!(parse(&[("width", "3840"), ("height", "2160")]).is_ok());
    }
}
