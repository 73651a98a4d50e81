//! Decides which buffers share their intervals: divides and joins cohorts when a group is new.
//!
//! A point reaches all members of a cohort or none. So a group that has only some of the members divides the cohort:
//! both parts go on from the same intervals. Buffers that no group has had so far join if their intervals have the
//! same state: new ones, which have none, and those that a start restored.

use std::cmp::Reverse;
use std::iter::repeat_n;

use plumbago_model::rules::{AggregationRule, RuleMethod};

use super::cohort::Cohort;
use super::{Buffer, Buffers};
use crate::groups::LISTED_BYTES;
use crate::interval::{self, FOLDS};
use crate::matcher::Way;

/// A cohort that may join others, and that others have joined.
struct Joint {
    number: u32,
    /// How often each of its buffers is in the group.
    times: usize,
    /// Which folds of the intervals the members need.
    folds: [bool; FOLDS],
}

impl Buffers {
    /// Returns the position of the group of these buffers, and the memory that it took if it is new.
    pub(crate) fn group(&mut self, ways: Vec<Way>, rules: &[AggregationRule]) -> (u32, usize) {
        if let Some(group) = self.groups.find(&ways) {
            return (group, 0);
        }
        let listed_before = self.listed;
        for way in &ways {
            self.set_apart(way.buffer, &rules[way.rule as usize]);
        }
        let parts = self.divide(&ways);
        let parts = self.unite(parts);
        let listed = parts.iter().flat_map(|(cohort, times)| repeat_n(*cohort, *times)).collect();
        let (group, bytes) = self.groups.insert(ways, listed);
        for (number, _) in parts {
            if let Some(cohort) = self.cohorts.get_mut(number) {
                cohort.groups.push(group);
            }
        }
        (group, bytes + LISTED_BYTES * (self.listed - listed_before))
    }

    /// Makes a buffer the only one of its cohort if it has taken another frequency or method than that of the rule.
    /// When it has no intervals, its next value decides which it takes.
    fn set_apart(&mut self, number: u32, rule: &AggregationRule) {
        let Some(buffer) = self.slots.get(number as usize).and_then(Option::as_ref) else { return };
        if !buffer.is_of(rule) {
            let part = self.part(buffer.cohort, &[number]);
            if let Some(cohort) = self.cohorts.get_mut(part) {
                cohort.is_alone = true;
            }
        }
    }

    /// Divides cohorts so that all members of a cohort are equally often among the buffers of these ways. Returns the
    /// cohorts of these buffers, each with the number of times.
    fn divide(&mut self, ways: &[Way]) -> Vec<(u32, usize)> {
        let mut numbers: Vec<u32> = ways.iter().map(|way| way.buffer).collect();
        numbers.sort_unstable();
        let of = |same: &[u32]| {
            let buffer = self.slots.get(same[0] as usize)?.as_ref()?;
            Some((buffer.cohort, same.len(), same[0]))
        };
        let mut touched: Vec<(u32, usize, u32)> = numbers.chunk_by(u32::eq).filter_map(of).collect();
        touched.sort_unstable();
        let mut parts = Vec::new();
        for part in touched.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let members: Vec<u32> = part.iter().map(|(_, _, buffer)| *buffer).collect();
            let (cohort, times, _) = part[0];
            parts.push((self.part(cohort, &members), times));
        }
        parts
    }

    /// Returns the number of a cohort with just these members of a cohort, and divides that if it has more.
    /// `members` are in ascending order.
    pub(super) fn part(&mut self, number: u32, members: &[u32]) -> u32 {
        let Some(whole) = self.cohorts.get_mut(number) else { return number };
        if whole.members.len() == members.len() {
            return number;
        }
        let is_chosen = |member: &u32| members.binary_search(member).is_ok();
        let mut chosen = Vec::with_capacity(members.len());
        chosen.extend(whole.members.iter().copied().filter(is_chosen));
        whole.members.retain(|member| !is_chosen(member));
        let (groups, intervals) = (whole.groups.clone(), whole.intervals.clone());
        let part = Cohort { members: chosen, groups: groups.clone(), intervals, ..*whole };
        let (due_ms, is_open) = (part.due_ms, !part.intervals.is_empty());
        // With a greater number, a rewrite of the log finds the part too, or has already written the intervals.
        let new = self.cohorts.insert_after(number, part);
        for group in groups {
            self.listed += self.groups.list_beside(group, number, new);
        }
        for member in members {
            if let Some(buffer) = self.slots.get_mut(*member as usize).and_then(Option::as_mut) {
                buffer.cohort = new;
            }
        }
        if is_open {
            self.due.push(Reverse((due_ms, new)));
        }
        new
    }

    /// Joins cohorts that will get the same values from now on and have the same state. Returns all in ascending order.
    fn unite(&mut self, mut parts: Vec<(u32, usize)>) -> Vec<(u32, usize)> {
        // Then the joint cohort is always the one with the greater number, and a join moves only the other's members.
        parts.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let (free, mut all): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(number, _)| self.cohorts.get(*number).is_some_and(is_free));
        let mut united: Vec<Joint> = Vec::new();
        for (number, times) in free {
            let part = Joint { number, times, folds: self.folds(number) };
            match united.iter_mut().find(|joint| self.can_join(joint, &part)) {
                Some(joint) => {
                    self.join(joint.number, &part);
                    joint.folds = std::array::from_fn(|at| joint.folds[at] || part.folds[at]);
                }
                None => united.push(part),
            }
        }
        for Joint { number, times, .. } in united {
            self.sort_members(number);
            all.push((number, times));
        }
        all.sort_unstable();
        all
    }

    fn can_join(&self, a: &Joint, b: &Joint) -> bool {
        let both: [bool; FOLDS] = std::array::from_fn(|at| a.folds[at] && b.folds[at]);
        let are_equally_often = a.times == b.times;
        let (Some(a), Some(b)) = (self.cohorts.get(a.number), self.cohorts.get(b.number)) else {
            return false;
        };
        are_equally_often
            && (a.frequency, a.is_kept, a.due_ms) == (b.frequency, b.is_kept, b.due_ms)
            && a.intervals.len() == b.intervals.len()
            && a.intervals.iter().zip(&b.intervals).all(|(a, b)| a.agrees(b, both))
    }

    /// Moves the members of a cohort to the cohort `number`, which must be greater: a rewrite of the log that has
    /// already passed the lower number must still find the records of the other.
    fn join(&mut self, number: u32, part: &Joint) {
        let Some(gone) = self.cohorts.remove(part.number) else { return };
        let Some(cohort) = self.cohorts.get_mut(number) else { return };
        for (interval, other) in cohort.intervals.iter_mut().zip(&gone.intervals) {
            interval.adopt(other, part.folds);
        }
        if cohort.named_in != gone.named_in {
            cohort.named_in = 0;
        }
        for member in &gone.members {
            if let Some(buffer) = self.slots.get_mut(*member as usize).and_then(Option::as_mut) {
                buffer.cohort = number;
            }
        }
        cohort.members.extend(gone.members);
    }

    fn sort_members(&mut self, number: u32) {
        if let Some(cohort) = self.cohorts.get_mut(number).filter(|cohort| cohort.is_kept) {
            let slots = &self.slots;
            cohort
                .members
                .sort_by_key(|member| slots.get(*member as usize).and_then(Option::as_ref).map(rank));
        }
    }

    /// Which folds of the intervals the members need.
    fn folds(&self, number: u32) -> [bool; FOLDS] {
        let mut folds = [false; FOLDS];
        for member in self.cohorts.get(number).iter().flat_map(|cohort| &cohort.members) {
            let buffer = self.slots.get(*member as usize).and_then(Option::as_ref);
            if let Some(fold) = buffer.and_then(|buffer| interval::fold(buffer.method)) {
                folds[fold] = true;
            }
        }
        folds
    }
}

/// Whether a cohort may still join another: no group has had it.
fn is_free(cohort: &Cohort) -> bool {
    cohort.groups.is_empty() && !cohort.is_alone && !cohort.is_retired
}

fn rank(buffer: &Buffer) -> u16 {
    match buffer.method {
        RuleMethod::Percentile(thousandths) => thousandths,
        _ => 0,
    }
}
