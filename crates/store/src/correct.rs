//! Compares the rows of a closed window with the window computed from its raw slots, and determines which
//! rows make both equal.
//!
//! Each daemon corrects the windows of its own replica. It first writes its own row ([`own_part`]): where the
//! values of writers are added, that row alone can correct all others. A minimum, a maximum, a last value or
//! a percentile of another writer cannot be subtracted, so the row of that writer is replaced.

use plumbago_model::{Aggregation, Window};

use crate::merge::{adds_up, own_part};
use crate::writer::WINDOW_COUNT_MAX;
use crate::{ReplicaWindow, RowCount, SlotWindow, WindowRow, WriterIdentity, WriterRow};

/// A window that was computed from all its slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Folded {
    /// The value and the count.
    pub window: Window,
    /// The sum of the magnitudes of the slots. Rounding errors are proportional to this sum.
    pub magnitude: f64,
}

/// The rows that correct a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    /// The row of this writer.
    pub own: WindowRow,
    /// Rows that replace those of other writers.
    pub others: Vec<(WriterIdentity, WindowRow)>,
}

/// The result of comparing a window.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The stored rows are right: readers get the computed window.
    Right,
    /// The stored rows are wrong; holds the rows that correct the window.
    Wrong(Correction),
    /// The window differs but is not changed, for this reason.
    Kept(Reason),
}

/// The reason why a window that differs is not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Writers counted more slots than there are, so slots are missing.
    SlotsMissing,
    /// Another replica counts too many slots, which only its own daemons can correct.
    OtherReplica,
    /// The window has more slots than rows can count.
    TooLarge,
    /// The sum is infinite, so no row can correct it.
    NotFinite,
}

impl Reason {
    /// The name of the reason in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::SlotsMissing => "slots_missing",
            Self::OtherReplica => "other_replica",
            Self::TooLarge => "too_large",
            Self::NotFinite => "not_finite",
        }
    }
}

/// Compares the rows of all writers for a window with the window computed from its slots. `own` is the writer
/// that corrects it. Rows of a writer are in the order of their parts.
pub fn judge(method: Aggregation, folded: Folded, own: WriterIdentity, rows: &[WriterRow]) -> Verdict {
    let mut all = SlotWindow::default();
    rows.iter().for_each(|row| all.add(method, *row));
    let mine = all.replica(own.replica());
    let is_right = |window| is_same(method, window, folded);
    let seen = all.window();
    if seen.is_none() && folded.window.count == 0 {
        return Verdict::Right;
    }
    let has_rows = rows.iter().any(|row| row.writer.replica() == own.replica());
    let mine_is_right = mine.window().is_some_and(is_right);
    match seen.is_some_and(is_right) {
        true if mine_is_right || !has_rows => return Verdict::Right,
        false if mine_is_right => return Verdict::Kept(Reason::OtherReplica),
        _ => {}
    }
    if folded.window.count > WINDOW_COUNT_MAX {
        return Verdict::Kept(Reason::TooLarge);
    }
    if has_lost_slots(folded.window, own.replica(), rows) {
        return Verdict::Kept(Reason::SlotsMissing);
    }
    let correction = correct(method, folded.window, own, rows);
    let is_finite = |row: &WindowRow| !adds_up(method) || row.value.is_finite();
    if is_finite(&correction.own) { Verdict::Wrong(correction) } else { Verdict::Kept(Reason::NotFinite) }
}

/// The rows that make the windows of the writer's replica equal to the whole.
fn correct(method: Aggregation, whole: Window, own: WriterIdentity, rows: &[WriterRow]) -> Correction {
    let theirs = by_writer(method, rows.iter().filter(|row| is_partner(own, row.writer)));
    let mut merged = ReplicaWindow::default();
    rows.iter().filter(|row| is_partner(own, row.writer)).for_each(|row| merged.add(method, *row));
    let others = theirs.into_iter().filter(|(_, row)| hides(method, *row, whole));
    let replaced = |(writer, row): (WriterIdentity, WindowRow)| match method {
        Aggregation::Percentile(_) => (writer, whole.into()),
        _ => (writer, WindowRow { value: whole.value, ..row }),
    };
    Correction { own: own_part(method, whole, merged.row()), others: others.map(replaced).collect() }
}

/// Whether a row of another writer hides the value of the whole window from readers.
fn hides(method: Aggregation, row: WindowRow, whole: Window) -> bool {
    let differs = row.value.to_bits() != whole.value.to_bits();
    match method {
        _ if adds_up(method) => false,
        Aggregation::Percentile(_) => {
            let full = RowCount::from(whole.count);
            row.count > full || (row.count == full && differs)
        }
        Aggregation::Last => differs,
        _ => {
            let one = |value| Window { value, count: 1 };
            let merged = |a, b| method.merge(one(a), one(b)).value.to_bits();
            let (theirs, value) = (row.value, whole.value);
            merged(theirs, value) != value.to_bits() || merged(value, theirs) != value.to_bits()
        }
    }
}

/// Whether slots were counted that no longer exist. No writer counts a slot twice, so no writer should count
/// more slots than the window has. Negative counts of the replica's rows are taken into account.
fn has_lost_slots(whole: Window, replica: u8, rows: &[WriterRow]) -> bool {
    let of_replica = || rows.iter().filter(|row| row.writer.replica() == replica && !row.row.value.is_nan());
    let taken_back: i64 = of_replica().map(|row| i64::from(row.row.count.get()).min(0)).sum();
    let most = of_replica().map(|row| {
        let parts = of_replica().filter(|other| other.writer == row.writer);
        parts.map(|part| i64::from(part.row.count.get())).sum::<i64>()
    });
    whole.count == 0 || most.max().unwrap_or(0) + taken_back > i64::from(whole.count)
}

fn is_partner(own: WriterIdentity, writer: WriterIdentity) -> bool {
    writer != own && writer.replica() == own.replica()
}

/// The rows of each writer, merged over its parts.
fn by_writer<'a>(
    method: Aggregation,
    rows: impl Iterator<Item = &'a WriterRow>,
) -> Vec<(WriterIdentity, WindowRow)> {
    let mut writers: Vec<(WriterIdentity, ReplicaWindow)> = Vec::new();
    for row in rows {
        match writers.iter_mut().find(|(writer, _)| *writer == row.writer) {
            Some((_, merged)) => merged.add(method, *row),
            None => {
                let mut merged = ReplicaWindow::default();
                merged.add(method, *row);
                writers.push((row.writer, merged));
            }
        }
    }
    let known = writers.into_iter().map(|(writer, merged)| (writer, merged.row()));
    known.filter(|(_, row)| !row.value.is_nan()).collect()
}

/// Whether the window equals the computed one, except for the rounding of sums that were added in another
/// order.
fn is_same(method: Aggregation, window: Window, folded: Folded) -> bool {
    let whole = folded.window;
    let is_equal = window.value.to_bits() == whole.value.to_bits();
    let tolerance = if adds_up(method) {
        4.0 * f64::EPSILON * f64::from(whole.count.max(8)) * folded.magnitude
    } else {
        0.0
    };
    window.count == whole.count && (is_equal || (window.value - whole.value).abs() <= tolerance)
}

#[cfg(test)]
mod tests;
