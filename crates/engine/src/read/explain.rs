//! Finds out where the slots of a series come from: the head, the spool, a peer or the store.

use std::collections::HashSet;
use std::sync::Arc;

use plumbago_store::{Column, FetchError, FetchRequest, PeerRows, Provenance};

use crate::read::{Part, Reader, merge, overlay, window_ranges};

impl Reader {
    /// Reads the series of a request, and counts their slots by origin.
    pub(super) async fn provenance(&self, request: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
        let (parts, peers) = self.read_all(request).await?;
        let pending = self.on_its_way(parts.iter().map(|part| &part.answer)).await?;
        let mut range = 0;
        let mut all = Vec::with_capacity(parts.len());
        for (part, pending) in parts.into_iter().zip(pending) {
            let of_peers = slots_of(&peers, range);
            range += 1 + u32::from(window_ranges(&part.answer).is_some());
            all.push(provenance(part, &pending, &of_peers));
        }
        Ok(all)
    }
}

/// The slots that peers have pending in the range with this number.
fn slots_of(peers: &[PeerRows], range: u32) -> HashSet<u32> {
    let of_range = |rows: &PeerRows| {
        let from = rows.rows.partition_point(|(at, ..)| *at < range);
        let until = rows.rows.partition_point(|(at, ..)| *at <= range);
        rows.rows[from..until].iter().map(|(_, slot, _)| *slot).collect::<Vec<_>>()
    };
    peers.iter().flat_map(of_range).collect()
}

fn provenance(part: Part, pending: &Column, of_peers: &HashSet<u32>) -> Provenance {
    let Part { name, answer, mut column, first_window } = part;
    let (first, end) = answer.slots;
    let mut held = Column::unknown((end - first) as usize, answer.stage > 0);
    overlay(&answer, &mut held, first_window.clone());
    let values = merge(&answer, &mut column, first_window);
    let mut found = Provenance {
        name,
        config: Arc::clone(&answer.layout.config),
        stage: answer.stage,
        slots: values.len(),
        from_head: 0,
        from_spool: 0,
        from_peers: 0,
        from_store: 0,
        hidden: column.counts.iter().zip(&values).filter(|(c, v)| c.of_window() > 0 && v.is_nan()).count(),
    };
    let has = |column: &Column, at: usize| column.values.get(at).is_some_and(|value| !value.is_nan());
    for (at, slot) in (first..end).enumerate() {
        if values.get(at).is_none_or(|value| value.is_nan()) {
            continue;
        }
        let place = if has(&held, at) {
            &mut found.from_head
        } else if has(pending, at) {
            &mut found.from_spool
        } else if of_peers.contains(&slot) {
            &mut found.from_peers
        } else {
            &mut found.from_store
        };
        *place += 1;
    }
    found
}
