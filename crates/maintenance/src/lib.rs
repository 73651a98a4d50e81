//! Jobs that keep a store clean, and their schedule: empty and missing directories, rows that no
//! reader can use, metrics that nobody writes any more.
//!
//! Jobs work on the contract of the store and decide on values; what is alive is asked of
//! [`live::LiveMetrics`], which a running daemon answers. A metric that is written while a job looks at
//! it survives: deletions speak of what was there before the job looked, and what was deleted is
//! looked at once more (`docs/decisions/clean-up.md`).
//!
//! Must not know: listeners, HTTP, the command line, which store it is. Start at [`job::Job`].

pub mod checkpoint;
pub mod config;
pub mod directories;
pub mod expire;
pub mod job;
pub mod live;
pub mod rows;
pub mod schedule;

mod drive;
mod rate;
mod stats;

pub use config::Config;
pub use job::{Context, Job, JobError, Report, Stores};
pub use live::{LiveMetrics, NobodyWrites};
pub use schedule::{MyTurn, Scheduler, Turn};
