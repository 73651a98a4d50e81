//! Messages behind a length: four bytes, big-endian, then so many bytes.

use super::{Context, Intake, Protocol, Step};
use crate::reject::Reject;

const HEADER_BYTES: usize = 4;

/// How far a decoder has come in one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Points taken or refused so far.
    pub seen: usize,
    /// Bytes they became, names repeated.
    pub bytes: usize,
}

/// Reads the points out of one frame.
pub trait Decode: Send {
    /// Takes the points after `from`. Stops when the batch is large and says where; the same frame is
    /// then given again.
    fn decode(
        &mut self,
        frame: &[u8],
        from: Cursor,
        context: &Context<'_>,
        intake: &mut Intake,
    ) -> Option<Cursor>;
}

/// A stream of frames.
#[derive(Debug)]
pub struct Framed<D> {
    decoder: D,
    /// What was read and not yet decoded.
    tail: Vec<u8>,
    cursor: Cursor,
    frame_bytes_max: usize,
}

/// What stands at the start of the bytes.
enum Next<'a> {
    Frame(&'a [u8], &'a [u8]),
    Incomplete,
    TooLarge,
}

impl<D: Decode> Framed<D> {
    /// A stream whose frames may be `frame_bytes_max` bytes long.
    pub fn new(decoder: D, frame_bytes_max: usize) -> Self {
        Self { decoder, tail: Vec::new(), cursor: Cursor::default(), frame_bytes_max }
    }

    fn next<'a>(&self, bytes: &'a [u8]) -> Next<'a> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Next::Incomplete;
        };
        let length = u32::from_be_bytes(*header) as usize;
        if length > self.frame_bytes_max {
            return Next::TooLarge;
        }
        match rest.split_at_checked(length) {
            Some((frame, rest)) => Next::Frame(frame, rest),
            None => Next::Incomplete,
        }
    }

    /// Decodes whole frames; what is left goes back to the tail, which is empty while this runs.
    fn frames(&mut self, mut bytes: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        loop {
            match self.next(bytes) {
                Next::Frame(frame, rest) => {
                    if self.cursor == Cursor::default() {
                        intake.messages += 1;
                    }
                    if let Some(cursor) = self.decoder.decode(frame, self.cursor, context, intake) {
                        self.cursor = cursor;
                        self.tail.extend_from_slice(bytes);
                        return Step::Again;
                    }
                    self.cursor = Cursor::default();
                    bytes = rest;
                }
                Next::Incomplete => {
                    self.tail.extend_from_slice(bytes);
                    return Step::Read;
                }
                Next::TooLarge => {
                    intake.messages += 1;
                    intake.tally.reject(Reject::FrameTooLarge, bytes);
                    return Step::Close;
                }
            }
        }
    }

    /// How many bytes the first frame of the tail lacks; 0 when its length is not known yet.
    fn missing(&self) -> usize {
        match self.tail.first_chunk::<HEADER_BYTES>() {
            Some(header) => {
                let length = u32::from_be_bytes(*header) as usize;
                (HEADER_BYTES + length).saturating_sub(self.tail.len())
            }
            None => 0,
        }
    }
}

impl<D: Decode> Protocol for Framed<D> {
    fn feed(&mut self, chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        if self.tail.is_empty() {
            return self.frames(chunk, context, intake);
        }
        // Bytes that end no frame are only kept; no use to look at all of them again.
        let missing = self.missing();
        self.tail.extend_from_slice(chunk);
        if chunk.len() < missing {
            return Step::Read;
        }
        self.again(context, intake)
    }

    fn again(&mut self, context: &Context<'_>, intake: &mut Intake) -> Step {
        let tail = std::mem::take(&mut self.tail);
        self.frames(&tail, context, intake)
    }

    fn finish(&mut self, intake: &mut Intake) {
        let tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            intake.messages += 1;
            intake.tally.reject(Reject::HalfFrame, &tail);
        }
    }

    fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }
}
