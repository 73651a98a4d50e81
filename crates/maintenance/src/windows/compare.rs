//! Reads windows and the slots that they were folded from, compares them, and collects the corrections.

use std::collections::BTreeMap;

use plumbago_model::{Aggregation, MetricConfig, MetricId, Window};
use plumbago_store::correct::{self, Correction, Folded, Verdict};
use plumbago_store::{
    Column, PointStore, ReadRequest, ReplicaWindow, Run, SharedWindows, SlotRow, StoreError, WindowRow,
    WriteBatch, WriterIdentity, WriterRow,
};

use super::plan::Piece;

/// A metric whose windows are compared.
#[derive(Debug)]
pub(crate) struct Metric<'a> {
    /// The index of the metric within its page.
    pub(crate) place: usize,
    pub(crate) name: &'a str,
    pub(crate) id: MetricId,
    pub(crate) config: &'a MetricConfig,
    /// Windows that end later than this time are still open in this process.
    pub(crate) closed_until: i64,
}

/// Windows of a metric to compare.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) metric: &'a Metric<'a>,
    pub(crate) piece: Piece,
}

impl Work<'_> {
    /// The largest number of slots that it reads.
    pub(crate) fn slots(&self) -> u64 {
        let ratio = self.piece.ratio(self.metric.config.retention.stages());
        self.piece.windows.len() as u64 * (u64::from(ratio) + 1)
    }
}

/// The rows and slots that the store has for a [`Work`].
#[derive(Debug)]
pub(crate) struct Found {
    /// The slots that the windows are folded from, as readers get them.
    source: Column,
    /// The windows of this writer, including those that it has not sent yet.
    own: Column,
    /// The rows of all writers.
    rows: Vec<SlotRow>,
}

impl Found {
    /// The number of rows that were read.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len() + self.source.values.iter().filter(|value| !value.is_nan()).count()
    }
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Number of windows that differ and are corrected.
    pub(crate) wrong: u64,
    /// Why windows that may differ are left alone.
    pub(crate) kept: Vec<&'static str>,
}

/// The rows that correct windows.
#[derive(Debug)]
pub(crate) struct Batch {
    identity: WriterIdentity,
    own: WriteBatch,
    others: BTreeMap<WriterIdentity, WriteBatch>,
}

impl Batch {
    pub(crate) fn new(identity: WriterIdentity) -> Self {
        Self { identity, own: WriteBatch::default(), others: BTreeMap::new() }
    }

    fn add(&mut self, run: Run, correction: Correction) {
        let push = |batch: &mut WriteBatch, row: WindowRow| batch.push(run, &[row.value], Some(&[row.count]));
        push(&mut self.own, correction.own);
        for (writer, row) in correction.others {
            push(self.others.entry(writer).or_default(), row);
        }
    }

    /// Writes the rows of other writers first, so that after an interruption the windows still differ and the
    /// next run corrects them.
    ///
    /// # Errors
    /// If a store refuses rows. The call may be repeated.
    pub(crate) async fn write(
        &self,
        points: &dyn PointStore,
        windows: &dyn SharedWindows,
    ) -> Result<(), StoreError> {
        for (writer, batch) in &self.others {
            windows.write_as(*writer, batch).await?;
        }
        if self.own.runs.is_empty() { Ok(()) } else { points.write(&self.own).await }
    }
}

/// Reads what the comparison needs.
///
/// # Errors
/// If a store cannot be read.
pub(crate) async fn read(
    points: &dyn PointStore,
    windows: &dyn SharedWindows,
    works: &[Work<'_>],
) -> Result<Vec<Found>, StoreError> {
    let ranges = works.iter().map(|work| work.piece.ranges(work.metric.id, work.metric.config));
    let (coarse, sources): (Vec<_>, Vec<_>) = ranges.unzip();
    // The windows are read first, because a writer stores the slots of a window before the window, or
    // together with it.
    let rows = windows.read_rows(&coarse).await?;
    let request = ReadRequest {
        ranges: coarse.into_iter().chain(sources).collect(),
        include_retained: true,
        ..ReadRequest::default()
    };
    let mut own = points.read(&request).await?;
    let sources = own.split_off(works.len());
    let found = own.into_iter().zip(sources).zip(rows);
    Ok(found.map(|((own, source), rows)| Found { source, own, rows }).collect())
}

/// Compares windows, and adds the corrections of those that differ to the batch.
pub(crate) fn compare(work: &Work<'_>, mut found: Found, batch: &mut Batch) -> Outcome {
    let (metric, piece) = (work.metric, &work.piece);
    let (method, stages) = (metric.config.aggregation, metric.config.retention.stages());
    found.source.merge_writers(method);
    let ratio = piece.ratio(stages) as usize;
    let mut rest = found.rows.as_slice();
    let mut outcome = Outcome::default();
    for (at, window) in piece.windows.clone().enumerate() {
        let (of_window, later) = rest.split_at(rest.partition_point(|(slot, _)| *slot <= window));
        rest = later;
        let rows = with_own(method, batch.identity, of_window, own_row(&found.own, at));
        let folded = fold(method, piece.source, &found.source, at * ratio..(at + 1) * ratio);
        let end = (i64::from(window) + 1) * i64::from(stages[piece.stage].resolution);
        match correct::judge(method, folded, batch.identity, &rows) {
            Verdict::Right => {}
            Verdict::Kept(reason) => outcome.kept.push(reason.label()),
            Verdict::Wrong(_) if end > metric.closed_until => outcome.kept.push("open"),
            Verdict::Wrong(correction) => {
                outcome.wrong += 1;
                batch.add(run(metric, piece.stage, window), correction);
            }
        }
    }
    outcome
}

fn run(metric: &Metric<'_>, stage: usize, window: u32) -> Run {
    Run {
        id: metric.id,
        stage: metric.config.retention.stages()[stage],
        stage_index: stage as u8,
        aggregation: metric.config.aggregation,
        first_slot: window,
        len: 0,
        at: 0,
        whole: false,
    }
}

fn fold(method: Aggregation, source: usize, column: &Column, slots: std::ops::Range<usize>) -> Folded {
    let values = &column.values[slots.clone()];
    let magnitude = values.iter().filter(|value| !value.is_nan()).map(|value| value.abs()).sum();
    let window = if source == 0 {
        method.fold_all(values.iter().copied())
    } else {
        let windows = values.iter().zip(&column.counts[slots]).filter(|(value, _)| !value.is_nan());
        method.merge_all(windows.map(|(value, count)| Window { value: *value, count: count.of_window() }))
    };
    Folded { window, magnitude }
}

fn own_row(column: &Column, at: usize) -> WindowRow {
    WindowRow { value: column.values[at], count: column.counts[at] }
}

/// The rows of a window with this writer's newest row, which may not be on the server yet.
fn with_own(
    method: Aggregation,
    identity: WriterIdentity,
    stored: &[SlotRow],
    newest: WindowRow,
) -> Vec<WriterRow> {
    let mut rows: Vec<WriterRow> = stored.iter().map(|(_, row)| *row).collect();
    let mut own = ReplicaWindow::default();
    rows.iter().filter(|row| row.writer == identity).for_each(|row| own.add(method, *row));
    let known = own.row();
    // For methods where one row wins, our row may contain the value of another writer, so only the count can
    // show a difference.
    let one_wins = matches!(method, Aggregation::Last | Aggregation::Percentile(_));
    let is_same = one_wins || known.value.to_bits() == newest.value.to_bits();
    if !newest.value.is_nan() && (known.count != newest.count || known.value.is_nan() || !is_same) {
        rows.retain(|row| row.writer != identity);
        let written_us = if method == Aggregation::Last { i64::MAX } else { 0 };
        rows.push(WriterRow { writer: identity, part: 0, row: newest, written_us, is_full: false });
    }
    rows
}
