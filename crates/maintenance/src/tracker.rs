//! The progress of a run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// The progress of a run, for people. Clones share the same progress.
#[derive(Debug, Clone, Default)]
pub struct Tracker(Arc<Mutex<Option<Phase>>>);

#[derive(Debug)]
struct Phase {
    name: String,
    done: u64,
    total: Option<u64>,
    note: String,
    began: Instant,
}

/// The progress of a run at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// What is being done.
    pub phase: String,
    /// How much of the phase is done.
    pub done: u64,
    /// The amount of work in the phase; `None` if it is not known.
    pub total: Option<u64>,
    /// `done` per second, since the phase began.
    pub rate: f64,
    /// A remark on the progress, for people.
    pub note: String,
}

impl Tracker {
    /// Begins a phase. `total` is the amount of work in it; `None` if it is not known.
    pub fn begin(&self, phase: &str, total: Option<u64>) {
        let (done, note, began) = (0, String::new(), Instant::now());
        *self.lock() = Some(Phase { name: phase.to_owned(), done, total, note, began });
    }

    /// Notes that this much more is done.
    pub fn add(&self, more: u64) {
        if let Some(phase) = &mut *self.lock() {
            phase.done += more;
        }
    }

    /// Notes how much is done, and a remark for people.
    pub fn set(&self, done: u64, note: String) {
        if let Some(phase) = &mut *self.lock() {
            (phase.done, phase.note) = (done, note);
        }
    }

    /// The progress now.
    pub fn moment(&self) -> Moment {
        self.lock().as_ref().map_or_else(Moment::default, |phase| Moment {
            phase: phase.name.clone(),
            done: phase.done,
            total: phase.total,
            rate: phase.done as f64 / phase.began.elapsed().as_secs_f64().max(0.001),
            note: phase.note.clone(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Phase>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
