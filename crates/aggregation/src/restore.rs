//! Reads the open intervals from the log at the start.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use plumbago_journal::{Journal, JournalError, Record};
use plumbago_model::rules::RuleMethod;

use crate::groups;
use crate::interval::Interval;
use crate::log::Kind;

/// What identifies a buffer across restarts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The name of the metric that the buffer makes.
    pub(crate) name: String,
    /// The length of an interval in seconds.
    pub(crate) frequency: u32,
    /// Carbon's name for the method.
    pub(crate) method: &'static str,
    /// The output as the rule states it.
    pub(crate) output: String,
}

impl Key {
    /// The key as one text with a line for each part. Names contain no line ends.
    pub(crate) fn text(name: &str, frequency: u32, method: RuleMethod, output: &str) -> String {
        format!("{name}\n{frequency}\n{}\n{output}", method.name())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let (name, frequency, method) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Self {
            name: name.to_owned(),
            frequency: frequency.parse().ok().filter(|seconds| *seconds > 0)?,
            method: RuleMethod::named(method)?.name(),
            output: lines.next()?.to_owned(),
        })
    }

    pub(crate) fn method(&self) -> RuleMethod {
        RuleMethod::named(self.method).unwrap_or(RuleMethod::Sum)
    }
}

/// The open intervals of each buffer.
pub(crate) type Restored = BTreeMap<Key, Vec<Interval>>;

/// Reads the open intervals from the log.
pub(crate) fn restore(journal: &Journal) -> Result<Restored, JournalError> {
    let mut reader = Reader::default();
    journal.replay(&mut |record| reader.take(&record))?;
    Ok(reader.end())
}

/// Computes the open intervals from the records of the log, read in order.
#[derive(Default)]
pub(crate) struct Reader {
    buffers: Vec<Described>,
    /// Senders choose the names, so this map must use a hash that resists chosen collisions.
    places: std::collections::HashMap<String, usize>,
    /// The position of the buffer that each number stands for.
    numbers: HashMap<u32, usize>,
    /// The numbers of the buffers in the group that each group number stands for.
    groups: HashMap<u32, Box<[u32]>>,
    /// Parts of a state that is not complete yet.
    parts: Vec<f64>,
}

/// A buffer that the log names.
struct Described {
    key: Key,
    method: RuleMethod,
    /// The intervals, by their start.
    intervals: BTreeMap<u32, Interval>,
}

impl Reader {
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Creation { metric, name, .. } => self.name(*metric, name),
            Record::Point { metric, timestamp, value, .. } => self.point(*metric, *timestamp, *value),
            Record::Removal { .. } => {}
        }
    }

    /// Returns the open intervals after the last record.
    pub(crate) fn end(self) -> Restored {
        let mut restored = Restored::new();
        for Described { key, intervals, .. } in self.buffers {
            let open: Vec<Interval> = intervals.into_values().filter(|interval| interval.count > 0).collect();
            if !open.is_empty() {
                restored.insert(key, open);
            }
        }
        restored
    }

    fn name(&mut self, metric: u32, text: &str) {
        // A kill may have cut off the end of a state. Its first parts are then dropped.
        self.parts.clear();
        match Kind::of(metric) {
            (Kind::Group, number) => self.name_group(number, text),
            (_, number) => self.name_buffer(number, text),
        }
    }

    fn name_group(&mut self, number: u32, text: &str) {
        match groups::parse(text) {
            Some(buffers) => self.groups.insert(number, buffers),
            None => self.groups.remove(&number),
        };
    }

    fn name_buffer(&mut self, number: u32, text: &str) {
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let Some(key) = Key::parse(text) else {
                    self.numbers.remove(&number);
                    return;
                };
                let method = key.method();
                self.buffers.push(Described { key, method, intervals: BTreeMap::new() });
                self.places.insert(text.to_owned(), self.buffers.len() - 1);
                self.buffers.len() - 1
            }
        };
        self.numbers.insert(number, place);
    }

    fn point(&mut self, metric: u32, timestamp: u32, value: f64) {
        let (kind, number) = Kind::of(metric);
        if kind == Kind::Part {
            return self.parts.push(value);
        }
        let parts = std::mem::take(&mut self.parts);
        let Self { buffers, numbers, groups, .. } = self;
        if kind == Kind::Group {
            let Some(members) = groups.get(&number) else { return };
            for place in members.iter().filter_map(|number| numbers.get(number)) {
                buffers[*place].add(timestamp, value);
            }
            return;
        }
        let Some(buffer) = numbers.get(&number).map(|place| &mut buffers[*place]) else { return };
        let start = buffer.start(timestamp);
        match kind {
            Kind::Value => buffer.add(timestamp, value),
            Kind::Restore => {
                let interval = Interval::restored(start, buffer.method, value as u32, parts);
                buffer.intervals.insert(start, interval);
            }
            Kind::Closed => drop(buffer.intervals.remove(&start)),
            Kind::Part | Kind::Group => {}
        }
    }
}

impl Described {
    fn start(&self, timestamp: u32) -> u32 {
        timestamp - timestamp % self.key.frequency
    }

    fn add(&mut self, timestamp: u32, value: f64) {
        let start = self.start(timestamp);
        let interval = self.intervals.entry(start).or_insert_with(|| Interval::new(start, 0));
        interval.add(value, matches!(self.method, RuleMethod::Percentile(_)));
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "model_tests.rs"]
mod model_tests;
