//! Measures a running server from the outside: it sends a repeatable load or repeats a query, and reads
//! processor time, memory and disk use from `/proc` and the file system.
//!
//! Any server that accepts Graphite lines and answers Graphite's API can be measured. Figures that come from
//! Plumbago's admin port are left out for other servers. Must not know: the daemon's crates, the command
//! line. Start at [`load::measure`] and [`query::time_all`]. [`diff`] compares the answers of two servers,
//! [`smoke`] sends a point and waits for it, [`traffic`] repeats recorded requests and lines. [`seeds`]
//! measures the figures that were the goals at the start of the project.

pub mod diff;
pub mod http;
pub mod load;
pub mod query;
pub mod report;
pub mod seeds;
pub mod server;
pub mod smoke;
pub mod traffic;

mod error;

pub use error::BenchError;
pub use http::{Answer, Client};
pub use report::Report;
pub use server::{Daemon, Server};
