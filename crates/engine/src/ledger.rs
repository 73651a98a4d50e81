//! The ledger: received + recovered = stored + held + replaced + rejected, at every moment.

use crate::stats::{REASONS, Reject, Stats};

/// What became of the points of one shard, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Points given to the engine by this process's listeners.
    pub received: u64,
    /// Points taken over at start from state rows and journal.
    pub recovered: u64,
    /// Slots in committed flushes.
    pub stored: u64,
    /// Points in queues, heads and lists.
    pub held: u64,
    /// Points that replaced a slot, or expired before they were stored.
    pub replaced: u64,
    /// Points refused, by reason.
    pub rejected: [u64; REASONS],
}

impl Ledger {
    /// Points that the ledger cannot account for; 0 unless something is wrong.
    pub fn missing(&self) -> i128 {
        let came = i128::from(self.received) + i128::from(self.recovered);
        let went = i128::from(self.stored) + i128::from(self.held) + i128::from(self.replaced);
        came - went - i128::from(self.rejected_total())
    }

    /// Points refused, for all reasons.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Points refused, with the names of the reasons.
    pub fn rejected_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reject::NAMES.into_iter().zip(self.rejected)
    }

    pub(crate) fn reject(&mut self, reason: Reject) {
        self.rejected[reason as usize] += 1;
    }

    /// Adds what happened since `shown` to the exported counters, and remembers it.
    pub(crate) fn show(&self, shown: &mut Self, stats: &Stats) {
        stats.recovered.add(self.recovered - shown.recovered);
        stats.stored.add(self.stored - shown.stored);
        stats.replaced.add(self.replaced - shown.replaced);
        for (counter, (now, before)) in stats.rejected.iter().zip(self.rejected.iter().zip(shown.rejected)) {
            counter.add(now - before);
        }
        *shown = *self;
    }
}

impl std::ops::AddAssign for Ledger {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.recovered += other.recovered;
        self.stored += other.stored;
        self.held += other.held;
        self.replaced += other.replaced;
        for (a, b) in self.rejected.iter_mut().zip(other.rejected) {
            *a += b;
        }
    }
}
