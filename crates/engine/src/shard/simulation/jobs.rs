//! Jobs of the flusher in the simulation, and their acknowledgements.

use super::*;

impl World {
    /// Does the queued jobs, and some of the steps for late points.
    pub(super) fn work(&mut self) {
        for job in std::mem::take(&mut self.jobs) {
            match job {
                Job::Late(job) => self.late.push(job),
                job => {
                    let (store, runtime) = (&*self.store, self.runtime.handle());
                    self.unacknowledged.push(do_job(store, store, runtime, job, &self.budget).unwrap());
                }
            }
        }
        for _ in 0..self.rng.random_range(0..20) {
            let done =
                self.late.step(&*self.store, &*self.store, self.runtime.handle(), &self.budget).unwrap();
            self.unacknowledged.push(Done::Late(done));
        }
    }

    pub(super) fn acknowledge(&mut self) {
        for done in std::mem::take(&mut self.unacknowledged) {
            match done {
                Done::Flush(items) => self.shard.flush_done(items),
                Done::Late(late) => self.shard.late_done(late),
            }
        }
        self.balance();
    }
}
