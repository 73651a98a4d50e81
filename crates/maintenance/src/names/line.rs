//! A line of a list of names: `name [retention [method [xFilesFactor]]]`. No I/O.

use plumbago_model::retention::RetentionError;
use plumbago_model::tags::canonical;
use plumbago_model::{Aggregation, MetricConfig, Retention, Stage};

/// A name with the settings in its line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) retention: Option<Retention>,
    pub(super) aggregation: Option<Aggregation>,
    pub(super) factor: Option<f64>,
}

impl Line {
    /// Parses a line. `None` if it is empty or a comment.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        // Some editors begin a file with a byte order mark.
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let mut fields = text.split_whitespace();
        let name = canonical(fields.next().unwrap_or_default()).map_err(|error| error.to_string())?;
        let line = Self {
            name,
            retention: fields.next().map(retention).transpose()?,
            aggregation: fields.next().map(aggregation).transpose()?,
            factor: fields.next().map(factor).transpose()?,
        };
        match fields.next() {
            None => Ok(Some(line)),
            Some(more) => Err(format!("{more:?} is one field too many")),
        }
    }

    /// The settings of the line; settings that it lacks are taken from the storage rules.
    pub(super) fn config(&self, rules: &MetricConfig) -> MetricConfig {
        MetricConfig {
            retention: self.retention.clone().unwrap_or_else(|| rules.retention.clone()),
            aggregation: self.aggregation.unwrap_or(rules.aggregation),
            x_files_factor: self.factor.unwrap_or(rules.x_files_factor),
        }
    }

    /// Whether a metric has the settings that the line gives.
    pub(super) fn fits(&self, config: &MetricConfig) -> bool {
        self.retention.as_ref().is_none_or(|retention| *retention == config.retention)
            && self.aggregation.is_none_or(|method| method == config.aggregation)
            && self.factor.is_none_or(|factor| factor == config.x_files_factor)
    }
}

/// A retention as Plumbago writes it, `60s:1d,1h:1y`, or as BigGraphite does, `1440*60s:8760*1h`.
fn retention(text: &str) -> Result<Retention, String> {
    let parsed = if text.contains('*') { biggraphites(text) } else { Retention::from_text(text) };
    parsed.map_err(|error| format!("retention {text:?}: {error}"))
}

fn biggraphites(text: &str) -> Result<Retention, RetentionError> {
    let stage = |part: &str| {
        let form = || RetentionError::Form(part.to_owned());
        let (points, precision) = part.split_once('*').ok_or_else(form)?;
        let points: u32 = points.trim().parse().map_err(|_| form())?;
        // A single slot of this precision is a complete retention.
        let one = Retention::from_text(&format!("{}:1", precision.trim()))?;
        Ok(Stage { points, ..one.finest() })
    };
    Retention::of_stages(text.split(':').map(stage).collect::<Result<_, RetentionError>>()?)
}

fn aggregation(text: &str) -> Result<Aggregation, String> {
    text.parse().map_err(|error: plumbago_model::aggregation::AggregationError| error.to_string())
}

fn factor(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|factor| (0.0..=1.0).contains(factor));
    parsed.ok_or_else(|| format!("xFilesFactor {text:?} is not a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let line = |text: &str| Line::parse(text).unwrap().unwrap();
        for text in [
            "a.b 60s:1d,1h:1y average 0.5",
            "a.b\t1440*60s:8760*1h\tavg\t0.500000",
            "  a..b 1440*60s:8760*3600s mean 0.5  ",
        ] {
            let read = line(text);
            assert_eq!(read.name, "a.b", "{text}");
            let retention = read.retention.unwrap().to_string();
            assert_eq!(retention, "60s:86400s,3600s:31536000s", "{text}");
            assert_eq!((read.aggregation, read.factor), (Some(Aggregation::Average), Some(0.5)), "{text}");
        }
        let methods = [
            ("total", Aggregation::Sum),
            ("minimum", Aggregation::Min),
            ("maximum", Aggregation::Max),
            ("last", Aggregation::Last),
        ];
        for (word, method) in methods {
            assert_eq!(line(&format!("a 60*1s {word}")).aggregation, Some(method));
        }
        assert_eq!(line("\u{feff}a.b 60s:1d").name, "a.b");
        assert_eq!(line("a;x=y;b=2").name, "a;b=2;x=y");
        assert_eq!(line("a;x=y"), Line { name: "a;x=y".to_owned(), ..Line::default() });
    }

    #[test]
    fn comments_are_left_out_and_mistakes_named() {
        assert_eq!(Line::parse("# a 60s:1d"), Ok(None));
        assert_eq!(Line::parse("  "), Ok(None));
        for (text, part) in [
            ("a 60s", "retention"),
            ("a 0*60s", "retention"),
            ("a x*60s", "retention"),
            ("a 10*60s:20*90s", "retention"),
            ("a 60s:1d middle", "middle"),
            ("a 60s:1d sum 2", "xFilesFactor"),
            ("a 60s:1d sum 0.5 more", "more"),
            ("..", "name"),
            ("a;b= 60s:1d", "tags"),
        ] {
            let why = Line::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn what_a_line_lacks_is_that_of_the_rules() {
        let rules = MetricConfig::from_text("10s:3600s sum 0.1").unwrap();
        let line = Line::parse("a 60s:1d").unwrap().unwrap();
        let config = line.config(&rules);
        assert_eq!(config.to_text(), "60s:86400s sum 0.1");
        assert!(line.fits(&config) && !line.fits(&rules));
        assert!(Line::parse("a").unwrap().unwrap().fits(&rules));
    }
}
