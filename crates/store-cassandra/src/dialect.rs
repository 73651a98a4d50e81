//! Converts between BigGraphite's `config` map and our settings of a metric.

use std::collections::HashMap;

use plumbago_model::{Aggregation, MetricConfig, Retention, Stage};

/// A key that we add to BigGraphite's map: the aggregation method, if BigGraphite has no name for it.
const TRUE_METHOD: &str = "plumbago_aggregator";

/// The `config` map for the settings of a metric. BigGraphite knows five aggregation methods. For any other method,
/// its key `aggregator` gets the most similar of the five, and a key of ours gets the real method.
pub fn config_to_map(config: &MetricConfig) -> HashMap<String, String> {
    let (name, exact) = nearest(config.aggregation);
    let mut map = HashMap::from([
        ("aggregator".to_owned(), name.to_owned()),
        ("retention".to_owned(), retention_text(&config.retention)),
        ("carbon_xfilesfactor".to_owned(), format!("{:.6}", config.x_files_factor)),
    ]);
    if !exact {
        map.insert(TRUE_METHOD.to_owned(), config.aggregation.to_string());
    }
    map
}

/// Reads the settings of a metric from a `config` map. Absent keys have BigGraphite's defaults; unknown keys are
/// ignored.
///
/// # Errors
/// The key and the value that cannot be understood.
pub fn config_from_map(map: &HashMap<String, String>) -> Result<MetricConfig, String> {
    let method = map.get(TRUE_METHOD).or_else(|| map.get("aggregator"));
    let aggregation = method
        .map_or(Ok(Aggregation::Average), |name| name.parse())
        .map_err(|_| format!("aggregator {method:?}"))?;
    let retention = map.get("retention").map_or("86400*1s:10080*60s", String::as_str);
    let retention = stages(retention).ok_or_else(|| format!("retention {retention:?}"))?;
    let x_files_factor = match map.get("carbon_xfilesfactor") {
        None => 0.5,
        Some(text) => text
            .parse()
            .ok()
            .filter(|factor| (0.0..=1.0).contains(factor))
            .ok_or_else(|| format!("carbon_xfilesfactor {text:?}"))?,
    };
    Ok(MetricConfig { retention, aggregation, x_files_factor })
}

/// BigGraphite's name for the most similar method, and whether it is exactly this method.
fn nearest(method: Aggregation) -> (&'static str, bool) {
    match method {
        Aggregation::Average => ("average", true),
        Aggregation::Sum => ("total", true),
        Aggregation::Min => ("minimum", true),
        Aggregation::Max => ("maximum", true),
        Aggregation::Last => ("last", true),
        Aggregation::AvgZero => ("average", false),
        Aggregation::Count => ("total", false),
        Aggregation::AbsMax => ("maximum", false),
        Aggregation::AbsMin => ("minimum", false),
        Aggregation::Percentile(_) => ("last", false),
    }
}

/// BigGraphite's spelling of a retention: `points*resolution` joined by `:`, e.g. `86400*1s:10080*60s`.
fn retention_text(retention: &Retention) -> String {
    let stages: Vec<String> =
        retention.stages().iter().map(|s| format!("{}*{}s", s.points, s.resolution)).collect();
    stages.join(":")
}

/// Parses a retention in carbon's spelling (`60s:7d,15m:2y`) or BigGraphite's (`10080*60s:70080*900s`).
///
/// # Errors
/// A message for the user, if the text is not a valid retention in either spelling.
pub fn parse_retention(text: &str) -> Result<Retention, String> {
    if text.contains('*') {
        stages(text).ok_or_else(|| format!("{text:?} is not a retention, like 10080*60s:70080*900s"))
    } else {
        text.parse().map_err(|error: plumbago_model::RetentionError| error.to_string())
    }
}

/// Parses BigGraphite's spelling of a retention. Only BigGraphite's rules apply: whisper's are stricter and
/// would refuse metrics that BigGraphite serves.
fn stages(text: &str) -> Option<Retention> {
    let stages: Option<Vec<Stage>> = text.split(':').map(parse_stage).collect();
    Retention::of_stages(stages?).ok()
}

fn parse_stage(text: &str) -> Option<Stage> {
    let (points, resolution) = text.trim().split_once('*')?;
    let resolution: u32 = resolution.strip_suffix('s')?.parse().ok()?;
    let points: u32 = points.parse().ok()?;
    let fits =
        resolution > 0 && points > 0 && u64::from(resolution) * u64::from(points) <= u64::from(u32::MAX);
    fits.then_some(Stage { resolution, points })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(retention: &str, aggregation: Aggregation, x_files_factor: f64) -> MetricConfig {
        MetricConfig { retention: retention.parse().unwrap(), aggregation, x_files_factor }
    }

    #[test]
    fn maps_are_those_of_biggraphite() {
        let map = config_to_map(&config("1s:1d,60s:7d", Aggregation::Sum, 0.5));
        assert_eq!(map["aggregator"], "total");
        assert_eq!(map["retention"], "86400*1s:10080*60s");
        assert_eq!(map["carbon_xfilesfactor"], "0.500000");
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn every_method_reads_back() {
        for name in [
            "average", "sum", "min", "max", "last", "avg_zero", "count", "absmax", "absmin", "median", "p999",
        ] {
            let config = config("60s:1d,3600s:1y", name.parse().unwrap(), 0.25);
            assert_eq!(config_from_map(&config_to_map(&config)), Ok(config), "{name}");
        }
    }

    #[test]
    fn retentions_in_both_spellings() {
        assert_eq!(parse_retention("10080*60s:70080*900s"), parse_retention("60s:7d,15m:2y"));
        assert!(parse_retention("60*60s:x").is_err() && parse_retention("60s").is_err());
    }

    #[test]
    fn what_others_write_is_understood() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<HashMap<_, _>>()
        };
        let default = config("1s:1d,60s:7d", Aggregation::Average, 0.5);
        assert_eq!(config_from_map(&map(&[])), Ok(default));
        let read =
            config_from_map(&map(&[("aggregator", "sum"), ("retention", "60*60s"), ("x", "y")])).unwrap();
        assert_eq!((read.aggregation, read.retention.to_string().as_str()), (Aggregation::Sum, "60s:3600s"));
        // Whisper would refuse this: half a day of raw points below a stage of one-day windows.
        let pairs = [("retention", "720*60s:1825*86400s")];
        let read = config_from_map(&map(&pairs)).unwrap();
        assert_eq!(config_to_map(&read)["retention"], pairs[0].1);
        for wrong in [
            ("aggregator", "p95.5"),
            ("retention", "60s:1d"),
            ("retention", "0*60s"),
            ("retention", ""),
            ("carbon_xfilesfactor", "NaN"),
        ] {
            assert!(config_from_map(&map(&[wrong])).is_err(), "{wrong:?}");
        }
    }
}
