//! A shard's access to the journal.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::JournalError;
use crate::frame::{Frame, RECORDS_MAX};
use crate::shared::Shared;

/// Appends the records of one shard. Appended records are only in memory. [`JournalWriter::write_out`] writes
/// them to a file, after which they survive `kill -9`.
pub struct JournalWriter {
    shared: Arc<Shared>,
    open: Frame,
    /// Full frames that are not written yet, oldest first. Stays empty if the caller checks
    /// [`JournalWriter::is_full`] and no write fails.
    waiting: VecDeque<Frame>,
    segment: u32,
    pending_points: usize,
}

impl JournalWriter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let segment = shared.current_segment();
        Self { shared, open: Frame::new(), waiting: VecDeque::new(), segment, pending_points: 0 }
    }

    /// Appends a point and returns its sequence number.
    #[inline]
    pub fn point(&mut self, metric: u32, timestamp: u32, value: f64) -> u64 {
        if self.open.is_full() {
            self.turn_frame();
        }
        self.pending_points += 1;
        self.open.push_point(metric, timestamp, value)
    }

    /// Appends the creation of a metric: from here on, `metric` is the number of the metric `name`. Returns
    /// the record's sequence number.
    pub fn creation(&mut self, metric: u32, name: &str) -> u64 {
        if !self.open.has_room_for(name) {
            self.turn_frame();
        }
        self.open.push_creation(metric, name)
    }

    /// Appends the removal of a metric. Its number can be given to another metric later. Returns the record's
    /// sequence number.
    pub fn removal(&mut self, metric: u32) -> u64 {
        if !self.open.has_room_for("") {
            self.turn_frame();
        }
        self.open.push_removal(metric)
    }

    /// Number of appended points that have not been written yet.
    pub fn pending_points(&self) -> usize {
        self.pending_points
    }

    /// Whether appended records of any kind are not written yet.
    pub fn has_records(&self) -> bool {
        !self.waiting.is_empty() || !self.open.is_empty()
    }

    /// The number of the segment for new records. It changes only in [`JournalWriter::write_out`].
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// Whether the caller should call [`JournalWriter::write_out`] before it appends more. Otherwise further
    /// records take more memory, in additional frames.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty() || (self.open.is_full() && !self.open.is_empty())
    }

    /// Writes all appended records to the journal's file and returns the number of points written. Then
    /// switches to the current segment, so call it regularly, even if no records are pending.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the journal refuses points at the moment. Unwritten records stay in the writer, and the next
    /// call retries. After `Poisoned` and `Closed`, all further calls fail.
    pub fn write_out(&mut self) -> Result<usize, JournalError> {
        let mut handed = 0;
        while let Some(frame) = self.waiting.front_mut() {
            handed += write(&self.shared, self.segment, frame, &mut self.pending_points)?;
            self.waiting.pop_front();
        }
        if !self.open.is_empty() {
            handed += write(&self.shared, self.segment, &mut self.open, &mut self.pending_points)?;
            self.open.reset();
        }
        self.segment = self.shared.current_segment();
        Ok(handed)
    }

    /// Starts a new frame with newly reserved sequence numbers. Keeps the old one if it holds records.
    #[cold]
    fn turn_frame(&mut self) {
        if !self.open.is_empty() {
            self.waiting.push_back(std::mem::replace(&mut self.open, Frame::new()));
        }
        self.open.begin(self.shared.reserve(RECORDS_MAX as u64));
    }
}

fn write(
    shared: &Shared,
    segment: u32,
    frame: &mut Frame,
    pending_points: &mut usize,
) -> Result<usize, JournalError> {
    let points = frame.points();
    frame.with_encoded(|first, stored| shared.write(segment, first, stored, points))?;
    *pending_points -= points;
    Ok(points)
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        if (self.pending_points > 0 || !self.open.is_empty())
            && let Err(error) = self.write_out()
        {
            tracing::error!(
                points = self.pending_points, %error,
                "the process ends before these points could be written to the journal; they are lost unless they were stored"
            );
        }
    }
}
