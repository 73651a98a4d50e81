//! One file per verb of the command line.

pub mod bench;
pub mod config;
pub mod dev;
pub mod maintain;
pub mod replay;
pub mod schema;
pub mod serve;
