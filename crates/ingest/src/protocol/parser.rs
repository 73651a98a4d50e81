//! What a protocol is: an entry of the table, and the parser of a connection with its input and output.

use plumbago_model::PointBatch;

use super::compression::Compression;
use crate::name::NameOptions;
use crate::reject::{Reject, Tally};
use crate::relabel::{Relabel, with_stored, with_stored_series};

/// A protocol that is spoken over TCP.
#[derive(Debug, Clone, Copy)]
pub struct TcpProtocol {
    /// The name of its listener: of the section `[ingest.<name>]` and of the label `listener`.
    pub name: &'static str,
    /// Default of `listen`: host and port, or empty for a listener that is off until it is configured.
    pub listen: &'static str,
    /// Which setting limits the length of a message.
    pub limit: MessageLimit,
    /// Whether the stream of a sender may be compressed.
    pub is_compressible: bool,
    /// The form of the data on a connection.
    pub talk: Talk,
}

/// The form of the data on a connection.
#[derive(Debug, Clone, Copy)]
pub enum Talk {
    /// A stream of messages that are never answered. Makes the state of a new connection. The arguments are the
    /// longest message in bytes, and how the stream may be compressed.
    Stream(fn(usize, Compression) -> Box<dyn Protocol>),
    /// HTTP requests, each of which is answered.
    Http,
    /// A stream of lines, some of which are answered. A connection whose first byte is an upper-case letter
    /// is HTTP, and is served like a connection to the API's port.
    LinesOrHttp(fn(usize, Compression) -> Box<dyn Protocol>),
}

/// The setting that limits the length of a message.
#[derive(Debug, Clone, Copy)]
pub struct MessageLimit {
    /// Key in the section of the protocol.
    pub key: &'static str,
    /// The default of the setting, in bytes.
    pub default: u64,
    /// Smallest number of bytes that can be set.
    pub least: u64,
    /// Largest number of bytes that can be set.
    pub most: u64,
}

impl MessageLimit {
    /// The limit of protocols whose messages are lines.
    pub const LINE: Self = Self { key: "line_bytes_max", default: 16 << 10, least: 64, most: 1 << 20 };
    /// The limit of protocols whose messages are preceded by their length ([`super::Framed`]). The pickle decoder
    /// cannot address larger ones.
    pub const FRAME: Self = Self { key: "frame_bytes_max", default: 1 << 20, least: 1024, most: 256 << 20 };
    /// The limit of protocols whose messages are bodies of requests. A body may be a pickle.
    pub const BODY: Self = Self { key: "body_bytes_max", default: 4 << 20, least: 1024, most: 256 << 20 };
}

/// Size in bytes at which a decoder stops. It continues after the batch has been pushed.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// The input of a parser apart from the bytes.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Current time in seconds since the epoch, for points whose timestamp means now.
    pub now: u32,
    /// How names are normalised.
    pub names: NameOptions,
    /// Lists and rewrite rules, if there are any.
    pub relabel: Option<&'a Relabel>,
}

/// The output of a parser: points, and counts of refusals.
#[derive(Debug, Default)]
pub struct Intake {
    /// The accepted points.
    pub points: PointBatch,
    /// The refusals by reason.
    pub tally: Tally,
    /// Lines or frames seen, empty ones included.
    pub messages: u64,
    /// The answers to the sender, for protocols that answer.
    pub answers: Vec<u8>,
    /// What accepted points have lost, such as milliseconds.
    pub losses: Losses,
}

/// Losses of points of KairosDB's and OpenTSDB's protocols, as numbers of points.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Losses {
    /// Number of points whose time was cut from milliseconds to seconds.
    pub cut: u64,
    /// Number of points whose time to live was not kept.
    pub with_ttl: u64,
    /// Number of points whose value, a whole number beyond 2⁵³, was rounded.
    pub rounded: u64,
}

/// Above this many bytes, further answers to the same chunk are dropped. The refused points are still
/// counted.
const ANSWERS_MAX: usize = 16 << 10;

impl Intake {
    /// An empty intake with capacity for the points of a chunk of `bytes` bytes.
    pub fn for_bytes(bytes: usize) -> Self {
        Self { points: PointBatch::with_capacity(bytes / 64 + 1), ..Self::default() }
    }

    /// Adds a line to the answers, unless [`ANSWERS_MAX`] is reached.
    pub(crate) fn answer(&mut self, line: &str) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.extend_from_slice(line.as_bytes());
            self.answers.push(b'\n');
        }
    }

    /// Number of points, accepted and refused.
    pub fn received(&self) -> u64 {
        self.points.len() as u64 + self.tally.total()
    }

    /// Like [`Self::offer`], for a name that `plumbago_kairosdb` has made.
    #[inline]
    pub(crate) fn offer_series(
        &mut self,
        name: &str,
        timestamp: u32,
        value: f64,
        context: &Context<'_>,
    ) -> Result<(), Reject> {
        if value.is_nan() {
            return Err(Reject::Nan);
        }
        let push = |name: &[u8]| self.points.push_utf8(name, timestamp, value);
        with_stored_series(name.as_bytes(), context.names, context.relabel, push)
    }

    /// Adds a point unless its name or value is refused.
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
        with_stored(name, context.names, context.relabel, |name| {
            self.points.push_utf8(name, timestamp, value)
        })
    }
}

/// What the connection has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Push the intake, then read more.
    Read,
    /// Push the intake, then call [`Protocol::again`]: the chunk contains more points.
    Again,
    /// Push the intake, then close the connection: the bytes that follow cannot be decoded.
    Close,
    /// Push the intake, then close the connection: the sender has asked for it.
    End,
}

/// The parser of one connection. Keeps the incomplete message between two reads.
pub trait Protocol: Send {
    /// Parses the next bytes of the stream.
    fn feed(&mut self, chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step;

    /// Continues after [`Step::Again`].
    fn again(&mut self, context: &Context<'_>, intake: &mut Intake) -> Step;

    /// Ends the stream and counts an incomplete message as refused.
    fn finish(&mut self, intake: &mut Intake);

    /// Memory that an incomplete message uses, in bytes.
    fn held_bytes(&self) -> usize;
}
