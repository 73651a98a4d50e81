//! Tests of the HTTP interface over real sockets. They share one binary, which takes less time to link than
//! one per file.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admin;
mod cache;
mod events;
mod explain;
mod find;
mod formats;
mod kairosdb;
mod metadata;
mod page;
mod render;
mod server;
mod support;
mod tags;
