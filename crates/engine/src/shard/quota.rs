//! The quotas of a shard's metrics. Each head refers to its account by number.

use std::sync::Arc;

use super::{ApplyContext, Shard};
use crate::quotas::{Account, Places};
use crate::router::NameHash;
use crate::shard::chunked::Chunked;
use crate::shard::head_state::mark;
use crate::stats::Reject;

/// The account number of a head that has no metric, or whose metric has not been checked yet.
const UNDECIDED: u32 = 0;
/// The account number of a head to whose metric no quota applies.
const NONE: u32 = u32::MAX;

/// The hash of a name, and the account of the metric.
pub(crate) type Decision = (NameHash, Option<Arc<Account>>);

/// The accounts of the heads, under the rules in effect and under those that will replace them.
#[derive(Debug, Default)]
pub(crate) struct ShardQuotas {
    current: Assigned,
    next: Option<Assigned>,
}

/// The accounts of the heads under one generation of the rules.
#[derive(Debug, Default)]
struct Assigned {
    generation: u64,
    /// The accounts, by number.
    accounts: Vec<Option<Arc<Account>>>,
    /// The account number of each head. The list may be shorter than the list of heads; heads that are
    /// missing in it are undecided.
    of: Chunked<u32>,
}

impl Assigned {
    fn account(&self, at: u32) -> Option<&Arc<Account>> {
        match self.number(at) {
            UNDECIDED | NONE => None,
            number => self.accounts.get(number as usize)?.as_ref(),
        }
    }

    fn number(&self, at: u32) -> u32 {
        if (at as usize) < self.of.len() { self.of[at] } else { UNDECIDED }
    }

    /// Notes the account of a head. The account has already counted the metric. If there is no account, this
    /// is recorded only if `is_decision` is set.
    fn set(&mut self, at: u32, account: Option<Arc<Account>>, is_decision: bool) {
        let number = account.as_ref().map_or(if is_decision { NONE } else { UNDECIDED }, |a| a.number);
        if number == UNDECIDED && at as usize >= self.of.len() {
            return;
        }
        while self.of.len() <= at as usize {
            self.of.push(UNDECIDED);
        }
        self.of[at] = number;
        if let Some(account) = account {
            let place = number as usize;
            if self.accounts.len() <= place {
                self.accounts.resize(place + 1, None);
            }
            self.accounts[place] = Some(account);
        }
    }

    fn leave(&mut self, at: u32) {
        if let Some(account) = self.account(at) {
            account.remove_metric();
        }
        self.set(at, None, false);
    }
}

impl ShardQuotas {
    /// The memory of the account numbers, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.current.of.bytes() + self.next.as_ref().map_or(0, |next| next.of.bytes())
    }

    fn current_of<'a>(&self, places: &'a Places) -> Option<&'a Arc<Account>> {
        places.iter().find(|(generation, _)| *generation == self.current.generation)?.1.as_ref()
    }
}

/// The accounts that have already counted a new metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Nowhere,
    /// Only the account under the current rules.
    InCurrent,
}

impl Shard {
    /// Creates the metric of a point, unless its quota or something else refuses it.
    pub(super) fn create_within_quota(
        &mut self,
        hash: &NameHash,
        name: &str,
        timestamp: u32,
        context: &mut ApplyContext<'_>,
    ) -> Option<u32> {
        let places = context.gate.places(name);
        let account = self.quotas.current_of(&places);
        if account.is_some_and(|account| !account.admit_metric(name, context.now)) {
            self.ledger.reject(Reject::Quota);
            return None;
        }
        let account = account.cloned();
        let Some(at) = self.create(hash, name, timestamp, context) else {
            account.inspect(|account| account.remove_metric());
            return None;
        };
        for (generation, account) in places {
            // The account under the current rules has already counted the metric. If the account counted the
            // metric twice, even for a moment, it could refuse a metric of another shard.
            self.enter(at, generation, account, Counted::InCurrent);
        }
        Some(at)
    }

    /// Counts a point of a metric that has a quota. Returns whether the point is admitted.
    pub(super) fn admit_point(&mut self, at: u32, name: &str, now: i64) -> bool {
        self.quotas.current.account(at).is_none_or(|account| account.admit_point(name, now))
    }

    /// Gives a new head the accounts of its metric.
    pub(crate) fn enter_quotas(&mut self, at: u32, places: Places) {
        for (generation, account) in places {
            self.enter(at, generation, account, Counted::Nowhere);
        }
    }

    fn enter(&mut self, at: u32, generation: u64, account: Option<Arc<Account>>, counted: Counted) {
        let is_next = self.quotas.next.as_ref().is_some_and(|next| next.generation == generation);
        if !is_next && generation != self.quotas.current.generation {
            return;
        }
        if is_next || counted == Counted::Nowhere {
            account.iter().for_each(|account| account.add_metric());
        }
        self.assign(at, account, is_next);
    }

    /// Removes a head from its accounts.
    pub(super) fn leave_quotas(&mut self, at: u32) {
        self.quotas.current.leave(at);
        if let Some(next) = &mut self.quotas.next {
            next.leave(at);
        }
    }

    /// Begins a change of the rules.
    pub(crate) fn begin_quotas(&mut self, generation: u64) {
        self.quotas.next = Some(Assigned { generation, ..Assigned::default() });
    }

    /// Gives metrics their accounts under the new rules, unless they already have them.
    pub(crate) fn decide_quotas(&mut self, decisions: Vec<Decision>) {
        for (hash, account) in decisions {
            let Some(at) = self.find(&hash) else { continue };
            if self.quotas.next.as_ref().is_some_and(|next| next.number(at) == UNDECIDED) {
                account.iter().for_each(|account| account.add_metric());
                self.assign(at, account, true);
            }
        }
    }

    /// The number of metrics for which it is not known yet whether they have an account under the new rules.
    pub(crate) fn undecided_quotas(&self) -> u64 {
        let Some(next) = &self.quotas.next else { return 0 };
        let undecided = |at: &u32| !self.heads[*at].state.is_vacant() && next.number(*at) == UNDECIDED;
        (0..self.heads.len() as u32).filter(undecided).count() as u64
    }

    /// Ends a change of the rules: from now on only the new rules count.
    pub(crate) fn end_quotas(&mut self) {
        let Some(next) = self.quotas.next.take() else { return };
        self.quotas.current = next;
        for at in 0..self.heads.len() as u32 {
            let has_quota = self.quotas.current.account(at).is_some();
            let head = &mut self.heads[at];
            if has_quota { head.set(mark::QUOTA) } else { head.clear(mark::QUOTA) }
        }
        if self.quotas.current.accounts.is_empty() {
            self.quotas.current.of = Chunked::default();
        }
    }

    /// Notes the account of a head. The account has already counted the metric.
    fn assign(&mut self, at: u32, account: Option<Arc<Account>>, is_next: bool) {
        if account.is_some() && !is_next {
            self.heads[at].set(mark::QUOTA);
        }
        match &mut self.quotas.next {
            Some(next) if is_next => next.set(at, account, true),
            _ => self.quotas.current.set(at, account, false),
        }
    }
}
