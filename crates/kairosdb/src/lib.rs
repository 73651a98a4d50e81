//! KairosDB's and OpenTSDB's protocols: turns bodies and lines into points, queries into plans, and columns
//! into answers.
//!
//! No I/O: no sockets, no stores, no clock. A metric with tags is the series `name;tag=value` of the tag
//! index; [`names`] maps one to the other and back. Start there, and at [`point`] for the result of reading a
//! body.
//!
//! Must not know: tokio, stores, HTTP.

mod array;
#[doc(hidden)]
pub mod fuzzing;
pub mod history;
mod json;
pub mod kairos;
pub mod names;
mod number;
pub mod opentsdb;
pub mod point;
mod statistics;
pub mod table;
mod tags;
mod unit;

/// Maximum number of parts of one kind in a query: metrics, aggregators, tags, filters.
const PARTS_MAX: usize = 1000;
/// Maximum number of regular expressions of a query.
const REGEXES_MAX: usize = 64;
/// The memory that a regular expression of a query may take, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The answer to `version`, over HTTP and on lines. Clients of KairosDB check its beginning; tcollector
/// accepts anything.
pub const VERSION: &str = concat!("KairosDB 1.3.0 (Plumbago ", env!("CARGO_PKG_VERSION"), ")");
