//! Adds a value to the buffers of a group and writes it to the log as one record.

use std::cmp::Reverse;

use plumbago_model::rules::{AggregationRule, RuleMethod};

use super::{Buffers, Limits, Refusal};
use crate::groups;
use crate::interval::Interval;
use crate::matcher::Way;

/// A value that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Seconds since the epoch.
    pub(crate) timestamp: u32,
    pub(crate) value: f64,
    /// The present time, in milliseconds since the epoch.
    pub(crate) now_ms: i64,
}

/// The interval that a value belongs to. It is mostly the same for all buffers of a group.
struct Aim {
    frequency: u32,
    /// The start of the interval in seconds since the epoch, for this frequency.
    start: u32,
    /// The position among the intervals of the last buffer.
    at: usize,
}

impl Buffers {
    /// Adds a value to the buffers of a group, and to the log. Returns how many buffers took it, and calls `refuse` for
    /// each that did not.
    pub(crate) fn feed(
        &mut self,
        group: u32,
        rules: &[AggregationRule],
        arrival: Arrival,
        limits: &Limits,
        mut refuse: impl FnMut(Refusal),
    ) -> u64 {
        // The list is put back at the end.
        let Some((ways, at)) = self.groups.get_mut(group).map(|g| (std::mem::take(&mut g.ways), g.at)) else {
            return 0;
        };
        let mut aim = Aim { frequency: 0, start: 0, at };
        let mut refused = Vec::new();
        for (place, way) in ways.iter().enumerate() {
            if let Err(refusal) = self.add(way.buffer, &rules[way.rule as usize], &arrival, limits, &mut aim)
            {
                refuse(refusal);
                refused.push(place);
            }
        }
        let taken = (ways.len() - refused.len()) as u64;
        self.logged += taken;
        self.record(group, &ways, &refused, &arrival);
        if let Some(group) = self.groups.get_mut(group) {
            (group.ways, group.at) = (ways, aim.at);
        }
        taken
    }

    /// Adds a value to a buffer. If the buffer has no open intervals, it first takes the frequency and method
    /// of `rule`.
    #[inline]
    fn add(
        &mut self,
        number: u32,
        rule: &AggregationRule,
        arrival: &Arrival,
        limits: &Limits,
        aim: &mut Aim,
    ) -> Result<(), Refusal> {
        let Some(buffer) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else {
            return Err(Refusal::NoBuffer);
        };
        let is_new = buffer.intervals.is_empty();
        if is_new {
            buffer.follow(rule);
        }
        let is_kept = matches!(buffer.method, RuleMethod::Percentile(_));
        if is_kept && self.values >= limits.values_max {
            return Err(Refusal::Values);
        }
        let start = aim.start(arrival.timestamp, buffer.frequency);
        let segment = self.log.segment();
        if buffer.intervals.get(aim.at).is_none_or(|interval| interval.start != start) {
            match buffer.intervals.iter().rposition(|interval| interval.start == start) {
                Some(at) => aim.at = at,
                None if self.open >= limits.open_max => return Err(Refusal::Intervals),
                None => {
                    self.open += 1;
                    aim.at = buffer.intervals.len();
                    buffer.intervals.push(Interval::new(start, segment));
                }
            }
        }
        if is_new {
            self.active += 1;
            buffer.due_ms = arrival.now_ms + buffer.pause_ms(limits);
            self.due.push(Reverse((buffer.due_ms, number)));
        }
        buffer.intervals[aim.at].add(buffer.method, arrival.value);
        self.values += u64::from(is_kept);
        if buffer.named_in != segment {
            buffer.named_in = segment;
            self.log.name(number, &buffer.key());
        }
        Ok(())
    }

    /// Writes a value to the log: one record for the whole group, unless some of its buffers have refused the value.
    #[inline]
    fn record(&mut self, group: u32, ways: &[Way], refused: &[usize], arrival: &Arrival) {
        let Arrival { timestamp, value, .. } = *arrival;
        if ways.len() == 1 || !refused.is_empty() {
            for (place, way) in ways.iter().enumerate() {
                if refused.binary_search(&place).is_err() {
                    self.log.value(way.buffer, timestamp, value);
                }
            }
            return;
        }
        let (number, segment) = (self.groups.number(group), self.log.segment());
        if self.groups.get_mut(group).is_some_and(|group| group.is_new_in(segment)) {
            self.log.name_group(number, &groups::text(ways));
        }
        self.log.group(number, timestamp, value);
    }
}

impl Aim {
    #[inline]
    fn start(&mut self, timestamp: u32, frequency: u32) -> u32 {
        if self.frequency != frequency {
            (self.frequency, self.start) = (frequency, timestamp - timestamp % frequency);
        }
        self.start
    }
}
