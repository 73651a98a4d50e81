//! From the entries of a frame to the intake, in pieces of bounded size.

use std::ops::ControlFlow;

use super::{BATCH_BYTES, Context, Cursor, Intake};
use crate::reject::Reject;

/// A frame may become this many times its own size in points and names. What honest senders repeat
/// (one long name, many points) stays far below; a few bytes that repeat a huge name do not.
const AMPLIFICATION_MAX: usize = 64;

/// What a point costs in a batch, beside its name.
const POINT_BYTES: usize = 24;

/// Stop, and go on at the cursor if there is one.
pub(super) type Flow = ControlFlow<Option<Cursor>>;

/// Takes the entries of one frame, those that were taken before left out.
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

    /// Counts something that is no point. The name is charged: to find that out it was read.
    pub(super) fn refused(&mut self, name: &[u8], reason: Reject) -> Flow {
        self.entry(name, || Err(reason))
    }

    /// Takes a point, or counts why it is none. It is read only if it was not taken before.
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

/// What a decoder returns at the end of its walk.
pub(super) fn outcome(flow: Flow) -> Option<Cursor> {
    match flow {
        Flow::Continue(()) => None,
        Flow::Break(cursor) => cursor,
    }
}
