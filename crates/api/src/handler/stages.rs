//! The stages from which the series of an answer were read.

use std::collections::HashMap;
use std::sync::Arc;

use plumbago_render::TimeSeries;

use crate::state::Api;

/// With more series than this, stages are not looked up.
const SERIES_MAX: usize = 200;

/// For each metric name: its retention, and the number of the stage whose resolution is the step of the
/// series.
pub(super) type Stages = HashMap<Arc<str>, (String, usize)>;

/// Looks up the stages of series. The results of functions have none. Metrics whose settings cannot be read
/// at the moment are left out too, because a missing entry in the legend must not make the request fail.
pub(super) async fn of(api: &Api, series: &[TimeSeries]) -> Stages {
    if series.len() > SERIES_MAX {
        return Stages::new();
    }
    let named: Vec<&TimeSeries> = series.iter().filter(|one| !one.name.contains('(')).collect();
    let names: Vec<&str> = named.iter().map(|one| &*one.name).collect();
    let Ok(configs) = api.metadata.configs(&names).await else { return Stages::new() };
    let stage = |(one, config): (&&TimeSeries, Option<Arc<plumbago_model::MetricConfig>>)| {
        let config = config?;
        let stages = config.retention.stages();
        let number = stages.iter().position(|stage| i64::from(stage.resolution) == one.step)?;
        Some((Arc::clone(&one.name), (config.retention.to_string(), number)))
    };
    named.iter().zip(configs).filter_map(stage).collect()
}
