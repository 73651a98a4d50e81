//! Writers: daemons that store windows of the same metrics.

/// Number of replicas (copies of the same traffic).
pub const REPLICAS: usize = 4;

/// Number of writer ids in a replica.
pub const WRITER_IDS: u16 = 1 << 14;

/// Number of consecutive writer ids that one writer owns. The writer stores a window under several of these
/// ids when the count is too large for one row.
pub const IDS_PER_WRITER: u16 = 8;

/// The largest count of a window that the rows of one writer can hold: a row has 15 bits for its count.
pub const WINDOW_COUNT_MAX: u32 = 0x7fff * IDS_PER_WRITER as u32;

/// The writer that a daemon is: the replica it belongs to and the first of the writer ids that it owns.
///
/// Writers of one replica see different points of a metric, so their windows are added. Replicas see the same
/// points, so readers use the replica that counts the most slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WriterIdentity {
    replica: u8,
    first_id: u16,
}

impl WriterIdentity {
    /// The writer that owns `writer_id` in a replica. The replica is taken modulo [`REPLICAS`], the id
    /// modulo [`WRITER_IDS`].
    pub fn new(replica: u8, writer_id: u16) -> Self {
        let first_id = writer_id % WRITER_IDS / IDS_PER_WRITER * IDS_PER_WRITER;
        Self { replica: replica % REPLICAS as u8, first_id }
    }

    /// The replica, below [`REPLICAS`].
    pub fn replica(self) -> u8 {
        self.replica
    }

    /// The first writer id, a multiple of [`IDS_PER_WRITER`].
    pub fn first_id(self) -> u16 {
        self.first_id
    }

    /// The `n`th writer id, counted from 0 and modulo [`IDS_PER_WRITER`].
    pub fn id(self, n: u16) -> u16 {
        self.first_id + n % IDS_PER_WRITER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_owns_a_group_of_ids() {
        let writer = WriterIdentity::new(1, 13);
        assert_eq!((writer.replica(), writer.first_id(), writer.id(7)), (1, 8, 15));
        assert_eq!(WriterIdentity::new(1, 15), writer);
        assert_ne!(WriterIdentity::new(1, 16), writer);
        assert_ne!(WriterIdentity::new(2, 13), writer);
        assert_eq!(WriterIdentity::new(7, u16::MAX), WriterIdentity::new(3, 16_376));
    }
}
