//! The protocols: from bytes to points, with no socket and no clock in sight.
//!
//! A [`Protocol`] is fed the bytes of one connection as they come and writes what it finds into an
//! [`Intake`]. However the bytes are cut into chunks, the points are the same.

mod emit;
mod frame;
pub mod line;
pub(crate) mod number;
pub mod pickle;
pub mod protobuf;

use plumbago_model::PointBatch;

use crate::name::NameOptions;
use crate::reject::{Reject, Tally};
use crate::relabel::Relabel;

pub use frame::{Cursor, Decode, Framed};

/// Once a batch is this large, a decoder stops and goes on after it was pushed.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// What a parser needs to know besides the bytes.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Seconds since the epoch, for points that say "now".
    pub now: u32,
    /// How names are cleaned up.
    pub names: NameOptions,
    /// Lists and rewrite rules, when there are any.
    pub relabel: Option<&'a Relabel>,
}

/// What a parser gives: the points it accepts, and the count of what it refuses.
#[derive(Debug, Default)]
pub struct Intake {
    /// The accepted points.
    pub points: PointBatch,
    /// The refused ones.
    pub tally: Tally,
    /// Lines or frames seen, empty ones included.
    pub messages: u64,
}

impl Intake {
    /// With room for the points of a chunk of so many bytes.
    pub fn for_bytes(bytes: usize) -> Self {
        Self { points: PointBatch::with_capacity(bytes / 64 + 1), ..Self::default() }
    }

    /// Everything that carried a point, or should have: accepted and refused.
    pub fn received(&self) -> u64 {
        self.points.len() as u64 + self.tally.total()
    }

    /// Adds a point whose number and time are known, if its name and value can be taken.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        name: &[u8],
        timestamp: u32,
        value: f64,
        context: &Context<'_>,
    ) -> Result<(), Reject> {
        if value.is_nan() {
            return Err(Reject::Nan);
        }
        crate::name::with_clean(name, context, |name| self.points.push_utf8(name, timestamp, value))
    }
}

/// What the owner of the connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Push the intake, then read more.
    Read,
    /// Push the intake, then call [`Protocol::again`]: there are points left in what was read.
    Again,
    /// Push the intake, then close: what follows cannot be understood.
    Close,
}

/// The state of one connection between two reads.
pub trait Protocol: Send {
    /// Takes the next bytes of the stream.
    fn feed(&mut self, chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step;

    /// Goes on where [`Step::Again`] left off.
    fn again(&mut self, context: &Context<'_>, intake: &mut Intake) -> Step;

    /// The stream has ended: counts what was begun and not ended.
    fn finish(&mut self, intake: &mut Intake);

    /// Bytes of memory that wait for the rest of a message.
    fn held_bytes(&self) -> usize;
}
