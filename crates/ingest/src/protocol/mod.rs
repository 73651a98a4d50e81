//! The protocols, which parse bytes into points, without sockets and clocks.
//!
//! A [`Protocol`] receives the bytes of one connection in chunks and writes points and refusals into an
//! [`Intake`]. The points do not depend on how the bytes are divided into chunks.

mod compressed;
mod compression;
mod emit;
mod frame;
pub mod line;
pub(crate) mod number;
pub mod opentsdb;
mod parser;
pub mod pickle;
pub mod post;
pub mod protobuf;

pub(crate) use compressed::Gzip;
pub use compressed::Stream;
pub use compression::Compression;
pub use frame::{Cursor, Decode, Framed};
pub(crate) use parser::BATCH_BYTES;
pub use parser::{Context, Intake, Losses, MessageLimit, Protocol, Step, Talk, TcpProtocol};

/// The protocols that are spoken over TCP. Each has a file beside this one and an entry here.
pub const TCP: &[TcpProtocol] = &[
    // Stays first: `Listener::LINE` is this place.
    line::TCP,
    pickle::TCP,
    protobuf::TCP,
    post::TCP,
    opentsdb::TCP,
];
