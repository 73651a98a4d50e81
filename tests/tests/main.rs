//! The system tests: the built daemon, real senders, real graphite-web, real crashes.
#![allow(clippy::unwrap_used, missing_docs)]

mod compare;
mod crash;
mod dev;
mod disk_full;
mod faults;
mod hostile;
mod interop;
mod ledger;
mod load;
mod maintenance;
mod oracle_find;
mod oracle_formats;
mod oracle_render;
mod oracle_tags;
mod paced;
mod restart;
mod scenario;
mod senders;
mod service;
mod wire;
