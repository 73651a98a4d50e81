//! Reports metrics whose senders send more often than the retention keeps points.

use std::time::{Duration, Instant};

use plumbago_engine::{CrowdedMetric, CrowdedMetrics, Engine};
use plumbago_model::{Period, StorageRules};
use plumbago_telemetry::{Conditions, Severity};
use tokio_util::sync::CancellationToken;

use super::rules;

/// Name of the condition.
pub(super) const RETENTION: &str = "retention";
/// Pause between two checks.
const PAUSE: Duration = Duration::from_secs(5);
/// While the condition holds, it is logged again after this time.
const LOG_EVERY: Duration = Duration::from_secs(86_400);

/// Keeps the condition up to date until `stop`.
pub(super) async fn run(engine: Engine, rules: rules::Live, conditions: Conditions, stop: CancellationToken) {
    let mut logged: Option<Instant> = None;
    while stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let Ok(found) = engine.crowded().await else { return };
        let text = text(&found, &rules.load());
        if let Some(text) = &text
            && logged.is_some_and(|at| at.elapsed() >= LOG_EVERY)
        {
            tracing::info!(condition = RETENTION, "{text}");
            logged = Some(Instant::now());
        }
        if text.is_some() && logged.is_none() {
            // The beginning of the condition has been logged already.
            logged = Some(Instant::now());
        }
        conditions.set(Severity::Hint, RETENTION, text);
    }
}

/// The text of the condition; `None` if no metric was found.
fn text(found: &CrowdedMetrics, rules: &StorageRules) -> Option<String> {
    let CrowdedMetric { name, raw, interval } = found.examples.first()?;
    let rule =
        rules.schema_for(name).map_or_else(|| "no rule matches".to_owned(), |rule| format!("rule [{rule}]"));
    let (interval, resolution) =
        (Period::seconds(u64::from(*interval)), Period::seconds(u64::from(raw.resolution)));
    Some(format!(
        "{} or more metrics get several points for each slot of their raw stage, and only the last one is kept: {name} \
         gets a point every {interval}, but keeps one for every {resolution} ({rule}). To keep all of them, let the \
         retentions of the rule begin with {interval}:… (storage_schemas) and reload; metrics that exist already get \
         them by `plumbago rules apply`",
        found.count
    ))
}

#[cfg(test)]
mod tests {
    use plumbago_model::Stage;

    use super::*;

    #[test]
    fn the_text_names_the_rule_and_the_resolution_to_use() {
        let rules = StorageRules::parse(Some("[col]\npattern = ^col\nretentions = 60s:1d\n"), None).0;
        assert_eq!(text(&CrowdedMetrics::default(), &rules), None);
        let raw = Stage { resolution: 60, points: 1440 };
        let example = CrowdedMetric { name: "col.cpu".to_owned(), raw, interval: 10 };
        let found = CrowdedMetrics { count: 3, examples: vec![example] };
        let text = text(&found, &rules).unwrap();
        for part in ["3 or more metrics", "col.cpu gets a point every 10s", "[col]", "begin with 10s:"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
