//! Reads the whole history of metrics. Each stage is read over the range in which it answers readers.

use std::sync::Arc;

use plumbago_store::{FetchError, FetchRequest, History, HistoryStage, StoreError};

use super::stopping;
use crate::engine::Engine;

pub(super) async fn histories(engine: &Engine, names: &[&str]) -> Result<Vec<Option<History>>, StoreError> {
    let now = engine.parts().clock.now();
    let stored = engine.parts().metadata.get(names).await?;
    let mut histories = Vec::with_capacity(names.len());
    for (name, meta) in names.iter().zip(stored) {
        let Some(meta) = meta else {
            histories.push(None);
            continue;
        };
        let mut stages = Vec::new();
        for stage in meta.config.retention.stages() {
            let from = now - stage.duration() as i64;
            let request =
                FetchRequest { names: vec![Arc::from(*name)], from, until: now, now, slots_max: usize::MAX };
            let series = plumbago_store::SeriesSource::fetch(&engine.reader(), &request).await;
            let series = series.map_err(|error| match error {
                FetchError::Store(error) => error,
                other => stopping(other),
            })?;
            let points = series.into_iter().flat_map(|series| {
                let (start, step) = (series.start, i64::from(series.step));
                let known = series.values.into_iter().enumerate().filter(|(_, value)| !value.is_nan());
                let time = move |at: usize| u32::try_from(start + step * at as i64).unwrap_or(0);
                known.map(move |(at, value)| (time(at), value)).collect::<Vec<_>>()
            });
            stages.push(HistoryStage {
                resolution: stage.resolution,
                points: points.collect(),
                ..HistoryStage::default()
            });
        }
        histories.push(Some(History { name: (*name).to_owned(), config: meta.config, stages }));
    }
    Ok(histories)
}
