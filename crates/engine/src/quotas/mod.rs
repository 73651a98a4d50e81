//! Quotas in effect: the rules, and how much each directory uses (`docs/decisions/quotas.md`).
//!
//! A metric gets its account once, when it gets its head. While the rules change, a metric has an account
//! under the old rules and one under the new rules, until all metrics have both.

mod account;
mod config;
mod export;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use plumbago_model::rules::{Quota, QuotaLimits, QuotaRules};

pub use account::Limited;
pub(crate) use account::{Account, Usage};
pub use config::Config;
pub(crate) use watch::QuotaWatch;

/// The quotas of a process. They are shared by the shards and by everything that shows them.
#[derive(Debug)]
pub struct Quotas(RwLock<Generations>);

/// The rules in effect, and the rules that replace them once all metrics have their new accounts.
#[derive(Debug)]
struct Generations {
    current: Arc<Generation>,
    next: Option<Arc<Generation>>,
}

/// A set of rules and their accounts.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    rules: QuotaRules,
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    by_directory: HashMap<String, Arc<Account>>,
    /// The usage of directories under earlier rules.
    usage: HashMap<String, Arc<Usage>>,
    numbers: u32,
}

/// The account of a metric in each generation of the rules; `None` if no quota applies to the metric.
pub(crate) type Places = Vec<(u64, Option<Arc<Account>>)>;

/// What a directory uses of its quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUse {
    /// The name of the quota.
    pub quota: String,
    /// The directory; `/` for all metrics.
    pub directory: String,
    /// The limits of the quota.
    pub limits: QuotaLimits,
    /// Whether the quota only counts and refuses nothing.
    pub dry_run: bool,
    /// The number of metrics below the directory.
    pub metrics: u64,
    /// Number of points that arrived in the current minute or in the one before, whichever number is larger.
    pub points_per_minute: u64,
    /// Size of the points in the store, in bytes, at the last measurement; `None` before the first one.
    pub bytes: Option<u64>,
    /// Points refused since the start, in the order of [`Limited::ALL`]. In a dry run, these are the points
    /// that would have been refused.
    pub refused: [u64; 3],
}

impl QuotaUse {
    /// The kinds of limits that are reached.
    pub fn full(&self) -> impl Iterator<Item = Limited> + '_ {
        Limited::ALL.into_iter().filter(|limited| {
            self.limit(*limited).zip(self.used(*limited)).is_some_and(|(limit, used)| used >= limit)
        })
    }

    /// The limit of this kind, if there is one.
    pub fn limit(&self, limited: Limited) -> Option<u64> {
        match limited {
            Limited::Metrics => self.limits.metrics,
            Limited::Points => self.limits.points_per_minute,
            Limited::Bytes => self.limits.bytes,
        }
    }

    /// How much of this kind is used; `None` if it is not known.
    pub fn used(&self, limited: Limited) -> Option<u64> {
        match limited {
            Limited::Metrics => Some(self.metrics),
            Limited::Points => Some(self.points_per_minute),
            Limited::Bytes => self.bytes,
        }
    }
}

impl Default for Quotas {
    /// Quotas without rules.
    fn default() -> Self {
        Self::new(QuotaRules::default())
    }
}

impl Quotas {
    /// The quotas that a process starts with.
    pub fn new(rules: QuotaRules) -> Self {
        let current = Arc::new(Generation { number: 0, rules, accounts: Mutex::default() });
        Self(RwLock::new(Generations { current, next: None }))
    }

    /// All rules in effect.
    pub fn rules(&self) -> Vec<Quota> {
        self.current().rules.quotas().to_vec()
    }

    /// The use of each directory that has a quota, sorted. `now` is in seconds since the epoch.
    pub fn uses(&self, now: i64) -> Vec<QuotaUse> {
        let current = self.current();
        let mut uses: Vec<QuotaUse> =
            current.lock().by_directory.values().map(|account| account.use_of(now)).collect();
        uses.sort_by(|a, b| (&a.quota, &a.directory).cmp(&(&b.quota, &b.directory)));
        uses
    }

    /// The use of a directory; `None` if no quota applies to it. `/` means all metrics.
    pub fn use_of(&self, directory: &str, now: i64) -> Option<QuotaUse> {
        let directory = if directory == "/" { "" } else { directory };
        self.current().lock().by_directory.get(directory).map(|account| account.use_of(now))
    }

    /// Notes the size in the store of the points below a directory.
    pub fn set_bytes(&self, directory: &str, bytes: u64) {
        let directory = if directory == "/" { "" } else { directory };
        if let Some(account) = self.current().lock().by_directory.get(directory) {
            account.set_bytes(bytes);
        }
    }

    /// Whether there are rules, or rules that are about to come into effect. If not, no metric has an
    /// account.
    pub(crate) fn has_rules(&self) -> bool {
        let generations = self.0.read().unwrap_or_else(PoisonError::into_inner);
        generations.next.is_some() || !generations.current.rules.is_empty()
    }

    /// The accounts that count a metric of this name.
    pub(crate) fn places(&self, name: &str) -> Places {
        let generations = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if generations.next.is_none() && generations.current.rules.is_empty() {
            return Places::new();
        }
        let all = std::iter::once(&generations.current).chain(&generations.next);
        all.map(|generation| (generation.number, generation.account(name))).collect()
    }

    /// Begins a change of the rules. Fails while another change is in progress.
    pub(crate) fn begin(&self, rules: QuotaRules) -> Option<Arc<Generation>> {
        let mut generations = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if generations.next.is_some() {
            return None;
        }
        let old = generations.current.lock();
        let usage = old.by_directory.iter().map(|(directory, a)| (directory.clone(), Arc::clone(&a.usage)));
        let accounts = Accounts { usage: usage.collect(), numbers: old.numbers, ..Accounts::default() };
        drop(old);
        let number = generations.current.number + 1;
        let next = Arc::new(Generation { number, rules, accounts: Mutex::new(accounts) });
        generations.next = Some(Arc::clone(&next));
        Some(next)
    }

    /// Cancels the change of the rules in progress.
    pub(crate) fn abandon(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).next = None;
    }

    /// Ends a change of the rules, after all shards have switched to the new ones.
    pub(crate) fn end(&self) {
        let mut generations = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = generations.next.take() {
            generations.current = next;
        }
    }

    fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).current)
    }
}

impl Generation {
    /// The account that counts a metric of this name.
    pub(crate) fn account(&self, name: &str) -> Option<Arc<Account>> {
        let (position, directory) = self.rules.find(name)?;
        let mut accounts = self.lock();
        if let Some(account) = accounts.by_directory.get(directory) {
            return Some(Arc::clone(account));
        }
        accounts.numbers += 1;
        let (number, usage) = (accounts.numbers, accounts.usage.get(directory).cloned().unwrap_or_default());
        let quota = self.rules.quotas()[position].clone();
        let account = Arc::new(Account::new(number, quota, directory, usage));
        accounts.by_directory.insert(directory.to_owned(), Arc::clone(&account));
        Some(account)
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn use_of(&self, now: i64) -> QuotaUse {
        QuotaUse {
            quota: self.quota.name.clone(),
            directory: account::shown(&self.directory).to_owned(),
            limits: self.quota.limits,
            dry_run: self.quota.dry_run,
            metrics: self.metrics(),
            points_per_minute: self.points_per_minute(now),
            bytes: self.bytes(),
            refused: self.refused(),
        }
    }
}
