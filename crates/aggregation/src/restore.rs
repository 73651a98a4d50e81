//! Reads the log at the start: what was in open intervals.

use std::collections::{BTreeMap, HashMap};

use plumbago_journal::{Journal, JournalError, Record};
use plumbago_model::rules::RuleMethod;

use crate::interval::Interval;
use crate::log::Kind;

/// What identifies a buffer across restarts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Name of the metric that it makes.
    pub(crate) name: String,
    /// Seconds of an interval.
    pub(crate) frequency: u32,
    /// Carbon's name of the method.
    pub(crate) method: &'static str,
    /// The output as the rule has it.
    pub(crate) output: String,
}

impl Key {
    /// As one text. Names have no line ends.
    pub(crate) fn text(name: &str, frequency: u32, method: RuleMethod, output: &str) -> String {
        format!("{name}\n{frequency}\n{}\n{output}", method.name())
    }

    fn parse(text: &str) -> Option<Self> {
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
    let Reader { mut buffers, .. } = reader;
    let mut restored = Restored::new();
    for (key, intervals) in buffers.drain(..) {
        let open: Vec<Interval> = intervals.into_values().filter(|interval| interval.count > 0).collect();
        if !open.is_empty() {
            restored.insert(key, open);
        }
    }
    Ok(restored)
}

#[derive(Default)]
struct Reader {
    /// Each buffer with its intervals, by their start.
    buffers: Vec<(Key, BTreeMap<u32, Interval>)>,
    places: HashMap<String, usize>,
    /// The place of the buffer that each number stands for.
    numbers: HashMap<u32, usize>,
    /// Parts of a state that is not complete yet.
    parts: Vec<f64>,
}

impl Reader {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Creation { metric, name, .. } => self.name(*metric, name),
            Record::Point { metric, timestamp, value, .. } => self.point(*metric, *timestamp, *value),
            Record::Removal { .. } => {}
        }
    }

    fn name(&mut self, number: u32, text: &str) {
        // A kill may have cut off the end of a state. Its first parts are then dropped.
        self.parts.clear();
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let Some(key) = Key::parse(text) else {
                    self.numbers.remove(&number);
                    return;
                };
                self.buffers.push((key, BTreeMap::new()));
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
        let Some((key, intervals)) = self.numbers.get(&number).map(|place| &mut self.buffers[*place]) else {
            return;
        };
        let start = timestamp - timestamp % key.frequency;
        match kind {
            Kind::Value => {
                intervals.entry(start).or_insert_with(|| Interval::new(start, 0)).add(key.method(), value);
            }
            Kind::Restore => {
                intervals.insert(start, Interval::restored(start, key.method(), value as u32, parts));
            }
            Kind::Closed => drop(intervals.remove(&start)),
            Kind::Part => {}
        }
    }
}
