//! The buffers: for each metric that rules make, its open intervals. Pure, apart from the records of the log.

mod arrival;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

pub(crate) use arrival::Arrival;
use plumbago_model::PointBatch;
use plumbago_model::rules::{AggregationRule, RuleMethod};

use crate::groups::Groups;
use crate::interval::Interval;
use crate::log::{Log, NUMBER_MAX};
use crate::restore::{Key, Restored};

/// Memory of a buffer without its name, in bytes.
const BUFFER_BYTES: usize = 160;
/// Size of a record in the log, in bytes.
const RECORD_BYTES: u64 = 16;
/// The log is not rewritten because of its size while it has fewer bytes than this.
const LOG_BYTES_MIN: u64 = 16 << 20;
/// The log is not rewritten because of the number of its values while there are fewer than this. A start
/// reads that many in about a second.
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
    intervals: Vec<Interval>,
    due_ms: i64,
    /// The newest segment of the log that names this buffer; 0 for none.
    named_in: u32,
    /// Whether the rule was removed. The buffer is then computed once more and closed.
    is_retired: bool,
}

/// All buffers.
pub(crate) struct Buffers {
    slots: Vec<Option<Buffer>>,
    free: Vec<u32>,
    by_name: HashMap<Box<str>, u32>,
    /// When buffers are due: time in milliseconds, and number of the buffer. An entry whose time differs from
    /// that of its buffer is stale.
    due: BinaryHeap<Reverse<(i64, u32)>>,
    open: u64,
    values: u64,
    active: u64,
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
            due: BinaryHeap::new(),
            open: 0,
            values: 0,
            active: 0,
            logged: 0,
            groups: Groups::new(),
            log,
        }
    }

    /// The number of buffers with open intervals.
    pub(crate) fn active(&self) -> u64 {
        self.active
    }

    /// The number of open intervals.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// The number of values that were folded into open intervals.
    pub(crate) fn folded(&self) -> u64 {
        let buffers = self.slots.iter().flatten();
        buffers.flat_map(|buffer| &buffer.intervals).map(|interval| u64::from(interval.count)).sum()
    }

    /// The number of values that are kept for percentiles.
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
        self.by_name.insert(name, number);
        Some((number, bytes))
    }

    /// Computes up to `count` buffers that are due.
    pub(crate) fn compute(&mut self, now_ms: i64, limits: &Limits, count: usize) -> Computed {
        let mut computed = Computed::default();
        let mut scratch = Vec::new();
        for _ in 0..count {
            let Some(Reverse((due_ms, number))) = self.due.peek().copied().filter(|due| due.0.0 <= now_ms)
            else {
                return computed;
            };
            self.due.pop();
            let slot = self.slots.get_mut(number as usize).and_then(Option::as_mut);
            let Some(buffer) = slot.filter(|buffer| buffer.is_due_at(due_ms)) else { continue };
            buffer.compute(number, now_ms, limits, &mut scratch, &mut computed);
            self.due.push(Reverse((buffer.due_ms, number)));
        }
        computed.more = true;
        computed
    }

    /// Makes all buffers due at once: for the last computation before a stop, or after the clock was set back.
    pub(crate) fn make_due(&mut self, now_ms: i64) {
        self.due.clear();
        for (number, buffer) in self.slots.iter_mut().enumerate() {
            if let Some(buffer) = buffer.as_mut().filter(|buffer| !buffer.intervals.is_empty()) {
                buffer.due_ms = now_ms;
                self.due.push(Reverse((now_ms, number as u32)));
            }
        }
    }

    /// Removes intervals whose value is durable. Intervals that have received another value meanwhile stay
    /// open.
    pub(crate) fn close(&mut self, closing: &[Closing]) {
        for &(number, start) in closing {
            let Some(buffer) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { continue };
            let is_closing = |interval: &Interval| interval.start == start && interval.is_closing;
            let Some(at) = buffer.intervals.iter().position(is_closing) else { continue };
            let interval = buffer.intervals.remove(at);
            self.open -= 1;
            self.values -= interval.kept();
            if buffer.named_in == 0 {
                // Before the start, this number may have belonged to another buffer.
                buffer.named_in = self.log.segment();
                self.log.name(number, &buffer.key());
            }
            self.log.closed(number, start);
            if buffer.intervals.is_empty() {
                self.active -= 1;
                buffer.intervals = Vec::new();
                // The time of the next value decides when the buffer is due again.
                buffer.due_ms = i64::MIN;
                if buffer.is_retired {
                    self.slots[number as usize] = None;
                    self.free.push(number);
                }
            }
        }
    }

    /// Applies new rules. Buffers whose rule was removed get no further values and are due at once. Buffer
    /// numbers and groups from before this call are no longer valid.
    pub(crate) fn retain(&mut self, rules: &[AggregationRule], now_ms: i64) {
        for number in 0..self.slots.len() {
            let Some(buffer) = self.slots[number].as_mut() else { continue };
            if buffer.is_retired || rules.iter().any(|rule| buffer.is_of(rule)) {
                continue;
            }
            self.by_name.remove(&buffer.name);
            buffer.is_retired = true;
            buffer.due_ms = now_ms;
            self.due.push(Reverse((now_ms, number as u32)));
        }
        self.forget_empty();
        self.resume(rules);
    }

    /// Keeps the retired buffers whose rule was added again before they were closed. Otherwise there would be
    /// two open buffers with the same key.
    fn resume(&mut self, rules: &[AggregationRule]) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(buffer) = slot.as_mut().filter(|buffer| buffer.is_retired) else { continue };
            if rules.iter().any(|rule| buffer.is_of(rule)) && !self.by_name.contains_key(&buffer.name) {
                self.by_name.insert(buffer.name.clone(), number as u32);
                buffer.is_retired = false;
                buffer.intervals.iter_mut().for_each(|interval| interval.is_closing = false);
            }
        }
    }

    /// Removes buffers without open intervals, and all groups. Their numbers are no longer valid.
    pub(crate) fn forget_empty(&mut self) {
        self.groups.clear();
        for number in 0..self.slots.len() {
            if let Some(buffer) = self.slots[number].take_if(|buffer| buffer.intervals.is_empty()) {
                self.by_name.remove(&buffer.name);
                self.free.push(number as u32);
            }
        }
    }

    /// Takes the open intervals of an earlier run. All of their buffers are due.
    pub(crate) fn restore(&mut self, restored: Restored, rules: &[AggregationRule], now_ms: i64) {
        for (key, intervals) in restored {
            let rule = rules.iter().find(|rule| {
                *rule.output == *key.output
                    && rule.frequency == key.frequency
                    && rule.method.name() == key.method
            });
            let is_retired = rule.is_none() || self.by_name.contains_key(key.name.as_str());
            let open = intervals.len() as u64;
            let kept: u64 = intervals.iter().map(Interval::kept).sum();
            let buffer = Buffer {
                name: key.name.as_str().into(),
                output: rule.map_or_else(|| key.output.as_str().into(), |rule| Arc::clone(&rule.output)),
                frequency: key.frequency,
                method: key.method(),
                intervals,
                due_ms: now_ms,
                named_in: 0,
                is_retired,
            };
            let Some(number) = self.insert(buffer) else { return };
            if !is_retired {
                self.by_name.insert(key.name.into(), number);
            }
            self.due.push(Reverse((now_ms, number)));
            self.open += open;
            self.values += kept;
            self.active += 1;
        }
    }

    /// Writes the intervals of up to `count` buffers, from number `from` on, to the log again, if a segment before
    /// `segment` has records of them. Returns the number to continue with; `None` at the end.
    pub(crate) fn rewrite(&mut self, from: usize, count: usize, segment: u32) -> Option<usize> {
        let end = self.slots.len().min(from + count);
        for number in from..end {
            let Some(buffer) = self.slots[number].as_mut() else { continue };
            let now = self.log.segment();
            if buffer.named_in < now && buffer.intervals.iter().any(|interval| interval.segment < segment) {
                buffer.named_in = now;
                self.log.name(number as u32, &buffer.key());
            }
            for interval in buffer.intervals.iter_mut().filter(|interval| interval.segment < segment) {
                interval.segment = now;
                let state = interval.state(buffer.method);
                self.log.state(number as u32, interval.start, state, interval.count);
            }
        }
        (end < self.slots.len()).then_some(end)
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
        for buffer in self.slots.iter_mut().flatten() {
            buffer.named_in = 0;
            buffer.intervals.iter_mut().for_each(|interval| interval.segment = 0);
        }
    }

    /// A copy of all open intervals.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> Restored {
        let open = self.slots.iter().flatten().filter(|buffer| !buffer.intervals.is_empty());
        open.filter_map(|buffer| Some((Key::parse(&buffer.key())?, buffer.intervals.clone()))).collect()
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
            intervals: Vec::new(),
            due_ms: i64::MIN,
            named_in: 0,
            is_retired: false,
        }
    }

    fn is_of(&self, rule: &AggregationRule) -> bool {
        self.output == rule.output && self.frequency == rule.frequency && self.method == rule.method
    }

    /// Adopts the output, frequency and method of a rule.
    fn follow(&mut self, rule: &AggregationRule) {
        if !self.is_of(rule) {
            (self.output, self.frequency, self.method) =
                (Arc::clone(&rule.output), rule.frequency, rule.method);
            self.named_in = 0;
        }
    }

    fn key(&self) -> String {
        Key::text(&self.name, self.frequency, self.method, &self.output)
    }

    fn is_due_at(&self, due_ms: i64) -> bool {
        self.due_ms == due_ms && !self.intervals.is_empty()
    }

    /// Milliseconds between two computations.
    fn pause_ms(&self, limits: &Limits) -> i64 {
        let frequency = i64::from(self.frequency) * 1000;
        if limits.write_back_ms > 0 { frequency.min(limits.write_back_ms) } else { frequency }
    }

    /// Emits each interval that has changed, and marks intervals that are too old to be kept, as carbon does.
    /// `scratch` is a buffer that the computations reuse.
    fn compute(
        &mut self,
        number: u32,
        now_ms: i64,
        limits: &Limits,
        scratch: &mut Vec<f64>,
        computed: &mut Computed,
    ) {
        let frequency = i64::from(self.frequency);
        let now = now_ms.div_euclid(1000);
        let oldest = now - now.rem_euclid(frequency) - i64::from(limits.max_intervals) * frequency;
        for interval in &mut self.intervals {
            if std::mem::take(&mut interval.is_active) {
                let value = interval.value(self.method, scratch);
                if value.is_nan() {
                    computed.nan += 1;
                } else {
                    computed.points.push(&self.name, interval.start, value);
                }
            }
            if self.is_retired || i64::from(interval.start) < oldest {
                interval.is_closing = true;
                computed.closing.push((number, interval.start));
            }
        }
        // Missed computations are not done later.
        let pause_ms = self.pause_ms(limits);
        self.due_ms += pause_ms;
        if self.due_ms <= now_ms {
            self.due_ms = now_ms + pause_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use plumbago_journal::Journal;
    use plumbago_model::ManualClock;
    use plumbago_telemetry::Registry;

    use super::*;

    #[test]
    fn the_log_is_long_when_a_rewrite_would_make_it_much_shorter() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(0));
        let config = plumbago_journal::Config::default();
        let journal = Journal::open(dir.path(), config, clock, &Registry::new()).unwrap();
        let mut buffers = Buffers::new(Log::new(journal));
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
}
