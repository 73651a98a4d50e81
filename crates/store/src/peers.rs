//! Pending rows of peers: rows that other daemons on the same store have accepted but not yet written.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::Stage;

use crate::{FetchRequest, PeerRows, SlotRange, WindowRow};

/// The other daemons on the same store.
#[boxed_futures]
pub trait Peers: Send + Sync + Debug {
    /// Returns the pending rows of every peer for the metrics of a request. A peer that fails or does not
    /// answer in time is left out.
    async fn pending(&self, request: &FetchRequest) -> Vec<PeerAnswer>;
}

/// The pending rows of one peer, as it sends them.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PeerAnswer {
    /// The replica (copy of the traffic) that the peer writes.
    pub replica: u8,
    /// The peer's writer id within that replica.
    pub writer: u16,
    /// The metrics that have pending rows, in the order of the request.
    pub series: Vec<PendingRows>,
}

/// The pending rows of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingRows {
    /// Index of the metric among the names of the request.
    pub name_index: u32,
    /// The stage that answers the request.
    pub stage: Stage,
    /// Index of that stage in the metric's retention, 0 for raw.
    pub stage_index: u8,
    /// Known slots in time order, as (slot number, content). The count is 1 in the raw stage.
    pub rows: Vec<(u32, WindowRow)>,
}

/// Matches the answers of peers to the ranges of a read. Each entry of `ranges` is (index of the metric
/// among the requested names, index of the range in the read, range), sorted by the first. Rows outside
/// their range are dropped, and so are the rows of a metric that the peer keeps in another stage.
pub fn pending_by_range(answers: Vec<PeerAnswer>, ranges: &[(usize, u32, SlotRange)]) -> Vec<PeerRows> {
    let match_answer = |answer: PeerAnswer| {
        let mut series = answer.series.into_iter().peekable();
        let mut rows = Vec::new();
        for (name_index, range_index, range) in ranges {
            while series.next_if(|pending| (pending.name_index as usize) < *name_index).is_some() {}
            let same_name = |pending: &PendingRows| pending.name_index as usize == *name_index;
            let Some(pending) = series.next_if(same_name) else { continue };
            if (pending.stage, pending.stage_index) == (range.stage, range.stage_index) {
                let in_range = |(slot, _): &(u32, WindowRow)| (range.from..range.until).contains(slot);
                let matched = pending.rows.into_iter().filter(in_range);
                rows.extend(matched.map(|(slot, row)| (*range_index, slot, row)));
            }
        }
        PeerRows { replica: answer.replica, writer: answer.writer, rows }
    };
    answers.into_iter().map(match_answer).filter(|peer| !peer.rows.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use plumbago_model::{Aggregation, MetricId};

    use super::*;
    use crate::RowCount;

    #[test]
    fn rows_are_matched_to_their_ranges() {
        let stage = Stage { resolution: 60, points: 10 };
        let other = Stage { resolution: 10, points: 10 };
        let one = |value| WindowRow { value, count: RowCount::ONE };
        let pending = |name_index, stage, slots: &[u32]| PendingRows {
            name_index,
            stage,
            stage_index: 0,
            rows: slots.iter().map(|slot| (*slot, one(f64::from(*slot)))).collect(),
        };
        let range = |name| SlotRange {
            id: MetricId::of(name),
            stage,
            stage_index: 0,
            aggregation: Aggregation::Average,
            from: 5,
            until: 8,
        };
        let ranges = [(1, 0, range("b")), (2, 1, range("c")), (4, 3, range("e"))];
        let series = vec![
            pending(0, stage, &[5]),
            pending(1, stage, &[4, 5, 7, 8]),
            pending(2, other, &[5]),
            pending(4, stage, &[6]),
        ];
        let answers = vec![PeerAnswer { replica: 1, writer: 8, series }, PeerAnswer::default()];
        let peers = pending_by_range(answers, &ranges);
        assert_eq!(peers.len(), 1);
        assert_eq!((peers[0].replica, peers[0].writer), (1, 8));
        assert_eq!(peers[0].rows, [(0, 5, one(5.0)), (0, 7, one(7.0)), (3, 6, one(6.0))]);
    }
}
