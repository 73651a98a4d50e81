//! Other processes that write to the same store: what they have and it has not yet.

use std::fmt::Debug;

use async_trait::async_trait;
use plumbago_model::{Stage, Window};
use plumbago_store::{PeerRows, SlotRange};

use crate::fetch::FetchRequest;

/// The other processes.
#[async_trait]
pub trait Peers: Send + Sync + Debug {
    /// What each has of the metrics of a request. Who does not answer in time is left out.
    async fn unsent(&self, request: &FetchRequest) -> Vec<PeerAnswer>;
}

/// What one process has.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PeerAnswer {
    /// Which copy of the traffic it takes.
    pub replica: u8,
    /// Its number among the writers of that copy.
    pub writer: u16,
    /// The metrics that it has something of, in the order asked.
    pub series: Vec<Unsent>,
}

/// What a process has of a metric that the store has not yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Unsent {
    /// The metric's place among the names of the request.
    pub place: u32,
    /// The stage that answers.
    pub stage: Stage,
    /// 0 for the raw stage.
    pub stage_index: u8,
    /// Known slots, in time order; the count is 1 in raw stages.
    pub rows: Vec<(u32, Window)>,
}

/// What was told, by the ranges of a read: `ranges` are those that answer, with the metric's place among
/// the names and their own place in the read. A peer that keeps a metric in other stages is left out.
pub(crate) fn by_range(answers: Vec<PeerAnswer>, ranges: &[(usize, u32, SlotRange)]) -> Vec<PeerRows> {
    let rows = |answer: PeerAnswer| {
        let mut told = answer.series.into_iter().peekable();
        let mut rows = Vec::new();
        for (place, at, range) in ranges {
            while told.next_if(|unsent| (unsent.place as usize) < *place).is_some() {}
            let fits = |unsent: &Unsent| unsent.place as usize == *place;
            let Some(unsent) = told.next_if(fits) else { continue };
            if (unsent.stage, unsent.stage_index) == (range.stage, range.stage_index) {
                let within =
                    unsent.rows.into_iter().filter(|(slot, _)| (range.from..range.until).contains(slot));
                rows.extend(within.map(|(slot, window)| (*at, slot, window)));
            }
        }
        PeerRows { replica: answer.replica, writer: answer.writer, rows }
    };
    answers.into_iter().map(rows).filter(|peer| !peer.rows.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use plumbago_model::{Aggregation, MetricId};

    use super::*;

    #[test]
    fn rows_find_their_ranges() {
        let stage = Stage { resolution: 60, points: 10 };
        let other = Stage { resolution: 10, points: 10 };
        let one = |value| Window { value, count: 1 };
        let unsent = |place, stage, slots: &[u32]| Unsent {
            place,
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
            unsent(0, stage, &[5]),
            unsent(1, stage, &[4, 5, 7, 8]),
            unsent(2, other, &[5]),
            unsent(4, stage, &[6]),
        ];
        let answers = vec![PeerAnswer { replica: 1, writer: 8, series }, PeerAnswer::default()];
        let peers = by_range(answers, &ranges);
        assert_eq!(peers.len(), 1);
        assert_eq!((peers[0].replica, peers[0].writer), (1, 8));
        assert_eq!(peers[0].rows, [(0, 5, one(5.0)), (0, 7, one(7.0)), (3, 6, one(6.0))]);
    }
}
