//! What happens to buffers at a reload and at a start.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use plumbago_model::rules::AggregationRule;

use super::{Buffer, Buffers};
use crate::interval::Interval;
use crate::restore::Restored;

impl Buffers {
    /// Applies new rules. Buffers whose rule was removed get no further values and are due at once. Buffer
    /// numbers and groups from before this call are no longer valid.
    pub(crate) fn retain(&mut self, rules: &[AggregationRule], now_ms: i64) {
        self.forget_empty();
        for number in 0..self.cohorts.end() {
            self.retire(number, rules, now_ms);
        }
        self.resume(rules);
    }

    /// Retires the members of a cohort whose rule was removed.
    fn retire(&mut self, number: u32, rules: &[AggregationRule], now_ms: i64) {
        let Some(cohort) = self.cohorts.get(number).filter(|cohort| !cohort.is_retired) else { return };
        let mut removed = Vec::new();
        for member in &cohort.members {
            let buffer = self.slots.get(*member as usize).and_then(Option::as_ref);
            if let Some(buffer) = buffer.filter(|buffer| !rules.iter().any(|rule| buffer.is_of(rule))) {
                self.by_name.remove(&buffer.name);
                removed.push(*member);
            }
        }
        if removed.is_empty() {
            return;
        }
        removed.sort_unstable();
        let part = self.part(number, &removed);
        if let Some(cohort) = self.cohorts.get_mut(part) {
            cohort.is_retired = true;
            cohort.due_ms = now_ms;
            self.due.push(Reverse((now_ms, part)));
        }
    }

    /// Keeps the retired buffers whose rule was added again before they were closed. Otherwise there would be
    /// two open buffers with the same key.
    fn resume(&mut self, rules: &[AggregationRule]) {
        let mut resumed: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, slot) in self.slots.iter().enumerate() {
            let Some(buffer) = slot.as_ref().filter(|buffer| self.is_retired(buffer)) else { continue };
            if rules.iter().any(|rule| buffer.is_of(rule)) && !self.by_name.contains_key(&buffer.name) {
                self.by_name.insert(buffer.name.clone(), number as u32);
                resumed.entry(buffer.cohort).or_default().push(number as u32);
            }
        }
        for (number, members) in resumed {
            let part = self.part(number, &members);
            if let Some(cohort) = self.cohorts.get_mut(part) {
                cohort.is_retired = false;
                cohort.intervals.iter_mut().for_each(|interval| interval.is_closing = false);
            }
        }
    }

    fn is_retired(&self, buffer: &Buffer) -> bool {
        self.cohorts.get(buffer.cohort).is_some_and(|cohort| cohort.is_retired)
    }

    /// Removes buffers without open intervals, and all groups. Their numbers are no longer valid.
    pub(crate) fn forget_empty(&mut self) {
        self.groups.clear();
        for number in 0..self.cohorts.end() {
            let Some(cohort) = self.cohorts.get_mut(number) else { continue };
            cohort.groups = Vec::new();
            if cohort.intervals.is_empty() {
                self.remove(number);
            }
        }
    }

    /// Takes the open intervals of an earlier run. All of their buffers are due. Those with the same intervals share
    /// them once a group has them.
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
                cohort: u32::MAX,
            };
            let Some(number) = self.insert(buffer) else { return };
            let Some((cohort_number, cohort)) = self.new_cohort(number) else { return };
            (cohort.intervals, cohort.due_ms, cohort.is_retired) = (intervals, now_ms, is_retired);
            self.due.push(Reverse((now_ms, cohort_number)));
            if !is_retired {
                self.by_name.insert(key.name.into(), number);
            }
            self.open += open;
            self.values += kept;
            self.active += 1;
        }
    }
}
