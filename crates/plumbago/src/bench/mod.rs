//! What the `bench` verbs are made of: a repeatable load, a small HTTP client, what `/proc` tells of
//! a server, and a daemon of our own to measure.

pub mod admin;
pub mod daemon;
pub mod http;
pub mod names;
pub mod process;
pub mod sender;
pub mod settle;
pub mod values;
pub mod workload;
