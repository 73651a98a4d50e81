//! Reads the whole history of metrics. Each stage is read over the range in which it answers readers.

use plumbago_model::Stage;
use plumbago_store::{FetchError, History, HistoryStage, ShownSlots, StoreError};

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
            let points = shown(engine, name, *stage, now).await.map_err(|error| match error {
                FetchError::Store(error) => error,
                other => stopping(other),
            })?;
            let resolution = stage.resolution;
            stages.push(HistoryStage { resolution, points, ..HistoryStage::default() });
        }
        histories.push(Some(History { name: (*name).to_owned(), config: meta.config, stages }));
    }
    Ok(histories)
}

/// The slots of a stage that readers see.
async fn shown(engine: &Engine, name: &str, stage: Stage, now: i64) -> Result<Vec<(u32, f64)>, FetchError> {
    let reader = engine.reader();
    let range = (now - stage.duration() as i64, now);
    let mut slots = ShownSlots::new(&reader, name, stage, range);
    let mut points = Vec::new();
    while let Some(part) = slots.read_part().await? {
        points.extend(part.into_iter().map(|(time, value)| (u32::try_from(time).unwrap_or(0), value)));
    }
    Ok(points)
}
