//! Adds a value to the buffers of a group and writes it to the log as one record.

use std::cmp::Reverse;

use plumbago_model::rules::AggregationRule;

use super::cohort::is_kept;
use super::{Buffers, Limits, Refusal};
use crate::groups;
use crate::interval::Interval;

/// A value that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Seconds since the epoch.
    pub(crate) timestamp: u32,
    pub(crate) value: f64,
    /// The present time, in milliseconds since the epoch.
    pub(crate) now_ms: i64,
}

/// The interval that a value belongs to. It is mostly the same for all cohorts of a group.
struct Aim {
    frequency: u32,
    /// The start of the interval in seconds since the epoch, for this frequency.
    start: u32,
    /// The position among the intervals of the last cohort.
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
        let taken_out =
            self.groups.get_mut(group).map(|group| (std::mem::take(&mut group.cohorts), group.at));
        let Some((listed, at)) = taken_out else { return 0 };
        let mut aim = Aim { frequency: 0, start: 0, at };
        let (mut taken, mut refused) = (0, Vec::new());
        for (place, number) in listed.iter().enumerate() {
            if self.is_beginning_alone(*number) {
                self.follow(*number, group, &listed[..place], rules);
            }
            match self.add(*number, &arrival, limits, &mut aim) {
                Ok(members) => taken += members,
                Err((refusal, members)) => {
                    (0..members).for_each(|_| refuse(refusal));
                    refused.push(place);
                }
            }
        }
        self.logged += taken;
        self.record(group, &listed, &refused, &arrival);
        if let Some(group) = self.groups.get_mut(group) {
            (group.cohorts, group.at) = (listed, aim.at);
        }
        taken
    }

    /// Adds a value to the buffers of a cohort: to all or, if a limit is reached, to none. Returns how many they are.
    #[inline]
    fn add(
        &mut self,
        number: u32,
        arrival: &Arrival,
        limits: &Limits,
        aim: &mut Aim,
    ) -> Result<u64, (Refusal, u64)> {
        let Some(cohort) = self.cohorts.get_mut(number) else { return Err((Refusal::NoBuffer, 1)) };
        let members = cohort.len();
        if cohort.is_kept && self.values + members > limits.values_max {
            return Err((Refusal::Values, members));
        }
        let start = aim.start(arrival.timestamp, cohort.frequency);
        let segment = self.log.segment();
        if cohort.intervals.get(aim.at).is_none_or(|interval| interval.start != start) {
            aim.at = match cohort.find(start) {
                Ok(at) => at,
                Err(_) if self.open + members > limits.open_max => {
                    return Err((Refusal::Intervals, members));
                }
                Err(at) => {
                    self.open += members;
                    if cohort.intervals.is_empty() {
                        self.active += members;
                        cohort.due_ms = arrival.now_ms + cohort.pause_ms(limits);
                        self.due.push(Reverse((cohort.due_ms, number)));
                    }
                    cohort.intervals.insert(at, Interval::new(start, segment));
                    at
                }
            };
        }
        cohort.intervals[aim.at].add(arrival.value, cohort.is_kept);
        if cohort.is_kept {
            self.values += members;
        }
        if cohort.named_in != segment {
            self.name_members(number);
        }
        Ok(members)
    }

    #[inline]
    fn is_beginning_alone(&self, number: u32) -> bool {
        self.cohorts.get(number).is_some_and(|cohort| cohort.is_alone && cohort.intervals.is_empty())
    }

    /// Gives the only buffer of a cohort the frequency and method of the rule that feeds it now. `before` are the
    /// cohorts of the group that had the value before.
    #[cold]
    fn follow(&mut self, number: u32, group: u32, before: &[u32], rules: &[AggregationRule]) {
        let Some(cohort) = self.cohorts.get_mut(number) else { return };
        let Some(member) = cohort.members.first().copied() else { return };
        let times = before.iter().filter(|other| **other == number).count();
        let Some(group) = self.groups.get_mut(group) else { return };
        let mut ways = group.ways.iter().filter(|way| way.buffer == member);
        let Some(rule) = ways.nth(times).and_then(|way| rules.get(way.rule as usize)) else { return };
        if let Some(buffer) = self.slots.get_mut(member as usize).and_then(Option::as_mut)
            && !buffer.is_of(rule)
        {
            buffer.follow(rule);
            (cohort.frequency, cohort.is_kept, cohort.named_in) = (rule.frequency, is_kept(rule.method), 0);
        }
    }

    /// Writes a value to the log: one record for the whole group, unless some of its buffers have refused the value.
    #[inline]
    fn record(&mut self, group: u32, listed: &[u32], refused: &[usize], arrival: &Arrival) {
        let Arrival { timestamp, value, .. } = *arrival;
        if !refused.is_empty() {
            for (place, number) in listed.iter().enumerate() {
                let taker = self.cohorts.get(*number).filter(|_| refused.binary_search(&place).is_err());
                for member in taker.iter().flat_map(|cohort| &cohort.members) {
                    self.log.value(*member, timestamp, value);
                }
            }
            return;
        }
        let (number, segment) = (self.groups.number(group), self.log.segment());
        let Some(group) = self.groups.get_mut(group) else { return };
        if let [way] = *group.ways {
            return self.log.value(way.buffer, timestamp, value);
        }
        if group.is_new_in(segment) {
            self.log.name_group(number, &groups::text(&group.ways));
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
