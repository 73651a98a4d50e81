//! Jobs that keep a store clean, and their schedule. They remove empty directories, create missing ones,
//! delete rows that no reader can use and metrics that no longer get points, and correct windows that differ from
//! their raw slots. And the verbs of the command line that work on a store, which a daemon runs as jobs ([`verb`]), such
//! as storing whisper files ([`import`]) and writing them ([`export`]), and storing the history of a KairosDB
//! ([`kairosdb`]) or of another Graphite server ([`graphite`]), its events ([`events`]), and lists of names ([`names`]), and
//! giving metrics other names ([`copies`]), and storing what another store has ([`other_store`]).
//! And backups of a data directory ([`backup`]).
//!
//! Jobs use the traits of `plumbago_store`. A running daemon implements [`live::LiveMetrics`], which reports
//! the metrics that are being written. A metric that gets points while a job handles it survives: a deletion
//! covers only rows written before the job read them, and the job checks deleted names again afterwards
//! (`docs/decisions/clean-up.md`).
//!
//! Must not know: listeners, HTTP, the command line, which store it is. Start at [`job::Job`].

pub mod backup;
pub mod checkpoint;
pub mod config;
pub mod copies;
pub mod costs;
pub mod counts;
pub mod directories;
pub mod events;
pub mod expire;
pub mod export;
pub mod graphite;
pub mod import;
pub mod job;
pub mod kairosdb;
pub mod live;
pub mod names;
pub mod other_store;
pub mod question;
pub mod questions;
pub mod quotas;
pub mod rows;
pub mod runs;
pub mod schedule;
pub mod select;
pub mod tester;
pub mod verb;
pub mod verbs;
pub mod windows;

mod alone;
mod batches;
mod done_list;
mod drive;
mod idle;
mod jobs;
mod pace;
mod rate;
mod report;
mod skipped;
mod stats;
mod turns;

pub use config::Config;
pub use job::{Context, Job, JobError, Stores};
pub use jobs::jobs;
pub use live::{LiveMetrics, NobodyWrites};
pub use report::Report;
pub use schedule::{JobLease, NoLeases, Request, RequestError, Scheduler};
pub use turns::Turns;
