//! The lines of a compressed stream, as carbon-c-relay sends them. They are parsed by another protocol.
//!
//! The first bytes of a connection say how it is compressed: [`Compression`]. The decoders are push parsers.
//! They take the bytes that have arrived, and their content is parsed at once, so a point is accepted as soon
//! as its sender flushes. The end of a stream may be missing, because carbon-c-relay never writes it.

mod crc32c;
mod gzip;
mod lz4;
mod snappy;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::RefCell;

use super::compression::Compression;
use super::parser::{Context, Intake, Protocol, Step};
use crate::reject::Reject;
pub(crate) use gzip::Gzip;

/// Number of decompressed bytes that are parsed before their points are pushed.
const STEP_BYTES: usize = 128 << 10;

/// A stream may grow to at most this many times its compressed size. The streams of real senders grow far
/// less; gzip allows a factor of at most 1032. Below `GROWTH_FREE_BYTES` a stream may grow by any factor.
const GROWTH_MAX: u64 = 200;
const GROWTH_FREE_BYTES: u64 = 1 << 20;

/// An empty buffer that is larger than this is freed.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    /// Decompressed bytes on their way to the line parser, one buffer for all connections of a thread. It
    /// grows to the size of the largest block so far, at most 4 MiB.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The progress of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Number of bytes consumed from the start of the input.
    pub(crate) taken: usize,
    /// Number of bytes written to the start of the output.
    pub(crate) made: usize,
}

impl Progress {
    /// No progress: more input is needed.
    pub(crate) const NONE: Self = Self { taken: 0, made: 0 };

    pub(crate) const fn taken(taken: usize) -> Self {
        Self { taken, made: 0 }
    }
}

/// The compressed bytes are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Number of bytes that were written to the output before the damage.
    pub(crate) made: usize,
    /// The damage, as text.
    pub(crate) what: Cow<'static, str>,
}

impl From<&'static str> for Damage {
    fn from(what: &'static str) -> Self {
        Self { made: 0, what: Cow::Borrowed(what) }
    }
}

impl From<String> for Damage {
    fn from(what: String) -> Self {
        Self { made: 0, what: Cow::Owned(what) }
    }
}

/// The decoder of a compressed stream.
pub(crate) trait Unpack: Send {
    /// Decodes from the start of `input` to the start of `output`, and enlarges `output` if a block needs
    /// that. If it takes nothing and writes nothing, it needs more input: the same bytes followed by more.
    fn unpack(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Progress, Damage>;

    /// Whether the bytes taken so far end in the middle of a unit that has to be complete.
    fn is_cut(&self) -> bool {
        false
    }
}

/// A stream of lines that may be compressed.
pub struct Stream<P> {
    /// Parses the lines.
    lines: P,
    state: State,
    /// The bytes that were received but not decoded yet.
    tail: Vec<u8>,
    /// The bytes that were decoded but not parsed yet: the rest of a large block, and how much of it is parsed.
    block: Vec<u8>,
    parsed: usize,
    /// The number of all bytes taken and made so far.
    taken: u64,
    made: u64,
}

enum State {
    /// Too few bytes have arrived to recognise the compression.
    New(Compression),
    Plain,
    Packed(Box<dyn Unpack>),
    Broken,
}

impl<P: Protocol> Stream<P> {
    /// A stream of lines for the parser `lines`.
    pub fn new(lines: P, compression: Compression) -> Self {
        Self {
            lines,
            state: State::New(compression),
            tail: Vec::new(),
            block: Vec::new(),
            parsed: 0,
            taken: 0,
            made: 0,
        }
    }

    /// Handles the first bytes of a connection.
    fn start(&mut self, chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        let State::New(compression) = self.state else { return Step::Close };
        let first = if self.tail.is_empty() {
            Cow::Borrowed(chunk)
        } else {
            self.tail.extend_from_slice(chunk);
            Cow::Owned(std::mem::take(&mut self.tail))
        };
        match recognise(&first, compression) {
            None => {
                self.tail = first.into_owned();
                Step::Read
            }
            Some(state) => {
                self.state = state;
                self.feed(&first, context, intake)
            }
        }
    }

    /// Decodes and parses until a step is complete or more input is needed. Returns how many bytes it took.
    fn unpack(&mut self, input: &[u8], context: &Context<'_>, intake: &mut Intake) -> (usize, Step) {
        let State::Packed(decoder) = &mut self.state else { return (0, Step::Close) };
        let (mut at, mut parsed) = (0, 0);
        let damage = OUTPUT.with_borrow_mut(|output| {
            loop {
                let progress = match decoder.unpack(&input[at..], output) {
                    Ok(progress) => progress,
                    Err(damage) => {
                        self.lines.feed(&output[..damage.made], context, intake);
                        return Err((Reject::Damaged, damage.what));
                    }
                };
                at += progress.taken;
                self.taken += progress.taken as u64;
                self.made += progress.made as u64;
                let (now, later) = output[..progress.made].split_at(progress.made.min(2 * STEP_BYTES));
                self.lines.feed(now, context, intake);
                self.block.extend_from_slice(later);
                if self.made > GROWTH_FREE_BYTES.max(self.taken.saturating_mul(GROWTH_MAX)) {
                    let what = format!("{} bytes became {}", self.taken, self.made);
                    return Err((Reject::Amplified, Cow::Owned(what)));
                }
                if progress == Progress::NONE {
                    return Ok(Step::Read);
                }
                parsed += now.len();
                if parsed >= STEP_BYTES || !later.is_empty() {
                    return Ok(Step::Again);
                }
            }
        });
        match damage {
            Ok(step) => (at, step),
            Err((reason, what)) => {
                intake.tally.reject(reason, what.as_bytes());
                self.state = State::Broken;
                self.block = Vec::new();
                (input.len(), Step::Close)
            }
        }
    }

    /// Like [`Self::unpack`], starting with the bytes that were kept.
    fn unpack_tail(&mut self, context: &Context<'_>, intake: &mut Intake) -> Step {
        let mut tail = std::mem::take(&mut self.tail);
        let (taken, step) = self.unpack(&tail, context, intake);
        tail.drain(..taken);
        if !tail.is_empty() || tail.capacity() <= KEPT_BYTES {
            self.tail = tail;
        }
        step
    }

    /// Parses the next part of a large block. Returns false if there is none.
    fn parse_block(&mut self, context: &Context<'_>, intake: &mut Intake) -> bool {
        if self.block.is_empty() {
            return false;
        }
        let end = self.block.len().min(self.parsed + 2 * STEP_BYTES);
        self.lines.feed(&self.block[self.parsed..end], context, intake);
        self.parsed = end;
        if end == self.block.len() {
            self.block = Vec::new();
            self.parsed = 0;
        }
        true
    }
}

impl<P: Protocol> Protocol for Stream<P> {
    fn feed(&mut self, chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        match self.state {
            State::Plain => self.lines.feed(chunk, context, intake),
            State::New(_) => self.start(chunk, context, intake),
            State::Packed(_) if self.tail.is_empty() => {
                let (taken, step) = self.unpack(chunk, context, intake);
                self.tail.extend_from_slice(&chunk[taken..]);
                step
            }
            State::Packed(_) => {
                self.tail.extend_from_slice(chunk);
                self.unpack_tail(context, intake)
            }
            State::Broken => Step::Close,
        }
    }

    fn again(&mut self, context: &Context<'_>, intake: &mut Intake) -> Step {
        if self.parse_block(context, intake) {
            return Step::Again;
        }
        self.unpack_tail(context, intake)
    }

    fn finish(&mut self, intake: &mut Intake) {
        match &self.state {
            State::New(_) if !self.tail.is_empty() => {
                intake.messages += 1;
                intake.tally.reject(Reject::HalfLine, &self.tail);
            }
            State::Packed(decoder) if !self.tail.is_empty() || decoder.is_cut() => {
                intake.messages += 1;
                intake
                    .tally
                    .reject(Reject::HalfFrame, b"the compressed stream ends in the middle of a block");
            }
            _ => {}
        }
        self.lines.finish(intake);
        self.tail = Vec::new();
        self.state = State::Broken;
    }

    fn held_bytes(&self) -> usize {
        self.tail.capacity() + self.block.capacity() + self.lines.held_bytes()
    }
}

/// The compression that the first bytes of a connection show. `None` if there are too few bytes.
fn recognise(first: &[u8], compression: Compression) -> Option<State> {
    if first.is_empty() {
        return None;
    }
    let with_auto = [(gzip::MAGIC, gzip::boxed as fn() -> Box<dyn Unpack>), (lz4::MAGIC, lz4::boxed)];
    let snappy = (snappy::MAGIC, snappy::boxed as fn() -> Box<dyn Unpack>);
    let known = match compression {
        Compression::Auto => &[with_auto[0], with_auto[1], snappy][..],
        Compression::Snappy => &[snappy],
        Compression::None => &[],
    };
    if let Some((_, decoder)) = known.iter().find(|(magic, _)| first.starts_with(magic)) {
        return Some(State::Packed(decoder()));
    }
    if known.iter().any(|(magic, _)| magic.starts_with(first)) {
        return None;
    }
    Some(match compression {
        Compression::Snappy => State::Packed(snappy::raw()),
        Compression::Auto | Compression::None => State::Plain,
    })
}

/// Makes room for `bytes` bytes of output.
fn room(output: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if output.len() < bytes {
        output.resize(bytes, 0);
    }
    &mut output[..bytes]
}
