//! Rows of windows that are computed from all their slots at once: percentiles.

use std::collections::HashMap;

use plumbago_model::{MetricId, Window};
use plumbago_store::{Column, PointStore, ReadRequest, StoreError, WriteBatch};

use crate::late::refold::window_at;
use crate::shard::jobs::Close;

/// Windows computed so far, by metric, stage and window. Coarser ones may be computed from them.
type Computed = HashMap<(MetricId, usize, u32), Window>;

/// Computes these windows and adds their rows. Of one metric, windows of finer stages come first.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn close(
    store: &dyn PointStore,
    closes: &[Close],
    rows: &mut WriteBatch,
) -> Result<(), StoreError> {
    if closes.is_empty() {
        return Ok(());
    }
    let mut request = ReadRequest { include_retained: true, ..ReadRequest::default() };
    for close in closes {
        let (source, from, until) = slots(close);
        request.ranges.push(close.layout.range(close.id, source, from, until));
    }
    let columns = store.read(&request).await?;
    let mut computed = Computed::new();
    for (close, mut column) in closes.iter().zip(columns) {
        let window = fold(close, &mut column, &computed);
        if window.count > 0 {
            computed.insert((close.id, close.stage, close.window), window);
            let run = close.layout.run(close.id, close.stage, close.window);
            rows.push(run, &[window.value], Some(&[window.count.into()]));
        }
    }
    Ok(())
}

/// The stage that a window is computed from, and the range of slots there.
fn slots(close: &Close) -> (usize, u32, u32) {
    let source = close.layout.source(close.stage);
    let ratio = close.layout.ratio(close.stage, source);
    (source, close.window * ratio, (close.window + 1) * ratio)
}

fn fold(close: &Close, column: &mut Column, computed: &Computed) -> Window {
    let method = close.layout.config.aggregation;
    let (source, from, until) = slots(close);
    if source == 0 {
        // The store may have these slots from other writers; ours replace them.
        for (slot, value) in &close.pairs {
            if let Some(place) = column.values.get_mut((slot - from) as usize) {
                *place = *value;
            }
        }
        return method.fold_all(column.values.iter().copied());
    }
    column.merge_writers(method);
    let window = |slot: u32| {
        let known = computed.get(&(close.id, source, slot)).copied();
        known.unwrap_or_else(|| window_at(column, (slot - from) as usize))
    };
    method.merge_all((from..until).map(window))
}
