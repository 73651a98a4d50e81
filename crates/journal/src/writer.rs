//! One shard's end of the journal.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::JournalError;
use crate::frame::{Frame, RECORDS_MAX};
use crate::shared::Shared;

/// Appends the records of one shard. Appending touches memory only; [`JournalWriter::hand_over`]
/// makes the records survive the process.
pub struct JournalWriter {
    shared: Arc<Shared>,
    open: Frame,
    /// Full frames that were not handed over yet; empty as long as the owner heeds
    /// [`JournalWriter::is_full`].
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

    /// Appends the creation of a metric: from here on `metric` stands for `name`. Returns its
    /// sequence number.
    pub fn creation(&mut self, metric: u32, name: &str) -> u64 {
        if !self.open.has_room_for(name) {
            self.turn_frame();
        }
        self.open.push_creation(metric, name)
    }

    /// Appends the removal of a metric: `metric` may stand for another name later. Returns its
    /// sequence number.
    pub fn removal(&mut self, metric: u32) -> u64 {
        if !self.open.has_room_for("") {
            self.turn_frame();
        }
        self.open.push_removal(metric)
    }

    /// Points that were appended and not handed over yet.
    pub fn pending_points(&self) -> usize {
        self.pending_points
    }

    /// The segment that holds what is appended now; changes only in [`JournalWriter::hand_over`].
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// True when the owner must hand over before it appends more. What is appended all the same is
    /// kept in further frames.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty() || (self.open.is_full() && !self.open.is_empty())
    }

    /// Gives everything appended to the kernel and returns how many points that were. After an error
    /// what was not taken stays here, and the next call tries again. Also moves on to the segment
    /// of the hour, so call it when nothing is pending too.
    pub fn hand_over(&mut self) -> Result<usize, JournalError> {
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

    /// Makes room in the open frame: a fresh one takes its place, with numbers of its own.
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
    frame.with_encoded(|first, bytes| shared.write(segment, first, bytes, points))?;
    *pending_points -= points;
    Ok(points)
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        if (self.pending_points > 0 || !self.open.is_empty())
            && let Err(error) = self.hand_over()
        {
            tracing::error!(points = self.pending_points, %error, "points not journaled at the end of a writer");
        }
    }
}
