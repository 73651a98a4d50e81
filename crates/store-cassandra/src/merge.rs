//! How the rows of several writers and replicas become one window per slot.
//!
//! Writers of one replica have seen different points, so their windows are merged. Replicas have
//! seen the same points, so for each slot the one that has seen the most wins.

use plumbago_model::{Aggregation, Window};

use crate::layout::{COUNT_MAX, IDS_PER_WRITER, replica_of, writer_of};

/// One row of a coarse table, of some slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Who wrote it.
    pub shard: i16,
    /// The window's value.
    pub value: f64,
    /// The window's count; negative where a late window takes back what others counted twice.
    pub count: i64,
    /// When it was written, for methods that need it, else 0.
    pub written_us: i64,
}

/// The window of a slot as far as one replica knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Partial {
    value: f64,
    count: i64,
    /// The order among rows that exclude each other: greatest wins.
    rank: (i64, i16),
    known: bool,
    /// The last window of a percentile, put together.
    run: Run,
}

/// The rows of one window that one writer had to split for its count.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Run {
    writer: u16,
    value: u64,
    count: i64,
}

impl Run {
    /// Adds a row, or begins anew with it; says how full the window is.
    fn take(&mut self, cell: &Cell) -> i64 {
        let (writer, value) = (writer_of(cell.shard) / IDS_PER_WRITER, cell.value.to_bits());
        let full = i64::from(COUNT_MAX);
        let split = cell.count == full || self.count % full == 0;
        if (self.writer, self.value) == (writer, value) && split {
            self.count += cell.count;
        } else {
            *self = Self { writer, value, count: cell.count };
        }
        self.count
    }
}

impl Default for Partial {
    fn default() -> Self {
        Self { value: 0.0, count: 0, rank: (i64::MIN, i16::MIN), known: false, run: Run::default() }
    }
}

impl Partial {
    /// Takes in one more row. Rows may come in any order.
    pub fn add(&mut self, method: Aggregation, cell: Cell) {
        if cell.value.is_nan() {
            return;
        }
        let rank = (if needs_count(method) { self.run.take(&cell) } else { cell.written_us }, cell.shard);
        if !self.known {
            *self = Self { value: cell.value, count: cell.count, rank, known: true, run: self.run };
            return;
        }
        match method {
            // Each was computed from all slots that there were then: the fullest row has the others in it.
            Aggregation::Percentile(_) => {
                if rank > self.rank {
                    (self.value, self.rank, self.count) = (cell.value, rank, rank.0);
                }
                return;
            }
            Aggregation::Last => {
                if rank > self.rank {
                    self.value = cell.value;
                }
            }
            _ => {
                let one = |value| Window { value, count: 1 };
                self.value = method.merge(one(self.value), one(cell.value)).value;
            }
        }
        self.count += cell.count;
        self.rank = self.rank.max(rank);
    }

    /// The window, when anything is known of it.
    pub fn window(&self) -> Option<Window> {
        let count = u32::try_from(self.count).ok().filter(|count| *count > 0)?;
        self.known.then_some(Window { value: self.value, count })
    }
}

/// Percentiles of several writers cannot be merged: the fullest row wins.
fn needs_count(method: Aggregation) -> bool {
    matches!(method, Aggregation::Percentile(_))
}

/// True when rows have to be read with the time at which they were written: the last value is that
/// of the writer who wrote last.
pub fn needs_write_time(method: Aggregation) -> bool {
    method == Aggregation::Last
}

/// A slot as all replicas know it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    replicas: [Partial; 4],
}

impl Slot {
    /// Takes in one more row.
    pub fn add(&mut self, method: Aggregation, cell: Cell) {
        self.replicas[usize::from(replica_of(cell.shard))].add(method, cell);
    }

    /// The window of the replica that has seen the most; the lowest wins a tie.
    pub fn window(&self) -> Option<Window> {
        let mut best: Option<Window> = None;
        for window in self.replicas.iter().filter_map(Partial::window) {
            if best.is_none_or(|best| window.count > best.count) {
                best = Some(window);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::shard;

    fn cell(replica: u8, writer: u16, value: f64, count: i64) -> Cell {
        Cell { shard: shard(replica, writer), value, count, written_us: i64::from(writer) }
    }

    fn merged(method: Aggregation, cells: &[Cell]) -> Option<(f64, u32)> {
        let mut slot = Slot::default();
        cells.iter().for_each(|cell| slot.add(method, *cell));
        slot.window().map(|window| (window.value, window.count))
    }

    #[test]
    fn writers_merge_and_the_fullest_replica_wins() {
        // BigGraphite's own example.
        let cells = [cell(0, 9, 10.0, 2), cell(0, 3, 20.0, 3), cell(1, 1, 99.0, 4)];
        assert_eq!(merged(Aggregation::Average, &cells), Some((30.0, 5)));
        assert_eq!(merged(Aggregation::Sum, &cells), Some((30.0, 5)));
        assert_eq!(merged(Aggregation::Min, &cells), Some((10.0, 5)));
        assert_eq!(merged(Aggregation::Max, &cells), Some((20.0, 5)));
        assert_eq!(merged(Aggregation::Last, &cells), Some((10.0, 5)));
        // Percentiles of writers do not add up, so a replica is as full as its fullest row.
        assert_eq!(merged(Aggregation::Percentile(500), &cells), Some((99.0, 4)));
        assert_eq!(merged(Aggregation::Percentile(500), &cells[..2]), Some((20.0, 3)));
    }

    /// As one writer splits a count that a row does not hold.
    #[test]
    fn a_split_percentile_is_as_full_as_its_rows_together() {
        let full = i64::from(COUNT_MAX);
        let cells =
            [cell(0, 8, 7.0, full), cell(0, 9, 7.0, full), cell(0, 10, 7.0, 5), cell(0, 16, 9.0, full)];
        assert_eq!(merged(Aggregation::Percentile(500), &cells), Some((7.0, 2 * full as u32 + 5)));
        assert_eq!(merged(Aggregation::Percentile(500), &cells[2..]), Some((9.0, full as u32)));
    }

    #[test]
    fn ties_go_to_the_lowest_replica_and_empty_ones_lose() {
        let tie = [cell(2, 1, 2.0, 3), cell(1, 1, 1.0, 3)];
        assert_eq!(merged(Aggregation::Sum, &tie), Some((1.0, 3)));
        assert_eq!(merged(Aggregation::Sum, &[cell(0, 1, 5.0, 0), cell(3, 1, 7.0, 1)]), Some((7.0, 1)));
        assert_eq!(merged(Aggregation::Sum, &[cell(0, 1, 5.0, 0)]), None);
        assert_eq!(merged(Aggregation::Sum, &[]), None);
    }

    #[test]
    fn nan_is_no_value_and_corrections_add_up() {
        let nan = [cell(0, 1, f64::NAN, 9), cell(0, 2, 4.0, 2)];
        assert_eq!(merged(Aggregation::Sum, &nan), Some((4.0, 2)));
        let corrected = [cell(0, 1, 70.0, 70), cell(0, 2, -10.0, -10)];
        assert_eq!(merged(Aggregation::Average, &corrected), Some((60.0, 60)));
    }

    #[test]
    fn split_counts_give_the_whole() {
        let parts = [cell(0, 8, 5.5, 32_767), cell(0, 9, -0.0, 32_767), cell(0, 10, -0.0, 20_866)];
        assert_eq!(merged(Aggregation::Average, &parts), Some((5.5, 86_400)));
        let parts = parts.map(|part| Cell { value: -3.0, ..part });
        assert_eq!(merged(Aggregation::Max, &parts), Some((-3.0, 86_400)));
    }

    #[test]
    fn the_order_of_rows_does_not_matter() {
        let cells = [cell(0, 1, 1.0, 1), cell(0, 2, 2.0, 5), cell(0, 3, 3.0, 2)];
        for method in [Aggregation::Last, Aggregation::Percentile(950), Aggregation::AbsMax] {
            let reversed: Vec<Cell> = cells.iter().rev().copied().collect();
            assert_eq!(merged(method, &cells), merged(method, &reversed), "{method}");
        }
    }
}
