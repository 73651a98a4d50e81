//! Pending rows of peers. In a read they replace the server's rows of the same writers and slots.

use std::collections::BTreeMap;

use plumbago_store::{ReadRequest, WriterIdentity, WriterRow};

use crate::layout::{self, Partition};

/// The pending rows of peers in one partition, by the offset of their slot.
#[derive(Debug, Default)]
pub(crate) struct PeerOverlay(BTreeMap<i16, Slot>);

#[derive(Debug, Default)]
struct Slot {
    rows: Vec<WriterRow>,
    is_taken: bool,
}

impl PeerOverlay {
    /// Collects the pending rows of a request for one range and one partition. Rows of the writer `own` are
    /// left out, because a daemon may be in its own list of peers.
    pub(crate) fn of(
        request: &ReadRequest,
        own: WriterIdentity,
        range: usize,
        (partition, from, until): (Partition, i16, i16),
    ) -> Self {
        let mut overlay = Self::default();
        let slot = |offset: i16| (range as u32, partition.first_slot() + offset as u32);
        for peer in &request.peers {
            let writer = WriterIdentity::new(peer.replica, peer.writer);
            if writer == own {
                continue;
            }
            let first = peer.rows.partition_point(|(range, at, _)| (*range, *at) < slot(from));
            for (_, at, row) in peer.rows[first..].iter().take_while(|(r, at, _)| (*r, *at) < slot(until)) {
                // Pending rows are newer than any row on the server.
                let row = WriterRow { writer, part: 0, row: *row, written_us: i64::MAX, is_full: false };
                overlay.0.entry(layout::offset(*at)).or_default().rows.push(row);
            }
        }
        overlay
    }

    /// Whether a pending row replaces what the server has of this writer for this slot.
    pub(crate) fn replaces(&self, offset: i16, writer: WriterIdentity) -> bool {
        self.0.get(&offset).is_some_and(|slot| slot.rows.iter().any(|row| row.writer == writer))
    }

    /// Returns the rows of a slot the first time, and nothing after that.
    pub(crate) fn take(&mut self, offset: i16) -> Vec<WriterRow> {
        let Some(slot) = self.0.get_mut(&offset).filter(|slot| !slot.is_taken) else { return Vec::new() };
        slot.is_taken = true;
        slot.rows.clone()
    }

    /// The offsets of slots whose rows have not been taken.
    pub(crate) fn left(&self) -> Vec<i16> {
        self.0.iter().filter(|(_, slot)| !slot.is_taken).map(|(offset, _)| *offset).collect()
    }
}

#[cfg(test)]
mod tests {
    use plumbago_store::{PeerRows, RowCount, WindowRow};

    use super::*;

    #[test]
    fn each_part_gets_its_slots_without_our_own_rows() {
        let row = |value| WindowRow { value, count: RowCount::new(3) };
        let rows = vec![(0, 7, row(1.0)), (1, 1999, row(2.0)), (1, 2000, row(3.0)), (1, 2005, row(4.0))];
        let peer = |replica, writer| PeerRows { replica, writer, rows: rows.clone() };
        let request = ReadRequest { peers: vec![peer(0, 8), peer(1, 8)], ..Default::default() };
        let own = WriterIdentity::new(0, 8);
        let mut overlay = PeerOverlay::of(&request, own, 1, (Partition(1), 0, 5));
        assert!(overlay.replaces(0, WriterIdentity::new(1, 9)));
        assert!(!overlay.replaces(0, own) && !overlay.replaces(1, WriterIdentity::new(1, 9)));
        assert_eq!(overlay.left(), [0]);
        let rows = overlay.take(0);
        assert_eq!((rows.len(), rows[0].row.value, rows[0].writer), (1, 3.0, WriterIdentity::new(1, 8)));
        assert!(overlay.left().is_empty() && overlay.take(0).is_empty());
        assert!(overlay.replaces(0, WriterIdentity::new(1, 15)));
    }
}
