//! Lets several daemons share one store: registers this daemon's writer id, keeps a local copy of the names,
//! and follows what other daemons create and delete.
//!
//! Must not know: CQL, HTTP routes, the binary. It uses the traits of `plumbago_store`, above all
//! [`SharedStore`](plumbago_store::SharedStore), and three traits of its own, [`LocalMetrics`], [`Outbox`] and
//! [`RowTimestamps`]. So its tests can run in memory.
//!
//! Start at [`Member`], which is this daemon in the cluster. [`Names`] keeps the local copy of the names:
//! `load` reads all of them, `follow` the changes, and `scan` decides which part is read again. `resend`
//! sends the rows again that a server may have lost. [`peers`] reads the pending rows and the events of other
//! daemons, [`TaggedSeries`] tags and hides series, [`LeaseKeeper`] decides which daemon runs a job.

mod clock_problems;
mod clocks;
mod error;
mod follow;
mod lease;
mod load;
mod local;
mod member;
mod missing;
mod names;
mod nodes_file;
mod pace;
pub mod peers;
mod reads;
mod registration;
mod replace;
mod resend;
mod retry;
mod scan;
mod scan_file;
mod schema;
mod tagging;
mod touch;
mod watched;
mod writer_file;

pub use error::ClusterError;
pub use lease::LeaseKeeper;
pub use local::{LocalMetrics, NotAcknowledged, Outbox, RowTimestamps};
pub use member::{CONDITIONS, Member, MemberParts};
pub use names::Names;
pub use nodes_file::NodesFile;
pub use reads::NotedReads;
pub use scan_file::ScanFile;
pub use tagging::{ConfigFor, TaggedSeries};
pub use writer_file::{FormerWriter, WriterFile};

use std::sync::Arc;

use plumbago_store::{MetaEntry, MetricMeta};

/// Largest number of names in one call to the store.
const PAGE: usize = 5000;
/// A metric of this age, in seconds, must have been announced in the change feed.
const ANNOUNCED_AFTER: i64 = 300;

/// Whether a metric is so old at `now` (seconds since the epoch) that its announcement would have been seen.
fn is_past_announcement(meta: &MetricMeta, now: i64) -> bool {
    i64::from(meta.created_on) < now - ANNOUNCED_AFTER
}

fn meta_of((name, entry): (&str, &MetaEntry)) -> MetricMeta {
    MetricMeta { name: name.to_owned(), config: Arc::clone(&entry.config), created_on: entry.created_on }
}

/// Returns the host name of this machine; empty if it is unknown.
fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}
