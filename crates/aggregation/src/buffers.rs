//! The buffers: for each metric that rules make, its open intervals. Pure, apart from the records of the log.

mod arrival;
mod cohort;
mod reload;
mod sharing;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

pub(crate) use arrival::Arrival;
use plumbago_model::PointBatch;
use plumbago_model::rules::{AggregationRule, RuleMethod};

use self::cohort::{Cohort, Cohorts, Scratch};
use crate::groups::Groups;
use crate::log::{Log, NUMBER_MAX};
use crate::restore::Key;
#[cfg(test)]
use crate::restore::Restored;

/// Memory of a buffer without its name, with a cohort of its own, in bytes.
const BUFFER_BYTES: usize = 256;
/// Size of a record in the log, in bytes.
const RECORD_BYTES: u64 = 16;
/// Below this size, in bytes, the log is not rewritten to make it smaller.
const LOG_BYTES_MIN: u64 = 16 << 20;
/// With fewer values than this, the log is not rewritten to make the next start faster: a start reads this
/// many in about a second.
const LOG_VALUES_MIN: u64 = 16 << 20;
/// The log is rewritten when it has grown by this factor.
const LOG_GROWTH: u64 = 3;

/// The settings that decide what is kept and when it is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_intervals: u32,
    /// Milliseconds between two computations; 0 means the frequency of the rule.
    pub(crate) write_back_ms: i64,
    pub(crate) open_max: u64,
    pub(crate) values_max: u64,
}

/// Why a value was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There are too many open intervals.
    Intervals,
    /// Too many values are kept for percentiles.
    Values,
    /// The buffer no longer exists. The names that the matcher knows never refer to such buffers.
    NoBuffer,
}

/// An interval whose last value is on its way to the store: the number of its buffer, and its start.
pub(crate) type Closing = (u32, u32);

/// The result of one computation.
#[derive(Debug, Default)]
pub(crate) struct Computed {
    pub(crate) points: PointBatch,
    pub(crate) closing: Vec<Closing>,
    /// The number of computed values that are not a number.
    pub(crate) nan: u64,
    /// Whether more buffers are due.
    pub(crate) more: bool,
}

struct Buffer {
    name: Box<str>,
    /// The output of the rule, as written in the file.
    output: Arc<str>,
    frequency: u32,
    method: RuleMethod,
    /// The number of its cohort, which has its intervals.
    cohort: u32,
}

/// All buffers.
pub(crate) struct Buffers {
    slots: Vec<Option<Buffer>>,
    free: Vec<u32>,
    by_name: HashMap<Box<str>, u32>,
    cohorts: Cohorts,
    /// When cohorts are due: time in milliseconds, and number of the cohort. An entry whose time differs from
    /// that of its cohort is stale.
    due: BinaryHeap<Reverse<(i64, u32)>>,
    open: u64,
    values: u64,
    active: u64,
    /// How many cohorts were added to the lists of groups when other cohorts were divided.
    listed: usize,
    /// About how many values a restart would read from the log.
    logged: u64,
    pub(crate) groups: Groups,
    pub(crate) log: Log,
}

impl Buffers {
    pub(crate) fn new(log: Log) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            cohorts: Cohorts::default(),
            due: BinaryHeap::new(),
            open: 0,
            values: 0,
            active: 0,
            listed: 0,
            logged: 0,
            groups: Groups::new(),
            log,
        }
    }

    /// The number of buffers with open intervals.
    pub(crate) fn active(&self) -> u64 {
        self.active
    }

    /// The number of open intervals. Those that buffers share count once for each buffer.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// The number of values that were folded into open intervals, counted for each buffer.
    pub(crate) fn folded(&self) -> u64 {
        let counts = self.cohorts.iter().flat_map(|cohort| {
            cohort.intervals.iter().map(|interval| cohort.len() * u64::from(interval.count))
        });
        counts.sum()
    }

    /// The number of values that percentiles need. Those that buffers share count once for each buffer, because this
    /// is what a rewrite of the log writes and a start reads; the memory has them once.
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Returns the number of the buffer with this name, and the memory that a new buffer took. Makes the buffer if
    /// there is none.
    pub(crate) fn place(&mut self, name: String, rule: &AggregationRule) -> Option<(u32, usize)> {
        if let Some(number) = self.by_name.get(name.as_str()) {
            return Some((*number, 0));
        }
        let name = name.into_boxed_str();
        let bytes = BUFFER_BYTES + 2 * name.len();
        let number = self.insert(Buffer::new(name.clone(), rule))?;
        self.new_cohort(number)?;
        self.by_name.insert(name, number);
        Some((number, bytes))
    }

    /// Computes cohorts that are due, until they had `count` buffers.
    pub(crate) fn compute(&mut self, now_ms: i64, limits: &Limits, count: usize) -> Computed {
        let mut computed = Computed::default();
        let mut scratch = Scratch::default();
        let mut left = count;
        while left > 0 {
            let Some(Reverse((due_ms, number))) = self.due.peek().copied().filter(|due| due.0.0 <= now_ms)
            else {
                return computed;
            };
            self.due.pop();
            left -= 1;
            let cohort = self.cohorts.get_mut(number).filter(|cohort| cohort.is_due_at(due_ms));
            let Some(cohort) = cohort else { continue };
            left = left.saturating_sub(cohort.members.len() - 1);
            cohort.compute(&self.slots, now_ms, limits, &mut scratch, &mut computed);
            self.due.push(Reverse((cohort.due_ms, number)));
        }
        computed.more = true;
        computed
    }

    /// Makes all buffers due at once: for the last computation before a stop, or after the clock was set back.
    pub(crate) fn make_due(&mut self, now_ms: i64) {
        self.due.clear();
        for (number, cohort) in self.cohorts.iter_mut() {
            if !cohort.intervals.is_empty() {
                cohort.due_ms = now_ms;
                self.due.push(Reverse((now_ms, number)));
            }
        }
    }

    /// Removes intervals whose value is durable. Intervals that have received another value meanwhile stay
    /// open.
    pub(crate) fn close(&mut self, closing: &[Closing]) {
        let of =
            |(buffer, start): &Closing| Some((self.slots.get(*buffer as usize)?.as_ref()?.cohort, *start));
        let mut closing: Vec<(u32, u32)> = closing.iter().filter_map(of).collect();
        // An interval is closed for all members at once.
        closing.sort_unstable();
        closing.dedup();
        for intervals in closing.chunk_by(|a, b| a.0 == b.0) {
            self.close_intervals(intervals);
        }
    }

    /// Removes intervals of one cohort, given as its number and their starts in ascending order.
    fn close_intervals(&mut self, closing: &[(u32, u32)]) {
        let Some((number, _)) = closing.first().copied() else { return };
        let Some(cohort) = self.cohorts.get_mut(number) else { return };
        let members = cohort.len();
        let mut closed = Vec::with_capacity(closing.len());
        cohort.intervals.retain(|interval| {
            let closes = interval.is_closing && closing.binary_search(&(number, interval.start)).is_ok();
            if closes {
                self.open -= members;
                self.values -= members * interval.kept();
                closed.push(interval.start);
            }
            !closes
        });
        if closed.is_empty() {
            return;
        }
        if cohort.named_in == 0 {
            // Before the start, these numbers may have belonged to other buffers.
            self.name_members(number);
        }
        self.note_closed(number, &closed);
    }

    /// Writes to the log that intervals with these starts are closed. If the cohort has no others, its buffers are no
    /// longer active.
    fn note_closed(&mut self, number: u32, starts: &[u32]) {
        let Some(cohort) = self.cohorts.get_mut(number) else { return };
        for start in starts {
            cohort.members.iter().for_each(|member| self.log.closed(*member, *start));
        }
        if cohort.intervals.is_empty() {
            self.active -= cohort.len();
            cohort.intervals = Vec::new();
            // The time of the next value decides when the cohort is due again.
            cohort.due_ms = i64::MIN;
            if cohort.is_retired {
                self.remove(number);
            }
        }
    }

    /// Names the members of a cohort in the present segment of the log.
    #[cold]
    fn name_members(&mut self, number: u32) {
        let Some(cohort) = self.cohorts.get_mut(number) else { return };
        cohort.named_in = self.log.segment();
        for member in &cohort.members {
            if let Some(buffer) = self.slots.get(*member as usize).and_then(Option::as_ref) {
                self.log.name(*member, &buffer.key());
            }
        }
    }

    /// Writes the intervals of cohorts, from number `from` on until they had `count` buffers, to the log again if a
    /// segment before `segment` has records of them. Returns the number to continue with; `None` at the end.
    pub(crate) fn rewrite(&mut self, from: u32, count: usize, segment: u32) -> Option<u32> {
        let mut left = count;
        for number in from..self.cohorts.end() {
            if left == 0 {
                return Some(number);
            }
            left = left.saturating_sub(self.rewrite_cohort(number, segment).max(1));
        }
        None
    }

    /// Returns the number of buffers of the cohort.
    fn rewrite_cohort(&mut self, number: u32, segment: u32) -> usize {
        let now = self.log.segment();
        let Some(cohort) = self.cohorts.get(number) else { return 0 };
        if !cohort.intervals.iter().any(|interval| interval.segment < segment) {
            return cohort.members.len();
        }
        if cohort.named_in < now {
            self.name_members(number);
        }
        let Some(cohort) = self.cohorts.get_mut(number) else { return 0 };
        for interval in cohort.intervals.iter_mut().filter(|interval| interval.segment < segment) {
            interval.segment = now;
            for member in &cohort.members {
                if let Some(buffer) = self.slots.get(*member as usize).and_then(Option::as_ref) {
                    self.log.state(*member, interval.start, interval.state(buffer.method), interval.count);
                }
            }
        }
        cohort.members.len()
    }

    /// Whether the log, of which `bytes` are on the disk, has grown so much that it should be rewritten.
    /// `written_bytes` is its size after it was last rewritten.
    pub(crate) fn log_is_long(&self, bytes: u64, written_bytes: u64) -> bool {
        // The number of records that a rewrite would write. For percentiles it writes one for each value of
        // each buffer, which can be far more than the log has now.
        let records = self.values + 2 * self.open;
        let bytes_max = LOG_GROWTH * written_bytes.max(RECORD_BYTES * records);
        bytes > bytes_max.max(LOG_BYTES_MIN) || self.logged > (LOG_GROWTH * records).max(LOG_VALUES_MIN)
    }

    /// Notes that the log was rewritten.
    pub(crate) fn note_rewritten(&mut self) {
        self.logged = self.values + 2 * self.open;
    }

    /// Makes the next [`Buffers::rewrite`] write everything.
    pub(crate) fn forget_log(&mut self) {
        self.groups.forget_log();
        for (_, cohort) in self.cohorts.iter_mut() {
            cohort.named_in = 0;
            cohort.intervals.iter_mut().for_each(|interval| interval.segment = 0);
        }
    }

    /// A copy of all open intervals.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> Restored {
        let intervals = |buffer: &Buffer| Some(self.cohorts.get(buffer.cohort)?.intervals.clone());
        let open = self.slots.iter().flatten().filter_map(|buffer| {
            Some((Key::parse(&buffer.key())?, intervals(buffer).filter(|open| !open.is_empty())?))
        });
        open.collect()
    }

    /// The number of cohorts.
    #[cfg(test)]
    pub(crate) fn cohorts(&self) -> usize {
        self.cohorts.iter().count()
    }

    /// The length of the table of cohorts.
    #[cfg(test)]
    pub(crate) fn cohorts_end(&self) -> u32 {
        self.cohorts.end()
    }

    /// Makes a cohort for a new buffer.
    fn new_cohort(&mut self, buffer_number: u32) -> Option<(u32, &mut Cohort)> {
        let buffer = self.slots.get_mut(buffer_number as usize)?.as_mut()?;
        let cohort = Cohort::new(buffer_number, buffer.frequency, buffer.method);
        buffer.cohort = self.cohorts.insert(cohort);
        Some((buffer.cohort, self.cohorts.get_mut(buffer.cohort)?))
    }

    /// Removes a cohort and its buffers.
    fn remove(&mut self, number: u32) {
        let Some(cohort) = self.cohorts.remove(number) else { return };
        for member in cohort.members {
            if let Some(buffer) = self.slots.get_mut(member as usize).and_then(Option::take) {
                self.free.push(member);
                // The name of a retired buffer may belong to another one already.
                if !cohort.is_retired {
                    self.by_name.remove(&buffer.name);
                }
            }
        }
    }

    fn insert(&mut self, buffer: Buffer) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = Some(buffer);
            return Some(number);
        }
        let number = u32::try_from(self.slots.len()).ok().filter(|number| *number < NUMBER_MAX)?;
        self.slots.push(Some(buffer));
        Some(number)
    }
}

impl Buffer {
    fn new(name: Box<str>, rule: &AggregationRule) -> Self {
        Self {
            name,
            output: Arc::clone(&rule.output),
            frequency: rule.frequency,
            method: rule.method,
            cohort: u32::MAX,
        }
    }

    fn is_of(&self, rule: &AggregationRule) -> bool {
        self.output == rule.output && self.frequency == rule.frequency && self.method == rule.method
    }

    /// Adopts the output, frequency and method of a rule.
    fn follow(&mut self, rule: &AggregationRule) {
        (self.output, self.frequency, self.method) = (Arc::clone(&rule.output), rule.frequency, rule.method);
    }

    fn key(&self) -> String {
        Key::text(&self.name, self.frequency, self.method, &self.output)
    }
}

#[cfg(test)]
mod tests {
    use plumbago_journal::Journal;
    use plumbago_model::ManualClock;
    use plumbago_model::rules::AggregationRules;
    use plumbago_telemetry::Registry;

    use super::*;
    use crate::matcher::Way;

    fn buffers(dir: &tempfile::TempDir) -> Buffers {
        let clock = Arc::new(ManualClock::at(0));
        let config = plumbago_journal::Config::default();
        let journal = Journal::open(dir.path(), config, clock, &Registry::new()).unwrap();
        Buffers::new(Log::new(journal))
    }

    #[test]
    fn the_log_is_long_when_a_rewrite_would_make_it_much_shorter() {
        let dir = tempfile::tempdir().unwrap();
        let mut buffers = buffers(&dir);
        assert!(!buffers.log_is_long(LOG_BYTES_MIN, 0));
        assert!(buffers.log_is_long(LOG_BYTES_MIN + 1, 0));
        assert!(!buffers.log_is_long(LOG_BYTES_MIN + 1, LOG_BYTES_MIN));
        // The log has few bytes, but many values for a start to read.
        buffers.logged = LOG_VALUES_MIN + 1;
        assert!(buffers.log_is_long(0, 0));
        // A rewrite would write a record for each value that is kept.
        buffers.values = LOG_VALUES_MIN;
        assert!(!buffers.log_is_long(LOG_BYTES_MIN + 1, 0));
        buffers.note_rewritten();
        assert_eq!(buffers.logged, LOG_VALUES_MIN);
    }

    #[test]
    fn lower_percentiles_are_first_and_a_part_has_no_room_for_the_whole() {
        let text =
            ["p90", "sum", "p50", "p999", "max", "p75"].map(|name| format!("{name} (10) = {name} x\n"));
        let (rules, _) = AggregationRules::parse(&text.concat());
        let rules = rules.rules();
        let dir = tempfile::tempdir().unwrap();
        let mut buffers = buffers(&dir);
        let ways: Vec<Way> = (0..rules.len())
            .map(|rule| Way {
                buffer: buffers.place(rules[rule].output.to_string(), &rules[rule]).unwrap().0,
                rule: rule as u32,
            })
            .collect();
        buffers.group(ways.clone(), rules);
        let members = |buffers: &Buffers, way: usize| {
            let buffer = buffers.slots[ways[way].buffer as usize].as_ref().unwrap();
            buffers.cohorts.get(buffer.cohort).unwrap().members.clone()
        };
        let ordered = [2, 5, 0, 3].map(|way: usize| ways[way].buffer);
        assert_eq!(members(&buffers, 0), ordered);
        buffers.group(vec![ways[5], ways[0]], rules);
        assert_eq!(members(&buffers, 0), [ordered[1], ordered[2]]);
        assert_eq!(members(&buffers, 3), [ordered[0], ordered[3]]);
        let part = buffers.slots[ways[0].buffer as usize].as_ref().unwrap().cohort;
        assert_eq!(buffers.cohorts.get(part).unwrap().members.capacity(), 2);
    }
}
