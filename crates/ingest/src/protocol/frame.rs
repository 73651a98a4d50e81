//! Frames: a length of four bytes, big-endian, followed by a message of that length.

use super::parser::{Context, Intake, Protocol, Step};
use crate::reject::Reject;

const HEADER_BYTES: usize = 4;

/// The position of a decoder in a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Number of points accepted or refused so far.
    pub seen: usize,
    /// The size of these points in a batch, which repeats the name of each point.
    pub bytes: usize,
}

/// Decodes the points of a frame.
pub trait Decode: Send {
    /// Decodes the points after `from`. Returns `None` at the end of the frame. If the batch gets too large,
    /// returns the position, from which a later call with the same frame continues.
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
    /// The bytes that were read but not decoded yet.
    tail: Vec<u8>,
    cursor: Cursor,
    frame_bytes_max: usize,
}

/// The content at the start of the bytes.
enum Next<'a> {
    Frame(&'a [u8], &'a [u8]),
    Incomplete,
    TooLarge,
}

impl<D: Decode> Framed<D> {
    /// A stream of frames of at most `frame_bytes_max` bytes.
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

    /// Decodes all complete frames and moves the remaining bytes to the tail. The tail must be empty.
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

    /// Number of bytes missing from the first frame of the tail. 0 while its length is unknown.
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
        // If the new bytes do not complete the frame, they are only stored, so that a large frame is not
        // scanned again for each chunk.
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
