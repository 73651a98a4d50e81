//! Moves the entries of a frame into the intake, in batches of bounded size.

use std::ops::ControlFlow;

use super::frame::Cursor;
use super::parser::{BATCH_BYTES, Context, Intake};
use crate::reject::Reject;

/// How many times larger than a frame its points may become. A normal sender, even with many points of one
/// long name, stays far below. A few bytes that refer repeatedly to a huge name exceed it.
const AMPLIFICATION_MAX: usize = 64;

/// Number of bytes that a point takes in a batch, without its name.
const POINT_BYTES: usize = 24;

/// Whether to stop. With a cursor, decoding continues there later. Without one, the rest of the frame is
/// skipped.
pub(super) type Flow = ControlFlow<Option<Cursor>>;

/// Receives the entries of a frame. Skips those that an earlier call has handled.
pub(super) struct Emitter<'a> {
    context: &'a Context<'a>,
    intake: &'a mut Intake,
    skip: usize,
    at: Cursor,
    bytes_max: usize,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        frame_bytes: usize,
        from: Cursor,
        context: &'a Context<'a>,
        intake: &'a mut Intake,
    ) -> Self {
        let at = Cursor { seen: 0, bytes: from.bytes };
        Self {
            context,
            intake,
            skip: from.seen,
            at,
            bytes_max: frame_bytes.saturating_mul(AMPLIFICATION_MAX),
        }
    }

    pub(super) fn now(&self) -> u32 {
        self.context.now
    }

    /// Counts an entry that is not a point. The bytes of its name count towards the limit, because they had
    /// to be read.
    pub(super) fn refused(&mut self, name: &[u8], reason: Reject) -> Flow {
        self.entry(name, || Err(reason))
    }

    /// Adds the point of an entry, or counts its refusal. `point` is not called for an entry that is skipped.
    pub(super) fn entry(&mut self, name: &[u8], point: impl FnOnce() -> Result<(u32, f64), Reject>) -> Flow {
        self.at.seen += 1;
        if self.at.seen <= self.skip {
            return Flow::Continue(());
        }
        self.at.bytes += POINT_BYTES + name.len();
        if self.at.bytes > self.bytes_max {
            self.intake.tally.reject(Reject::Amplified, name);
            return Flow::Break(None);
        }
        let taken = point().and_then(|(time, value)| self.intake.offer(name, time, value, self.context));
        if let Err(reason) = taken {
            self.intake.tally.reject(reason, name);
        }
        if self.intake.points.bytes() >= BATCH_BYTES {
            return Flow::Break(Some(self.at));
        }
        Flow::Continue(())
    }
}

/// The return value of a decoder.
pub(super) fn outcome(flow: Flow) -> Option<Cursor> {
    match flow {
        Flow::Continue(()) => None,
        Flow::Break(cursor) => cursor,
    }
}
