//! Jobs that keep a store clean, and the verbs and questions of the command line that work on a store.
//!
//! * **Jobs** ([`job::Job`]) remove empty directories and create missing ones ([`directories`]), delete rows
//!   that no reader can use ([`rows`]) and metrics that no longer get points ([`expire`]), and correct
//!   windows that differ from their raw slots ([`windows`]). `jobs` lists them, [`schedule`] starts them, and
//!   `drive` is the loop that they share.
//! * **Verbs** ([`verb`]) carry out commands. A daemon runs them as jobs ([`runs`]). Each has a file in
//!   [`verbs`]; large ones have a module beside it. These store whisper files ([`import`]), the history of a
//!   KairosDB ([`kairosdb`]), of another Graphite server ([`graphite`]) and of another store
//!   ([`other_store`]), events ([`events`]) and lists of names ([`names`]). They write whisper files
//!   ([`export`]), give metrics other names ([`copies`]) and back up a data directory ([`backup`]). They
//!   share `batches` for their work, [`counts`] and `skipped` for their reports, `done_list`, with which a
//!   killed run continues, `alone`, which refuses a second run, and `rate` and `pace`, which limit the load
//!   of a run.
//! * **Questions** ([`question`]) return information to a command. Each has a file in [`questions`].
//! * For its web page, a daemon also uses [`tester`] (what rules do with names) and [`costs`] (what metrics cost).
//!
//! Jobs use the traits of `plumbago_store`. A running daemon implements [`live::LiveMetrics`], which reports
//! the metrics that are being written. A metric that gets points while a job handles it survives: a deletion
//! covers only rows written before the job read them, and the job checks deleted names again afterwards
//! (`docs/decisions/clean-up.md`).
//!
//! Must not know: listeners, HTTP, the command line, which store it is. Start at [`job::Job`] for work that
//! runs on a schedule, and at [`verb`] for work that is requested.

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
mod deletion;
mod done_list;
mod drive;
mod event_keeper;
mod graphite_source;
mod histories;
mod idle;
mod infinite;
mod jobs;
mod pace;
mod paced_names;
mod rate;
mod report;
mod run_error;
mod selection;
mod skipped;
mod source_store;
mod stats;
mod tracker;
mod turns;
mod verb_error;

pub use config::Config;
pub use job::{Context, Job, JobError, Stores};
pub use jobs::jobs;
pub use live::{LiveMetrics, NobodyWrites};
pub use report::Report;
pub use schedule::{JobLease, NoLeases, Request, RequestError, Scheduler};
pub use turns::Turns;
