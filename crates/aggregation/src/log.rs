//! The durable log of the open intervals, in a journal of its own.
//!
//! A record's metric is the number of a buffer or a group, with the kind of the record in the top bits. All
//! records of an interval carry a time within that interval. [`Kind`] says what they mean,
//! `docs/formats/aggregation.md` describes them.

use plumbago_journal::{Journal, JournalError, JournalWriter};

/// The position of the lowest bit of a record's kind in the metric number of the record.
const KIND_AT: u32 = 30;
/// This bit is set in the number of a group and not in that of a buffer, in records of values and of names
/// alike.
const GROUP: u32 = 1 << 29;
/// Largest number of a buffer or a group. No buffer has this number.
pub(crate) const NUMBER_MAX: u32 = GROUP - 1;
/// The number of records that may wait in memory while the disk accepts none. If there are more, records are
/// dropped, and the whole log is rewritten later.
const PENDING_MAX: usize = 1 << 20;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value arrived for one buffer.
    Value,
    /// A value arrived for every buffer of a group.
    Group,
    /// One number of a state. A later `Restore` completes the state.
    Part,
    /// Completes the state of an interval, whose numbers are in the preceding `Part` records. The value of
    /// this record is the count of the interval.
    Restore,
    /// The interval is closed: its value is in the store's journal.
    Closed,
}

impl Kind {
    /// Splits the metric of a record into its kind and the number of a buffer or a group. Names of groups have the
    /// kind `Group`, names of buffers the kind `Value`.
    pub(crate) fn of(metric: u32) -> (Self, u32) {
        let kind = match metric >> KIND_AT {
            0 if metric & GROUP != 0 => Self::Group,
            0 => Self::Value,
            1 => Self::Part,
            2 => Self::Restore,
            _ => Self::Closed,
        };
        (kind, metric & NUMBER_MAX)
    }

    pub(crate) fn metric(self, number: u32) -> u32 {
        let bits = match self {
            Self::Value => 0,
            Self::Group => GROUP,
            Self::Part => 1 << KIND_AT,
            Self::Restore => 2 << KIND_AT,
            Self::Closed => 3 << KIND_AT,
        };
        bits | number
    }
}

/// Appends the records of aggregation to its journal.
pub(crate) struct Log {
    journal: Journal,
    writer: JournalWriter,
    /// Whether records were dropped, because the disk accepted none for too long. Nothing is appended until
    /// the disk accepts records again.
    is_broken: bool,
}

impl Log {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { writer: journal.writer(), journal, is_broken: false }
    }

    /// The segment that new records go to.
    pub(crate) fn segment(&self) -> u32 {
        self.writer.segment()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Writes that from here on, `number` stands for the buffer that `key` describes.
    pub(crate) fn name(&mut self, number: u32, key: &str) {
        if !self.is_broken {
            self.writer.creation(Kind::Value.metric(number), key);
        }
    }

    /// Writes that from here on, `number` stands for the group of these buffers.
    pub(crate) fn name_group(&mut self, number: u32, buffers: &str) {
        if !self.is_broken {
            self.writer.creation(Kind::Group.metric(number), buffers);
        }
    }

    #[inline]
    pub(crate) fn value(&mut self, number: u32, timestamp: u32, value: f64) {
        self.append(Kind::Value, number, timestamp, value);
    }

    /// Writes one value for all buffers of a group.
    #[inline]
    pub(crate) fn group(&mut self, number: u32, timestamp: u32, value: f64) {
        self.append(Kind::Group, number, timestamp, value);
    }

    /// Writes the whole state of an interval.
    pub(crate) fn state(&mut self, number: u32, start: u32, state: &[f64], count: u32) {
        state.iter().for_each(|part| self.append(Kind::Part, number, start, *part));
        self.append(Kind::Restore, number, start, f64::from(count));
    }

    pub(crate) fn closed(&mut self, number: u32, start: u32) {
        self.append(Kind::Closed, number, start, 0.0);
    }

    #[inline]
    fn append(&mut self, kind: Kind, number: u32, timestamp: u32, value: f64) {
        if !self.is_broken {
            self.writer.point(kind.metric(number), timestamp, value);
        }
    }

    /// Writes the appended records to the file, so that a kill does not lose them.
    pub(crate) fn write_out(&mut self) -> Result<(), JournalError> {
        let written = self.writer.write_out();
        if written.is_err() && self.writer.pending_points() > PENDING_MAX {
            self.is_broken = true;
            self.writer = self.journal.writer();
        }
        written.map(drop)
    }

    /// Tests whether the disk accepts records again after [`Log::is_broken`]. If it returns `true`, the caller writes
    /// every state again.
    pub(crate) fn begin_again(&mut self) -> bool {
        self.is_broken = false;
        // A record without any effect, to test whether the disk accepts it.
        self.closed(NUMBER_MAX, 0);
        self.is_broken = self.writer.write_out().is_err();
        if self.is_broken {
            self.writer = self.journal.writer();
        }
        !self.is_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_numbers_are_told_apart() {
        for kind in [Kind::Value, Kind::Group, Kind::Part, Kind::Restore, Kind::Closed] {
            for number in [0, 7, NUMBER_MAX] {
                assert_eq!(Kind::of(kind.metric(number)), (kind, number));
            }
        }
    }
}
