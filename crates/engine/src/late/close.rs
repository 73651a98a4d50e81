//! Rows of windows that are computed from all their slots at once, as percentiles are.

use std::collections::{HashMap, VecDeque};

use plumbago_model::Window;
use plumbago_store::{Column, PointStore, ReadRequest, StoreError, WriteBatch};

use crate::late::fold::Fold;
use crate::late::refold::window_at;
use crate::late::rounds::{Budget, InPieces, Rounds};
use crate::shard::jobs::Close;

/// The windows of a flush that have not been computed yet.
pub(crate) type Closing = Rounds<MetricCloses>;

/// Groups the windows of a flush by metric. The windows of a metric must follow each other, finer stages first.
pub(crate) fn closing(closes: Vec<Close>) -> Closing {
    let mut rounds = Closing::default();
    let mut closes = closes.into_iter().peekable();
    while let Some(first) = closes.next() {
        let id = first.id;
        let mut of_metric = VecDeque::from([first]);
        while let Some(next) = closes.next_if(|close| close.id == id) {
            of_metric.push_back(next);
        }
        rounds.push(MetricCloses::new(of_metric));
    }
    rounds
}

/// Does one read, and adds the rows of the metrics that need no more reads.
///
/// # Errors
///
/// If the store cannot be read. The next call repeats the read.
pub(crate) async fn step(
    store: &dyn PointStore,
    closing: &mut Closing,
    rows: &mut WriteBatch,
    budget: &Budget,
) -> Result<(), StoreError> {
    for metric in closing.read(store, budget).await? {
        for (close, window) in &metric.computed {
            let run = close.layout.run(close.id, close.stage, close.window);
            rows.push(run, &[window.value], Some(&[window.count.into()]));
        }
    }
    Ok(())
}

/// The windows of one metric.
#[derive(Debug)]
pub(crate) struct MetricCloses {
    left: VecDeque<Close>,
    computed: Vec<(Close, Window)>,
    /// Windows computed so far, by stage and window. Coarser windows may be computed from them.
    known: HashMap<(usize, u32), Window>,
    /// The next slot of the first window in `left`, and the fold so far; `None` before its first slot.
    begun: Option<(u32, Fold)>,
    has_begun: bool,
    keeps: usize,
    /// The pieces that were requested last, as first slot and end. Each belongs to the window that is then
    /// the first in `left`.
    asked: Vec<(u32, u32)>,
}

impl MetricCloses {
    fn new(left: VecDeque<Close>) -> Self {
        let bytes = |close: &Close| {
            let (source, from, until) = slots(close);
            Fold::bytes(close.layout.config.aggregation, source, until - from)
        };
        let keeps = left.iter().map(bytes).max().unwrap_or(0);
        Self {
            left,
            computed: Vec::new(),
            known: HashMap::new(),
            begun: None,
            has_begun: false,
            keeps,
            asked: Vec::new(),
        }
    }

    fn end_window(&mut self, mut fold: Fold) {
        let Some(mut close) = self.left.pop_front() else { return };
        let window = fold.end(close.layout.config.aggregation);
        if window.count > 0 {
            self.known.insert((close.stage, close.window), window);
            close.pairs = Vec::new();
            self.computed.push((close, window));
        }
    }
}

impl InPieces for MetricCloses {
    fn keeps(&self) -> usize {
        self.keeps
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn is_complete(&self) -> bool {
        self.left.is_empty()
    }

    fn ask(&mut self, slots_max: u32, request: &mut ReadRequest) -> usize {
        self.has_begun = true;
        self.asked.clear();
        let mut rest = slots_max;
        let mut next = self.begun.as_ref().map(|(slot, _)| *slot);
        for close in &self.left {
            if rest == 0 {
                break;
            }
            let (source, from, end) = slots(close);
            let first = next.take().unwrap_or(from);
            let until = end.min(first.saturating_add(rest));
            request.ranges.push(close.layout.range(close.id, source, first, until));
            self.asked.push((first, until));
            rest -= until - first;
        }
        (slots_max - rest) as usize
    }

    fn take(&mut self, columns: &mut dyn Iterator<Item = Column>) {
        for (first, until) in std::mem::take(&mut self.asked) {
            let column = columns.next().unwrap_or_default();
            let Some(close) = self.left.front() else { return };
            let (source, _, end) = slots(close);
            let method = close.layout.config.aggregation;
            let begun = self.begun.take();
            let mut fold = begun.map_or_else(|| Fold::new(method, source), |(_, fold)| fold);
            for slot in first..until {
                let known =
                    if source > 0 { self.known.get(&(source, slot)).copied() } else { held(close, slot) };
                fold.add(method, known.unwrap_or_else(|| window_at(&column, (slot - first) as usize)));
            }
            if until == end {
                self.end_window(fold);
            } else {
                self.begun = Some((until, fold));
            }
        }
    }
}

/// The stage that a window is computed from, and the range of its slots in that stage.
fn slots(close: &Close) -> (usize, u32, u32) {
    let source = close.layout.source(close.stage);
    let ratio = close.layout.ratio(close.stage, source);
    (source, close.window * ratio, (close.window + 1) * ratio)
}

/// The raw slot if the head holds it. This value replaces one that other writers have in the store.
fn held(close: &Close, slot: u32) -> Option<Window> {
    let at = close.pairs.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    Some(Window { value: close.pairs[at].1, count: 1 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plumbago_model::{MetricConfig, MetricId};
    use plumbago_store::RowCount;
    use plumbago_store::layer::{Faults, Faulty};
    use plumbago_store::memory::MemoryStore;

    use super::*;
    use crate::shard::downsample::MetricLayout;

    /// Windows that are computed from raw slots, and a window of a longer stage that is computed from the
    /// windows before.
    #[tokio::test]
    async fn windows_computed_in_pieces_equal_those_computed_at_once() {
        let config = MetricConfig {
            retention: "1s:100s,10s:1000s,100s:10000s".parse().unwrap(),
            aggregation: "p90".parse().unwrap(),
            x_files_factor: 0.0,
        };
        let layout = Arc::new(MetricLayout::new(Arc::new(config)));
        let store = MemoryStore::default();
        let mut rows = WriteBatch::default();
        let values: Vec<f64> = (0..100).map(|slot| f64::from(slot * 37 % 101)).collect();
        let windows: Vec<f64> = (0..8).map(f64::from).collect();
        for name in ["a", "b"] {
            rows.push(layout.run(MetricId::of(name), 0, 1000), &values, None);
            rows.push(layout.run(MetricId::of(name), 1, 100), &windows, Some(&[RowCount::new(10); 8]));
        }
        store.write(&rows).await.unwrap();
        let closes = || {
            let close = |(name, stage, window)| Close {
                id: MetricId::of(name),
                layout: Arc::clone(&layout),
                stage,
                window,
                pairs: vec![(1093, -1.0), (1095, 1000.0)],
            };
            let of = |name| [(name, 1, 108), (name, 1, 109), (name, 2, 10)].map(close);
            [of("a"), of("b")].into_iter().flatten().collect::<Vec<Close>>()
        };
        let faults = Faults::new();
        let faulty = Faulty::new(store, faults.clone());
        let mut answers = Vec::new();
        for metric_slots in [1, 3, 10, 4000] {
            let (mut closing, mut rows) = (closing(closes()), WriteBatch::default());
            let budget = Budget { metric_slots, ..Budget::USUAL };
            while !closing.is_empty() {
                faults.fail_next(1);
                assert!(step(&faulty, &mut closing, &mut rows, &budget).await.is_err());
                step(&faulty, &mut closing, &mut rows, &budget).await.unwrap();
            }
            answers.push((rows.values, rows.counts));
        }
        let [of_108, of_109, of_10] = answers[0].0[..3] else { panic!("{answers:?}") };
        let mut last: Vec<f64> = values[90..].to_vec();
        (last[3], last[5]) = (-1.0, 1000.0);
        let method = layout.config.aggregation;
        assert_eq!(of_108, method.fold_all(values[80..90].iter().copied()).value);
        assert_eq!(of_109, method.fold_all(last.into_iter()).value);
        let all = windows.iter().copied().chain([of_108, of_109]);
        assert_eq!(of_10, method.merge_all(all.map(|value| Window { value, count: 10 })).value);
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    }
}
