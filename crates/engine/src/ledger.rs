//! The ledger. At any time, received + recovered = stored + held + replaced + rejected.

use crate::stats::{REASONS, Reject, Stats};

/// What became of the points of one shard, or of all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Number of points that `push` and `try_push` have queued.
    pub received: u64,
    /// Number of points restored at the start from state rows and the journal.
    pub recovered: u64,
    /// Number of slots in committed flushes.
    pub stored: u64,
    /// Number of points in queues, heads and lists of the engine.
    pub held: u64,
    /// The part of `held` that is still in queues; no shard has applied these points yet.
    pub queued: u64,
    /// The part of `held` that waits in the journal: late points for which there is no room in memory.
    pub waiting: u64,
    /// Points that replaced the value of a slot, or whose stage no longer existed when they were to be
    /// stored.
    pub replaced: u64,
    /// Rejected points by reason.
    pub rejected: [u64; REASONS],
    /// Number of points known to be lost because of damaged files, found since the start. They were never
    /// received, so they are not part of the balance.
    pub lost: u64,
}

impl Ledger {
    /// Number of points that the ledger cannot account for. Anything but 0 is a bug.
    pub fn missing(&self) -> i128 {
        let came = i128::from(self.received) + i128::from(self.recovered);
        let went = i128::from(self.stored) + i128::from(self.held) + i128::from(self.replaced);
        came - went - i128::from(self.rejected_total())
    }

    /// Rejected points in total.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Rejected points by the name of the reason.
    pub fn rejected_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reject::NAMES.into_iter().zip(self.rejected)
    }

    pub(crate) fn reject(&mut self, reason: Reject) {
        self.rejected[reason as usize] += 1;
    }

    /// Adds the changes since `exported` to the exported counters, and updates `exported`.
    pub(crate) fn export(&self, exported: &mut Self, stats: &Stats) {
        stats.recovered.add(self.recovered - exported.recovered);
        stats.stored.add(self.stored - exported.stored);
        stats.replaced.add(self.replaced - exported.replaced);
        for (counter, (now, before)) in stats.rejected.iter().zip(self.rejected.iter().zip(exported.rejected))
        {
            counter.add(now - before);
        }
        *exported = *self;
    }
}

impl std::ops::AddAssign for Ledger {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.recovered += other.recovered;
        self.stored += other.stored;
        self.held += other.held;
        self.queued += other.queued;
        self.waiting += other.waiting;
        self.lost += other.lost;
        self.replaced += other.replaced;
        for (a, b) in self.rejected.iter_mut().zip(other.rejected) {
            *a += b;
        }
    }
}
