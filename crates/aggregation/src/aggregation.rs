//! Takes points and connects the rules, the buffers and the log.

use std::fmt::{self, Debug};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use plumbago_journal::{Journal, JournalError};
use plumbago_model::{Clock, PointBatch, PointRef};
use plumbago_telemetry::{Conditions, Damage, Registry, Severity};

use crate::buffers::{Arrival, Buffers, Limits};
use crate::config::Config;
use crate::log::Log;
use crate::matcher::{Known, Matcher, Way};
use crate::restore::restore;
use crate::stats::{Balance, LOG, REFUSED, Stats};

/// How long the condition about refused values lasts after the last refused value.
const REFUSED_FOR: Duration = Duration::from_secs(150);
/// The time that one segment of the log covers. Old segments are replaced by the state of the intervals that
/// are open.
const SEGMENT: Duration = Duration::from_secs(30);

/// Folds points into other metrics. Clones share the same state.
#[derive(Clone)]
pub struct Aggregation(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    active: ArcSwap<Active>,
    pub(crate) state: Mutex<State>,
    pub(crate) journal: Journal,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    seed: u64,
    refused: Mutex<(u64, Option<Instant>)>,
}

/// The rules and settings in effect.
pub(crate) struct Active {
    matcher: Matcher,
    forward_all: bool,
    pub(crate) limits: Limits,
}

/// What changes with each point that a rule takes.
pub(crate) struct State {
    pub(crate) active: Arc<Active>,
    known: Known,
    pub(crate) buffers: Buffers,
    /// Why the log accepts no records; `None` while it does.
    pub(crate) trouble: Option<String>,
}

/// Which points of a batch are passed to the store and the relay.
#[derive(Debug)]
pub enum Fed {
    /// All points are passed on.
    All,
    /// Only these points are passed on.
    Only(PointBatch),
}

/// Why aggregation could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings have problems, each as `key: message`.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    /// The log of open intervals cannot be opened or read.
    #[error("cannot open the log of open intervals in {}", dir.display())]
    Log {
        /// The directory of the log.
        dir: PathBuf,
        /// What is wrong with the log.
        source: JournalError,
    },
}

/// What [`Aggregation::open`] needs besides the settings.
pub struct AggregationParts<'a> {
    /// Directory of the log of open intervals.
    pub dir: &'a Path,
    /// When the log is synced, and how many bytes of the disk it leaves free.
    pub journal: &'a plumbago_journal::Config,
    /// The clock that tells the time.
    pub clock: Arc<dyn Clock>,
    /// The registry for the figures of aggregation.
    pub registry: &'a Registry,
}

impl Aggregation {
    /// Reads the rules, and the open intervals of an earlier run.
    ///
    /// # Errors
    ///
    /// If the settings have problems, or the log cannot be opened.
    pub fn open(config: &Config, parts: AggregationParts<'_>) -> Result<Self, OpenError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(OpenError::Settings(problems));
        }
        let seed = RandomState::new().hash_one("aggregation");
        let active = Arc::new(Active::read(config, seed).map_err(OpenError::Settings)?);
        let failed = |source| OpenError::Log { dir: parts.dir.to_owned(), source };
        let log = plumbago_journal::Config { segment: SEGMENT, max_bytes: None, ..parts.journal.clone() };
        // A separate registry: in the common one, the figures of this log would be mistaken for those of the
        // journal.
        let own = Registry::new();
        let journal = Journal::open(parts.dir, log, Arc::clone(&parts.clock), &own).map_err(failed)?;
        let restored = restore(&journal).map_err(failed)?;
        // Damage in this log counts as damage of the daemon.
        Damage::of(parts.registry).take_over(&Damage::of(&own));
        let stats = Stats::new(parts.registry);
        let mut buffers = Buffers::new(Log::new(journal.clone()));
        buffers.restore(restored, active.matcher.rules.rules(), parts.clock.now_ms());
        stats.recovered.add(buffers.folded());
        if buffers.open() > 0 {
            tracing::info!(
                intervals = buffers.open(),
                values = buffers.folded(),
                "open intervals of the aggregation rules were restored"
            );
        }
        let state = State { active: Arc::clone(&active), known: Known::default(), buffers, trouble: None };
        Ok(Self(Arc::new(Inner {
            active: ArcSwap::new(active),
            state: Mutex::new(state),
            journal,
            clock: parts.clock,
            stats,
            seed,
            refused: Mutex::default(),
        })))
    }

    /// Offers the points of a batch to the rules. When this returns, the values that the rules took are
    /// written to the log's file, so that a kill does not lose them. Returns which points are passed on; the
    /// caller reports the number of the others with [`Aggregation::note_consumed`].
    pub fn feed(&self, batch: &PointBatch) -> Fed {
        let active = self.0.active.load();
        let candidates = active.candidates(batch);
        if candidates.is_empty() && active.forward_all {
            return Fed::All;
        }
        let replaced = if candidates.is_empty() { Vec::new() } else { self.take(batch, candidates, &active) };
        if !active.forward_all {
            return Fed::Only(PointBatch::default());
        }
        if replaced.is_empty() { Fed::All } else { Fed::Only(without(batch, &replaced)) }
    }

    /// Counts points that are not passed to the store and the relay.
    pub fn note_consumed(&self, points: usize) {
        self.0.stats.consumed.add(points as u64);
    }

    /// Gives candidates to their buffers. Returns the positions of the points that a rule's output of the same name
    /// replaces.
    fn take(&self, batch: &PointBatch, mut candidates: Vec<Candidate>, seen: &Arc<Active>) -> Vec<u32> {
        let now_ms = self.0.clock.now_ms();
        let mut state = self.0.state();
        if !Arc::ptr_eq(seen, &state.active) {
            // The rules were reloaded meanwhile.
            candidates = state.active.candidates(batch);
        }
        let (mut replaced, mut fed) = (Vec::new(), 0);
        for candidate in candidates {
            let point = &batch.points()[candidate.at as usize];
            let (taken, is_output) = state.take(batch, point, candidate.hash, now_ms, &self.0.stats);
            fed += taken;
            if is_output {
                replaced.push(candidate.at);
            }
        }
        if fed > 0 {
            state.write_out();
            self.0.stats.fed.add(fed);
        }
        replaced
    }

    /// Reads the rules and settings again. If there are problems, the old ones stay in effect. Open intervals
    /// of rules that are still there stay open; those of removed rules are computed once more and closed.
    ///
    /// # Errors
    ///
    /// All problems, each as `key: message`.
    pub fn reload(&self, config: &Config) -> Result<(), Vec<String>> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let active = Arc::new(Active::read(config, self.0.seed)?);
        let mut state = self.0.state();
        state.known.clear();
        state.buffers.retain(active.matcher.rules.rules(), self.0.clock.now_ms());
        state.active = Arc::clone(&active);
        self.0.active.store(active);
        Ok(())
    }

    /// The line of aggregation in the ledger.
    pub fn balance(&self) -> Balance {
        self.0.stats.balance()
    }

    /// The number of buffers with open intervals, and of the values in them: carbon's `allocatedBuffers` and
    /// `bufferedDatapoints`.
    pub fn buffered(&self) -> (u64, u64) {
        let state = self.0.state();
        (state.buffers.active(), state.buffers.folded())
    }

    /// Brings the gauges and the conditions up to date.
    pub fn report(&self, conditions: &Conditions) {
        let log_bytes = self.0.journal.segments().iter().map(|segment| segment.bytes).sum();
        let trouble = {
            let state = self.0.state();
            self.0.stats.show(&state.buffers, log_bytes);
            self.0.stats.gave_up.set(state.active.matcher.rules.gave_up() as f64);
            state.trouble.clone()
        };
        let text = |why| {
            format!(
                "the log of open intervals cannot be written: {why}; a kill would lose the values that were \
                 aggregated since then. Make room on the disk of the data directory"
            )
        };
        conditions.set(Severity::Warning, LOG, trouble.map(text));
        conditions.set(Severity::Warning, REFUSED, self.refused_lately());
    }

    fn refused_lately(&self) -> Option<String> {
        let total = self.0.stats.refused();
        let mut last = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if total > last.0 {
            *last = (total, Some(Instant::now()));
        }
        last.1.filter(|since| since.elapsed() < REFUSED_FOR)?;
        Some(format!(
            "{total} values were not aggregated since the start, because there are too many open intervals or values \
             of percentiles: raise aggregation.max_open_intervals or aggregation.max_values, or write rules \
             with fewer outputs"
        ))
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aggregation")
    }
}

/// A point that a rule may take: its position in the batch, and the hash of its name.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: u32,
    hash: u128,
}

impl Active {
    fn read(config: &Config, seed: u64) -> Result<Self, Vec<String>> {
        let write_back_ms = i64::try_from(config.write_back_frequency.as_millis()).unwrap_or(i64::MAX);
        Ok(Self {
            matcher: Matcher::new(config.load_rules()?, seed),
            forward_all: config.forward_all || config.is_off(),
            limits: Limits {
                max_intervals: config.max_intervals,
                write_back_ms,
                open_max: config.max_open_intervals,
                values_max: config.max_values,
            },
        })
    }

    fn candidates(&self, batch: &PointBatch) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (at, point) in batch.points().iter().enumerate() {
            if let Some(hash) = self.matcher.candidate(batch.name_bytes(point)) {
                if candidates.is_empty() {
                    candidates.reserve(batch.len() - at);
                }
                candidates.push(Candidate { at: at as u32, hash });
            }
        }
        candidates
    }
}

impl State {
    /// Gives a point to the buffers of its name. Returns how many buffers took it, and whether one of them
    /// has the name of the point.
    fn take(
        &mut self,
        batch: &PointBatch,
        point: &PointRef,
        hash: u128,
        now_ms: i64,
        stats: &Stats,
    ) -> (u64, bool) {
        let known = self.known.get(hash);
        let Some((group, is_output)) = known.or_else(|| self.learn(batch.name(point), hash)) else {
            return (0, false);
        };
        let Self { active, buffers, .. } = self;
        let arrival = Arrival { timestamp: point.timestamp, value: point.value, now_ms };
        let refuse = |refusal| stats.refuse(refusal);
        (buffers.feed(group, active.matcher.rules.rules(), arrival, &active.limits, refuse), is_output)
    }

    /// Matches a name that is not known yet against the rules. Returns its group, and whether one of the
    /// rules' outputs has this same name; `None` if no rule matches.
    #[cold]
    fn learn(&mut self, name: &str, hash: u128) -> Option<(u32, bool)> {
        if self.known.is_full() {
            self.forget_names();
        }
        let active = Arc::clone(&self.active);
        let rules = active.matcher.rules.rules();
        let (mut ways, mut is_output, mut bytes) = (Vec::new(), false, 0);
        active.matcher.rules.visit(name, |rule, output| {
            is_output |= output == name;
            if let Some((buffer, new_bytes)) = self.buffers.place(output, &rules[rule]) {
                ways.push(Way { buffer, rule: rule as u32 });
                bytes += new_bytes;
            }
        });
        if ways.is_empty() {
            active.matcher.exclude(hash);
            return None;
        }
        let (group, group_bytes) = self.buffers.group(ways, rules);
        self.known.note_bytes(bytes + group_bytes);
        self.known.insert(hash, group, is_output);
        Some((group, is_output))
    }

    /// Forgets all names and what only they need. They are matched again when they next arrive.
    pub(crate) fn forget_names(&mut self) {
        self.known.clear();
        self.buffers.forget_empty();
    }

    /// Writes the pending records to the log's file.
    pub(crate) fn write_out(&mut self) {
        if let Err(error) = self.buffers.log.write_out() {
            self.trouble = Some(error.to_string());
        } else if !self.buffers.log.is_broken() {
            self.trouble = None;
        }
    }
}

/// The batch without the points at these positions, which must be in ascending order.
fn without(batch: &PointBatch, positions: &[u32]) -> PointBatch {
    let mut positions = positions.iter().peekable();
    let mut rest = PointBatch::with_capacity(batch.len());
    for (at, point) in batch.points().iter().enumerate() {
        if positions.next_if(|position| **position as usize == at).is_none() {
            rest.push_utf8(batch.name_bytes(point), point.timestamp, point.value);
        }
    }
    rest
}
