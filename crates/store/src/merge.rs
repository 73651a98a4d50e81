//! Merges the rows of several writers into one window. No other module merges writers.
//!
//! Writers of one replica have seen different points, so their rows are merged by the metric's method.
//! Replicas have seen the same points, so for each slot the replica with the highest count wins.

use plumbago_model::{Aggregation, Window};

use crate::writer::{IDS_PER_WRITER, REPLICAS};
use crate::{RowCount, WriterIdentity};

/// The content of one row of a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WindowRow {
    /// The aggregated value, which is a sum for averages. NaN if the row has no value.
    pub value: f64,
    /// How many slots the row adds to the window.
    pub count: RowCount,
}

impl WindowRow {
    /// Stands for a missing row: an unknown value and no slots.
    pub const NONE: Self = Self { value: f64::NAN, count: RowCount::ZERO };
}

impl From<Window> for WindowRow {
    fn from(window: Window) -> Self {
        Self { value: window.value, count: window.count.into() }
    }
}

/// The window of the other replica that counts the most slots.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OtherReplica {
    /// The window; absent if its count is 0.
    pub window: Window,
    /// Whether the number of that replica is lower than the number of this writer's replica. If so, it wins
    /// if both replicas count equally many slots, so that all daemons give the same answer.
    pub wins_ties: bool,
}

/// A row with the additional fields for merging it with rows of other writers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriterRow {
    /// The writer of the row.
    pub writer: WriterIdentity,
    /// The index of the row's writer id among the ids of its writer, from 0.
    pub part: u16,
    /// The value and the count of the row.
    pub row: WindowRow,
    /// When the row was written, in microseconds since the epoch. Decides for [`Aggregation::Last`]
    /// ([`needs_write_time`]); 0 for other methods.
    pub written_us: i64,
    /// Whether the count is the largest that a row can hold. If so, the writer may have split the window.
    pub is_full: bool,
}

/// Whether rows of this method must carry the time at which they were written: the last value is that of the
/// row written last.
pub fn needs_write_time(method: Aggregation) -> bool {
    method == Aggregation::Last
}

/// The window of one slot in one replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaWindow {
    value: f64,
    count: RowCount,
    /// The order of rows of which only one can win: by time or count, then by writer. The row with the
    /// greatest rank wins.
    rank: (i64, u16),
    is_known: bool,
    split: SplitWindow,
}

impl Default for ReplicaWindow {
    fn default() -> Self {
        let rank = (i64::MIN, 0);
        Self { value: 0.0, count: RowCount::ZERO, rank, is_known: false, split: SplitWindow::default() }
    }
}

impl ReplicaWindow {
    /// Adds a row. Rows of one writer must be added in the order of their parts, ascending or descending. The
    /// order of the writers does not matter.
    pub fn add(&mut self, method: Aggregation, row: WriterRow) {
        let WindowRow { value, count } = row.row;
        if value.is_nan() {
            return;
        }
        let is_percentile = matches!(method, Aggregation::Percentile(_));
        let order = if is_percentile { i64::from(self.split.add(&row).get()) } else { row.written_us };
        let rank = (order, row.writer.id(row.part));
        if !self.is_known {
            *self = Self { value, count, rank, is_known: true, split: self.split };
            return;
        }
        match method {
            // Percentiles cannot be merged. Each row was computed from all slots known at that time, so
            // the fullest row includes the others.
            Aggregation::Percentile(_) => {
                if rank > self.rank {
                    (self.value, self.rank, self.count) = (value, rank, self.split.count);
                }
                return;
            }
            Aggregation::Last => {
                if rank > self.rank {
                    self.value = value;
                }
            }
            _ => {
                let one = |value| Window { value, count: 1 };
                self.value = method.merge(one(self.value), one(value)).value;
            }
        }
        self.count = self.count + count;
        self.rank = self.rank.max(rank);
    }

    /// The merged row, as one row that stands for all that were added. [`WindowRow::NONE`] if there was none.
    pub fn row(&self) -> WindowRow {
        if self.is_known { WindowRow { value: self.value, count: self.count } } else { WindowRow::NONE }
    }

    /// For methods where only one row can win: whether both have rows and the winner is one of `other`.
    pub fn loses_to(&self, other: &Self) -> bool {
        self.is_known && other.is_known && self.rank < other.rank
    }

    /// The merged window; `None` if its count is not positive, e.g. if all rows only correct others.
    pub fn window(&self) -> Option<Window> {
        let count = self.count.of_window();
        (self.is_known && count > 0).then_some(Window { value: self.value, count })
    }
}

/// The parts of a percentile window that one writer split over several rows because of its count.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SplitWindow {
    writer: WriterIdentity,
    value_bits: u64,
    count: RowCount,
    /// Whether all parts so far are full.
    is_full: bool,
}

impl Default for SplitWindow {
    fn default() -> Self {
        Self { writer: WriterIdentity::default(), value_bits: 0, count: RowCount::ZERO, is_full: true }
    }
}

impl SplitWindow {
    /// Adds a row if it is part of the same window, otherwise starts a new window with it. Returns the count
    /// of all parts.
    fn add(&mut self, row: &WriterRow) -> RowCount {
        let WindowRow { value, count } = row.row;
        let same_window = (self.writer, self.value_bits) == (row.writer, value.to_bits());
        if same_window && (row.is_full || self.is_full) {
            self.count = self.count + count;
            self.is_full &= row.is_full;
        } else {
            let (writer, value_bits, is_full) = (row.writer, value.to_bits(), row.is_full);
            *self = Self { writer, value_bits, count, is_full };
        }
        self.count
    }
}

/// The window of one slot in all replicas.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlotWindow {
    replicas: [ReplicaWindow; REPLICAS],
}

impl SlotWindow {
    /// Adds a row, in the order that [`ReplicaWindow::add`] needs.
    pub fn add(&mut self, method: Aggregation, row: WriterRow) {
        self.replicas[usize::from(row.writer.replica())].add(method, row);
    }

    /// The window of the replica with the highest count; in a tie, that of the lowest replica; `None` if no
    /// replica counts a slot.
    pub fn window(&self) -> Option<Window> {
        self.fullest().map(|(_, window)| window)
    }

    /// As [`SlotWindow::window`], with the number of the replica.
    pub fn fullest(&self) -> Option<(u8, Window)> {
        let windows = (0..).zip(&self.replicas).filter_map(|(replica, rows)| Some((replica, rows.window()?)));
        windows.reduce(|best, other| if other.1.count > best.1.count { other } else { best })
    }

    /// The window of the replica that counts the most slots, for a writer of the replica `own`. The rows of
    /// that replica must not be among them.
    pub fn of_others(&self, own: u8) -> OtherReplica {
        let seen = |(replica, window)| OtherReplica { window, wins_ties: replica < own };
        self.fullest().map_or(OtherReplica::default(), seen)
    }

    /// The rows of one replica, merged.
    pub fn replica(&self, replica: u8) -> &ReplicaWindow {
        &self.replicas[usize::from(replica) % REPLICAS]
    }
}

/// Merges this writer's row of a slot with the windows of the others. First `same_replica` is merged with it. Then the
/// other replica wins if it counts more slots than the result, or the same number if
/// [`OtherReplica::wins_ties`] is set. Returns `None` if there is no window.
pub fn merge_with_others(
    method: Aggregation,
    own: WindowRow,
    same_replica: WindowRow,
    other: OtherReplica,
) -> Option<Window> {
    let mut merged = ReplicaWindow::default();
    let mut add = |writer_id, row| {
        let writer = WriterIdentity::new(0, writer_id);
        merged.add(method, WriterRow { writer, part: 0, row, written_us: 0, is_full: false });
    };
    add(0, same_replica);
    // Where only one row can win, a tie is decided by the higher writer id. So this writer's row gets the
    // higher id, because it is the newer one.
    add(IDS_PER_WRITER, own);
    match (merged.window(), other.window) {
        (own, Window { count: 0, .. }) => own,
        (Some(own), window) if own.count > window.count => Some(own),
        (Some(own), window) if own.count == window.count && !other.wins_ties => Some(own),
        (_, window) => Some(window),
    }
}

/// The inverse of the merge: the row that this writer must store so that merging it with `others` gives the
/// `whole` window. `others` is the merged row of the other writers in its replica. The count is negative if
/// the other writers count too many slots.
pub fn own_part(method: Aggregation, whole: Window, others: WindowRow) -> WindowRow {
    let row = WindowRow::from(whole);
    if others.value.is_nan() {
        return row;
    }
    let count = row.count - others.count;
    match method {
        _ if adds_up(method) => WindowRow { value: whole.value - others.value, count },
        // The row with the highest count wins, and no row counts more slots than the whole.
        Aggregation::Percentile(_) => row,
        _ => WindowRow { value: whole.value, count },
    }
}

/// Whether the values of several writers are added, so that one row can correct what another one counts too
/// much.
pub(crate) fn adds_up(method: Aggregation) -> bool {
    matches!(method, Aggregation::Average | Aggregation::AvgZero | Aggregation::Sum | Aggregation::Count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: i32 = 32_767;

    fn row(replica: u8, writer_id: u16, value: f64, count: i32) -> WriterRow {
        let writer = WriterIdentity::new(replica, writer_id);
        let part = writer_id - writer.first_id();
        let row = WindowRow { value, count: RowCount::new(count) };
        WriterRow { writer, part, row, written_us: i64::from(writer_id), is_full: count == FULL }
    }

    fn merged(method: Aggregation, rows: &[WriterRow]) -> Option<(f64, u32)> {
        let mut slot = SlotWindow::default();
        rows.iter().for_each(|row| slot.add(method, *row));
        slot.window().map(|window| (window.value, window.count))
    }

    #[test]
    fn writers_merge_and_the_fullest_replica_wins() {
        // The results are those that BigGraphite itself computes for these rows.
        let rows = [row(0, 9, 10.0, 2), row(0, 3, 20.0, 3), row(1, 1, 99.0, 4)];
        assert_eq!(merged(Aggregation::Average, &rows), Some((30.0, 5)));
        assert_eq!(merged(Aggregation::Sum, &rows), Some((30.0, 5)));
        assert_eq!(merged(Aggregation::Min, &rows), Some((10.0, 5)));
        assert_eq!(merged(Aggregation::Max, &rows), Some((20.0, 5)));
        assert_eq!(merged(Aggregation::Last, &rows), Some((10.0, 5)));
        // Windows of percentiles cannot be added up, so the row with the most slots stands for its replica.
        assert_eq!(merged(Aggregation::Percentile(500), &rows), Some((99.0, 4)));
        assert_eq!(merged(Aggregation::Percentile(500), &rows[..2]), Some((20.0, 3)));
    }

    #[test]
    fn a_split_percentile_is_as_full_as_its_rows_together() {
        let rows = [row(0, 8, 7.0, FULL), row(0, 9, 7.0, FULL), row(0, 10, 7.0, 5), row(0, 16, 9.0, FULL)];
        assert_eq!(merged(Aggregation::Percentile(500), &rows), Some((7.0, 2 * FULL as u32 + 5)));
        assert_eq!(merged(Aggregation::Percentile(500), &rows[2..]), Some((9.0, FULL as u32)));
    }

    #[test]
    fn ties_go_to_the_lowest_replica_and_empty_ones_lose() {
        let tie = [row(2, 1, 2.0, 3), row(1, 1, 1.0, 3)];
        assert_eq!(merged(Aggregation::Sum, &tie), Some((1.0, 3)));
        assert_eq!(merged(Aggregation::Sum, &[row(0, 1, 5.0, 0), row(3, 1, 7.0, 1)]), Some((7.0, 1)));
        assert_eq!(merged(Aggregation::Sum, &[row(0, 1, 5.0, 0)]), None);
        assert_eq!(merged(Aggregation::Sum, &[]), None);
    }

    #[test]
    fn nan_is_no_value_and_corrections_add_up() {
        let nan = [row(0, 1, f64::NAN, 9), row(0, 2, 4.0, 2)];
        assert_eq!(merged(Aggregation::Sum, &nan), Some((4.0, 2)));
        let corrected = [row(0, 1, 70.0, 70), row(0, 2, -10.0, -10)];
        assert_eq!(merged(Aggregation::Average, &corrected), Some((60.0, 60)));
    }

    #[test]
    fn split_counts_give_the_whole() {
        let parts = [row(0, 8, 5.5, 32_767), row(0, 9, -0.0, 32_767), row(0, 10, -0.0, 20_866)];
        assert_eq!(merged(Aggregation::Average, &parts), Some((5.5, 86_400)));
        let parts = parts.map(|part| WriterRow { row: WindowRow { value: -3.0, ..part.row }, ..part });
        assert_eq!(merged(Aggregation::Max, &parts), Some((-3.0, 86_400)));
    }

    #[test]
    fn the_order_of_writers_does_not_matter() {
        let rows = [row(0, 1, 1.0, 1), row(0, 2, 2.0, 5), row(0, 9, 3.0, 2)];
        for method in [Aggregation::Last, Aggregation::Percentile(950), Aggregation::AbsMax] {
            let reversed: Vec<WriterRow> = rows.iter().rev().copied().collect();
            assert_eq!(merged(method, &rows), merged(method, &reversed), "{method}");
        }
    }

    fn window(value: f64, count: u32) -> Window {
        Window { value, count }
    }

    const NONE: WindowRow = WindowRow::NONE;

    fn other(window: Window) -> OtherReplica {
        OtherReplica { window, wins_ties: false }
    }

    /// Whatever the other writers have, a merge of their parts with this writer's part gives the whole.
    #[test]
    fn the_own_part_completes_the_others() {
        use Aggregation::{Average, Count, Max, Percentile, Sum};
        let whole = window(60.0, 60);
        for method in [Average, Sum, Count, Max, Percentile(500)] {
            for others in [NONE, window(50.0, 55).into()] {
                let own = own_part(method, whole, others);
                assert_eq!(
                    merge_with_others(method, own, others, OtherReplica::default()),
                    Some(whole),
                    "{method} {others:?}"
                );
            }
        }
        let signed = |value, count| WindowRow { value, count: RowCount::new(count) };
        for others in [signed(75.0, 70), signed(50.0, 60), signed(-10.0, -10), signed(-3.0, 0)] {
            let own = own_part(Sum, whole, others);
            let merged = merge_with_others(Sum, own, others, OtherReplica::default());
            assert_eq!(merged, Some(whole), "{others:?}");
        }
    }

    #[test]
    fn sums_are_completed_and_extremes_stay_whole() {
        let part = |method, whole, others: Option<Window>| {
            let row = own_part(method, whole, others.map_or(NONE, WindowRow::from));
            (row.value, row.count.get())
        };
        let (whole, others) = (window(60.0, 60), Some(window(50.0, 55)));
        assert_eq!(part(Aggregation::Average, whole, others), (10.0, 5));
        assert_eq!(part(Aggregation::Sum, whole, Some(window(75.0, 70))), (-15.0, -10));
        assert_eq!(part(Aggregation::Max, window(9.0, 60), Some(window(5.0, 55))), (9.0, 5));
        assert_eq!(part(Aggregation::Percentile(500), window(9.0, 60), Some(window(5.0, 55))), (9.0, 60));
        assert_eq!(part(Aggregation::Sum, window(6.0, 3), None), (6.0, 3));
    }

    #[test]
    fn corrections_mean_nothing_alone() {
        let correction = WindowRow { value: -15.0, count: RowCount::new(-10) };
        let none = OtherReplica::default();
        assert_eq!(merge_with_others(Aggregation::Sum, correction, NONE, none), None);
        let full = window(4.0, 2);
        assert_eq!(merge_with_others(Aggregation::Sum, correction, NONE, other(full)), Some(full));
        // Corrections take effect as soon as there is something to correct, whichever writer has stored it.
        let whole = WindowRow::from(window(70.0, 70));
        for (own, same) in [(correction, whole), (whole, correction)] {
            assert_eq!(merge_with_others(Aggregation::Sum, own, same, none), Some(window(55.0, 60)));
        }
    }

    #[test]
    fn another_replica_wins_only_if_it_is_fuller() {
        let own = WindowRow::from(window(1.0, 3));
        let merge = |other| merge_with_others(Aggregation::Sum, own, window(2.0, 2).into(), other);
        assert_eq!(merge(other(window(9.0, 5))), Some(window(3.0, 5)));
        assert_eq!(merge(other(window(9.0, 6))), Some(window(9.0, 6)));
        assert_eq!(merge(OtherReplica { window: window(9.0, 5), wins_ties: true }), Some(window(9.0, 5)));
        assert_eq!(merge(OtherReplica { window: window(9.0, 4), wins_ties: true }), Some(window(3.0, 5)));
    }

    /// Two replicas with the same count and different values: their daemons and any other reader agree.
    #[test]
    fn every_daemon_gives_the_same_answer() {
        let rows = [row(1, 8, 5.0, 2), row(1, 16, 1.0, 1), row(2, 8, 7.0, 3), row(3, 8, 2.0, 1)];
        let mut all = SlotWindow::default();
        rows.iter().for_each(|row| all.add(Aggregation::Sum, *row));
        for own in [row(1, 8, 0.0, 0), row(1, 16, 0.0, 0), row(2, 8, 0.0, 0), row(3, 8, 0.0, 0)] {
            let (mut mine, mut same) = (ReplicaWindow::default(), ReplicaWindow::default());
            let mut others = SlotWindow::default();
            for row in rows {
                match row.writer {
                    writer if writer == own.writer => mine.add(Aggregation::Sum, row),
                    writer if writer.replica() == own.writer.replica() => same.add(Aggregation::Sum, row),
                    _ => others.add(Aggregation::Sum, row),
                }
            }
            let other = others.of_others(own.writer.replica());
            let answer = merge_with_others(Aggregation::Sum, mine.row(), same.row(), other);
            assert_eq!(answer, all.window(), "{:?}", own.writer);
        }
    }
}
