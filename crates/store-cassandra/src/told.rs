//! Rows that other writers have told of, which the server has not got yet or not in this version.

use std::collections::BTreeMap;

use plumbago_store::ReadRequest;

use crate::layout::{self, Partition};
use crate::merge::Cell;
use crate::writers::Identity;

/// What other writers have told of one partition, by offset.
#[derive(Debug, Default)]
pub(crate) struct Told(BTreeMap<i16, Slot>);

#[derive(Debug, Default)]
struct Slot {
    cells: Vec<(Identity, Cell)>,
    taken: bool,
}

impl Told {
    /// What was told of a range of a request, by others than `own`.
    pub(crate) fn of(
        request: &ReadRequest,
        own: Identity,
        range: usize,
        (partition, from, until): (Partition, i16, i16),
    ) -> Self {
        let mut told = Self::default();
        let slot = |offset: i16| (range as u32, partition.first_slot() + offset as u32);
        for peer in &request.peers {
            let writer = Identity::new(peer.replica, peer.writer);
            if writer == own {
                continue;
            }
            let first = peer.rows.partition_point(|(range, at, _)| (*range, *at) < slot(from));
            for (_, at, window) in peer.rows[first..].iter().take_while(|(r, at, _)| (*r, *at) < slot(until))
            {
                let cell = Cell {
                    shard: writer.shard(0),
                    value: window.value,
                    // Below zero where it corrects what others have.
                    count: i64::from(window.count as i32),
                    written_us: i64::MAX,
                };
                told.0.entry(layout::offset(*at)).or_default().cells.push((writer, cell));
            }
        }
        told
    }

    /// True for a row whose writer has told what it will have instead.
    pub(crate) fn replaces(&self, offset: i16, shard: i16) -> bool {
        self.0.get(&offset).is_some_and(|told| told.cells.iter().any(|(writer, _)| writer.owns(shard)))
    }

    /// What was told of a slot, once.
    pub(crate) fn take(&mut self, offset: i16) -> Vec<Cell> {
        let Some(slot) = self.0.get_mut(&offset).filter(|slot| !slot.taken) else { return Vec::new() };
        slot.taken = true;
        slot.cells.iter().map(|(_, cell)| *cell).collect()
    }

    /// The slots that were told of and are not taken.
    pub(crate) fn left(&self) -> Vec<i16> {
        self.0.iter().filter(|(_, slot)| !slot.taken).map(|(offset, _)| *offset).collect()
    }
}

#[cfg(test)]
mod tests {
    use plumbago_model::Window;
    use plumbago_store::PeerRows;

    use super::*;

    #[test]
    fn each_part_gets_its_slots_and_nothing_of_our_own() {
        let window = |value| Window { value, count: 3 };
        let rows =
            vec![(0, 7, window(1.0)), (1, 1999, window(2.0)), (1, 2000, window(3.0)), (1, 2005, window(4.0))];
        let peer = |replica, writer| PeerRows { replica, writer, rows: rows.clone() };
        let request = ReadRequest { peers: vec![peer(0, 8), peer(1, 8)], ..Default::default() };
        let mut told = Told::of(&request, Identity::new(0, 8), 1, (Partition(1), 0, 5));
        assert!(told.replaces(0, layout::shard(1, 9)));
        assert!(!told.replaces(0, layout::shard(0, 9)) && !told.replaces(1, layout::shard(1, 9)));
        assert_eq!(told.left(), [0]);
        let cells = told.take(0);
        assert_eq!((cells.len(), cells[0].value, cells[0].shard), (1, 3.0, layout::shard(1, 8)));
        assert!(told.left().is_empty() && told.take(0).is_empty());
        assert!(told.replaces(0, layout::shard(1, 15)));
    }
}
