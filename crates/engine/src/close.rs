//! The rows of windows whose method needs all their slots at once.

use std::collections::HashMap;

use plumbago_model::{MetricId, Window};
use plumbago_store::{Column, PointStore, ReadRequest, StoreError, WriteBatch};

use crate::jobs::Close;
use crate::refold::window_at;

/// Windows of one call, for those that are computed from them: metric, stage, window.
type Computed = HashMap<(MetricId, usize, u32), Window>;

/// Adds the rows of these windows. Those of a metric come by stage, finer ones first.
pub(crate) async fn close(
    store: &dyn PointStore,
    closes: &[Close],
    rows: &mut WriteBatch,
) -> Result<(), StoreError> {
    if closes.is_empty() {
        return Ok(());
    }
    let mut request = ReadRequest { forgotten_too: true, ..ReadRequest::default() };
    for close in closes {
        let (source, from, until) = slots(close);
        request.ranges.push(close.plan.range(close.id, source, from, until));
    }
    let columns = store.read(&request).await?;
    let mut computed = Computed::new();
    for (close, mut column) in closes.iter().zip(columns) {
        let window = fold(close, &mut column, &computed);
        if window.count > 0 {
            computed.insert((close.id, close.stage, close.window), window);
            let run = close.plan.run(close.id, close.stage, close.window);
            rows.push(run, &[window.value], Some(&[window.count]));
        }
    }
    Ok(())
}

/// The stage it is computed from, and its slots there.
fn slots(close: &Close) -> (usize, u32, u32) {
    let source = close.plan.source(close.stage);
    let ratio = close.plan.ratio(close.stage, source);
    (source, close.window * ratio, (close.window + 1) * ratio)
}

fn fold(close: &Close, column: &mut Column, computed: &Computed) -> Window {
    let method = close.plan.config.aggregation;
    let (source, from, until) = slots(close);
    if source == 0 {
        // The store may have slots of other writers among those that the head holds.
        for (slot, value) in &close.pairs {
            if let Some(place) = column.values.get_mut((slot - from) as usize) {
                *place = *value;
            }
        }
        return method.fold_all(column.values.iter().copied());
    }
    column.settle(method);
    let window = |slot: u32| {
        let known = computed.get(&(close.id, source, slot)).copied();
        known.unwrap_or_else(|| window_at(column, (slot - from) as usize))
    };
    method.merge_all((from..until).map(window))
}
