//! Automatically repairs the windows that were open when this daemon got a new writer id. The data directory
//! may have been lost, and with it the old writer's parts of these windows.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::WriterIdentity;
use serde::{Deserialize, Serialize};

use super::plan::Scope;
use super::{RepairWindows, Repairing};
use crate::drive::drive;
use crate::job::{Context, Job, JobError};
use crate::report::Report;

const NAME: &str = "repair_new_writer";

/// For each stage, compares the window that was open when the writer id was drawn, and the one before it, as
/// soon as they are closed.
#[derive(Debug)]
pub struct RepairNewWriter {
    /// How windows are repaired.
    pub repair: RepairWindows,
    /// The file that keeps the progress.
    pub file: PathBuf,
}

/// The progress for the current writer id. Times are in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    replica: u8,
    writer: u16,
    /// When the id was first seen.
    drawn_on: i64,
    /// Windows that could be compared by this time are done.
    compared_until: i64,
    /// The time that an unfinished run uses as the present time.
    running_as_of: Option<i64>,
    /// When the next window can be compared; `None` if all are done.
    next: Option<i64>,
}

impl RepairNewWriter {
    /// The state of the current writer id, or a new state if the id has changed.
    fn state(&self, now: i64) -> State {
        let identity = self.repair.windows.identity();
        let saved = fs::read(&self.file).ok().and_then(|text| serde_json::from_slice::<State>(&text).ok());
        let is_current = |state: &State| WriterIdentity::new(state.replica, state.writer) == identity;
        saved.filter(is_current).unwrap_or(State {
            replica: identity.replica(),
            writer: identity.first_id(),
            drawn_on: now,
            compared_until: i64::MIN,
            running_as_of: None,
            next: Some(now),
        })
    }

    fn save(&self, state: &State) -> Result<(), JobError> {
        let write = || {
            if let Some(dir) = self.file.parent() {
                fs::create_dir_all(dir)?;
            }
            let new = self.file.with_extension("new");
            fs::write(&new, serde_json::to_vec(state)?)?;
            fs::rename(new, &self.file)
        };
        write().map_err(|source: io::Error| JobError::Checkpoint { job: NAME, source })
    }
}

#[boxed_futures]
impl Job for RepairNewWriter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lease(&self) -> &'static str {
        self.repair.name()
    }

    fn is_due(&self, now: i64) -> bool {
        self.state(now).next.is_some_and(|next| next <= now)
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        let found = self.state(context.clock.now());
        let now = found.running_as_of.unwrap_or_else(|| context.clock.now());
        let running = State { running_as_of: Some(now), ..found };
        if !context.dry_run {
            self.save(&running)?;
        }
        let scope = Scope::Around { at: running.drawn_on, compared_until: running.compared_until };
        let steps = Repairing::new(&self.repair, scope, now, format!("{running:?}"), context);
        let next = Arc::clone(&steps.next);
        let report = drive(NAME, steps, context).await?;
        if !context.dry_run {
            let next = Some(next.load(Ordering::Relaxed)).filter(|next| *next < i64::MAX);
            // A run that was continued has not seen all metrics.
            let next = if report.resumed { Some(now) } else { next };
            self.save(&State { compared_until: now, running_as_of: None, next, ..running })?;
        }
        Ok(report)
    }
}
