//! Turns slices into calls. The pending rows of a metric are joined into as few and as long runs as possible.

use std::collections::BTreeMap;

use crate::queue::{Id, SpooledSlice};
use plumbago_model::{MetricId, Stage};
use plumbago_store::{RowCount, Run, WriteBatch};

use crate::slice;

/// Runs of a metric are joined if no more unknown slots than this are between them.
const BRIDGE: u32 = 128;

/// A stage's table in the remote store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Table {
    pub(crate) stage: Stage,
    pub(crate) coarse: bool,
}

impl Table {
    pub(crate) fn of(run: &Run) -> Self {
        Self { stage: run.stage, coarse: run.stage_index > 0 }
    }
}

/// One call of the remote store: runs of one table.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) table: Table,
    pub(crate) batch: WriteBatch,
    pub(crate) rows: u64,
}

impl Call {
    /// Keeps only these runs.
    pub(crate) fn keep(&mut self, runs: &[usize]) {
        self.batch = part(&self.batch, runs);
        self.rows = self.batch.known();
    }
}

/// A batch of some runs of `batch`, by their positions.
pub(crate) fn part(batch: &WriteBatch, runs: &[usize]) -> WriteBatch {
    let mut part = WriteBatch::default();
    for run in runs.iter().filter_map(|at| batch.runs.get(*at)) {
        part.push(*run, batch.values(run), Some(batch.counts(run)));
    }
    part
}

/// Builds calls of about `slots_per_call` slots from slices sorted by metric and commit. Also returns how
/// many slices were damaged.
pub(crate) fn calls(slices: &[SpooledSlice], slots_per_call: usize) -> (Vec<Call>, u64) {
    let mut out = Out { full: Vec::new(), filling: BTreeMap::new(), slots_per_call };
    let mut damaged = 0;
    let mut metric = WriteBatch::default();
    for of_one in slices.chunk_by(|a, b| a.id == b.id) {
        metric.clear();
        for slice in of_one {
            damaged += u64::from(slice::read(MetricId(slice.id), slice.bytes(), &mut metric).is_err());
        }
        out.add(&metric);
    }
    (out.finish(), damaged)
}

/// Turns a batch into slices, one per metric: id, rows, bytes.
pub(crate) fn to_slices(batch: &WriteBatch) -> Vec<(Id, u32, Vec<u8>)> {
    let mut slices: Vec<(Id, u32, Vec<u8>)> = Vec::new();
    for run in &batch.runs {
        if slices.last().is_none_or(|(id, ..)| *id != run.id.0) {
            let mut bytes = Vec::new();
            slice::begin(&mut bytes);
            slices.push((run.id.0, 0, bytes));
        }
        let Some((_, rows, bytes)) = slices.last_mut() else { continue };
        let values = batch.values(run);
        *rows += known(values) as u32;
        slice::push(bytes, run, values, batch.counts(run));
    }
    slices
}

struct Out {
    full: Vec<Call>,
    filling: BTreeMap<Table, Call>,
    slots_per_call: usize,
}

impl Out {
    /// Adds all runs of one metric, oldest commit first.
    fn add(&mut self, metric: &WriteBatch) {
        let mut order: Vec<usize> = (0..metric.runs.len()).collect();
        order.sort_by_key(|at| (Table::of(&metric.runs[*at]), metric.runs[*at].first_slot));
        for of_one in order.chunk_by(|a, b| Table::of(&metric.runs[*a]) == Table::of(&metric.runs[*b])) {
            let mut rest = of_one;
            while let Some((first, len)) = stretch(metric, rest) {
                let (runs, tail) = rest.split_at(len);
                self.push(metric, first, runs);
                rest = tail;
            }
        }
    }

    /// Adds runs that overlap or are close to each other as one run.
    fn push(&mut self, metric: &WriteBatch, first: u32, runs: &[usize]) {
        let Some(run) = runs.first().map(|at| metric.runs[*at]) else { return };
        let table = Table::of(&run);
        let empty = || Call { table, batch: WriteBatch::default(), rows: 0 };
        let call = self.filling.entry(table).or_insert_with(empty);
        let end = runs.iter().map(|at| metric.runs[*at].first_slot + metric.runs[*at].len).max();
        let len = end.unwrap_or(first) - first;
        let at = call.batch.values.len();
        call.batch.runs.push(Run { first_slot: first, len, at: at as u32, whole: false, ..run });
        call.batch.values.resize(at + len as usize, f64::NAN);
        call.batch.counts.resize(at + len as usize, RowCount::ZERO);
        // The oldest first, so that the newest value of a slot wins.
        let mut by_age = runs.to_vec();
        by_age.sort_unstable();
        for older in by_age {
            let run = &metric.runs[older];
            let start = at + (run.first_slot - first) as usize;
            let slots = metric.values(run).iter().zip(metric.counts(run));
            for (place, (value, count)) in (start..).zip(slots) {
                if !value.is_nan() {
                    call.batch.values[place] = *value;
                    call.batch.counts[place] = *count;
                }
            }
        }
        call.rows += known(&call.batch.values[at..]);
        if call.batch.values.len() >= self.slots_per_call
            && let Some(call) = self.filling.remove(&table)
        {
            self.full.push(call);
        }
    }

    fn finish(mut self) -> Vec<Call> {
        self.full.extend(self.filling.into_values());
        self.full.retain(|call| call.rows > 0);
        self.full
    }
}

/// The first slot of `runs` (sorted by first slot), and how many of them to join.
fn stretch(metric: &WriteBatch, runs: &[usize]) -> Option<(u32, usize)> {
    let first = metric.runs[*runs.first()?].first_slot;
    let mut end = first;
    let apart = runs.iter().position(|at| {
        let run = &metric.runs[*at];
        let near = run.first_slot <= end.saturating_add(BRIDGE);
        end = end.max(run.first_slot + run.len);
        !near
    });
    Some((first, apart.unwrap_or(runs.len())))
}

fn known(values: &[f64]) -> u64 {
    values.iter().filter(|value| !value.is_nan()).count() as u64
}
