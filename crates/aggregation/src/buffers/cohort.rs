//! Cohorts: buffers that get the same values and therefore share their intervals.

use std::collections::BTreeSet;

use plumbago_model::rules::RuleMethod;

use super::{Buffer, Computed, Limits};
use crate::interval::Interval;

/// Buffers that share their intervals. Each buffer is in one cohort, which may have no other buffer.
#[derive(Debug)]
pub(super) struct Cohort {
    /// The numbers of the buffers. Those of lower percentiles are first.
    pub(super) members: Vec<u32>,
    /// The length of an interval in seconds.
    pub(super) frequency: u32,
    /// Whether the intervals keep their values, for percentiles. All methods of the members need this, or none does.
    pub(super) is_kept: bool,
    /// The open intervals, sorted by their starts.
    pub(super) intervals: Vec<Interval>,
    pub(super) due_ms: i64,
    /// The newest segment of the log that names all members; 0 for none.
    pub(super) named_in: u32,
    /// Whether the rules of the members were removed. The members are then computed once more and closed.
    pub(super) is_retired: bool,
    /// Whether rules with other frequencies or methods feed the only member. It then shares with no other.
    pub(super) is_alone: bool,
    /// The positions of the groups that list this cohort.
    pub(super) groups: Vec<u32>,
}

/// Memory that is reused from one computation to the next.
#[derive(Default)]
pub(super) struct Scratch {
    /// The values of an interval.
    sorted: Vec<f64>,
    /// The results: those of all members for one interval, then those for the next.
    results: Vec<f64>,
}

impl Cohort {
    pub(super) fn new(buffer: u32, frequency: u32, method: RuleMethod) -> Self {
        Self {
            members: vec![buffer],
            frequency,
            is_kept: is_kept(method),
            intervals: Vec::new(),
            due_ms: i64::MIN,
            named_in: 0,
            is_retired: false,
            is_alone: false,
            groups: Vec::new(),
        }
    }

    /// The number of buffers.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.members.len() as u64
    }

    /// The position of the interval with this start; the error is where it would be.
    #[inline]
    pub(super) fn find(&self, start: u32) -> Result<usize, usize> {
        self.intervals.binary_search_by_key(&start, |interval| interval.start)
    }

    pub(super) fn is_due_at(&self, due_ms: i64) -> bool {
        self.due_ms == due_ms && !self.intervals.is_empty()
    }

    /// Milliseconds between two computations.
    pub(super) fn pause_ms(&self, limits: &Limits) -> i64 {
        let frequency = i64::from(self.frequency) * 1000;
        if limits.write_back_ms > 0 { frequency.min(limits.write_back_ms) } else { frequency }
    }

    /// Emits each interval of each member that has changed, and marks intervals that are too old to be kept, as
    /// carbon does.
    pub(super) fn compute(
        &mut self,
        buffers: &[Option<Buffer>],
        now_ms: i64,
        limits: &Limits,
        scratch: &mut Scratch,
        computed: &mut Computed,
    ) {
        let members: Vec<(u32, &Buffer)> = self
            .members
            .iter()
            .filter_map(|number| Some((*number, buffers.get(*number as usize)?.as_ref()?)))
            .collect();
        self.emit(&members, scratch, computed);
        let frequency = i64::from(self.frequency);
        let now = now_ms.div_euclid(1000);
        let oldest = now - now.rem_euclid(frequency) - i64::from(limits.max_intervals) * frequency;
        for interval in &mut self.intervals {
            interval.is_active = false;
            if self.is_retired || i64::from(interval.start) < oldest {
                interval.is_closing = true;
                computed.closing.extend(members.iter().map(|(number, _)| (*number, interval.start)));
            }
        }
        // Missed computations are not done later.
        let pause_ms = self.pause_ms(limits);
        self.due_ms += pause_ms;
        if self.due_ms <= now_ms {
            self.due_ms = now_ms + pause_ms;
        }
    }

    fn emit(&self, members: &[(u32, &Buffer)], scratch: &mut Scratch, computed: &mut Computed) {
        let active = || self.intervals.iter().filter(|interval| interval.is_active);
        let Scratch { sorted, results } = scratch;
        results.clear();
        for interval in active() {
            let mut ranks = interval.ranks(sorted);
            results.extend(members.iter().map(|(_, buffer)| interval.value(buffer.method, &mut ranks)));
        }
        for (place, (_, buffer)) in members.iter().enumerate() {
            let values = results.iter().skip(place).step_by(members.len());
            for (interval, value) in active().zip(values) {
                if value.is_nan() {
                    computed.nan += 1;
                } else {
                    computed.points.push(&buffer.name, interval.start, *value);
                }
            }
        }
    }
}

/// Whether the method needs all values.
pub(super) fn is_kept(method: RuleMethod) -> bool {
    matches!(method, RuleMethod::Percentile(_))
}

/// All cohorts, by their numbers.
#[derive(Default)]
pub(super) struct Cohorts {
    slots: Vec<Option<Cohort>>,
    /// The numbers that no cohort has, less than [`Cohorts::end`].
    free: BTreeSet<u32>,
}

impl Cohorts {
    /// Adds a cohort that the log does not know yet. Returns its number.
    pub(super) fn insert(&mut self, cohort: Cohort) -> u32 {
        let free = self.free.pop_first();
        self.put(free, cohort)
    }

    /// Adds a cohort with a number greater than `number`. Returns its number.
    pub(super) fn insert_after(&mut self, number: u32, cohort: Cohort) -> u32 {
        let free = self.free.range(number + 1..).next().copied();
        if let Some(free) = free {
            self.free.remove(&free);
        }
        self.put(free, cohort)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Cohort> {
        self.slots.get(number as usize).and_then(Option::as_ref)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Cohort> {
        self.slots.get_mut(number as usize).and_then(Option::as_mut)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Cohort> {
        let cohort = self.slots.get_mut(number as usize)?.take()?;
        self.free.insert(number);
        Some(cohort)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cohort> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Cohort)> {
        let numbered = self.slots.iter_mut().enumerate();
        numbered.filter_map(|(number, slot)| Some((number as u32, slot.as_mut()?)))
    }

    /// Numbers of cohorts are less than this.
    pub(super) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Gives a cohort this number, or one greater than all others.
    fn put(&mut self, free: Option<u32>, cohort: Cohort) -> u32 {
        match free {
            Some(number) => {
                self.slots[number as usize] = Some(cohort);
                number
            }
            None => {
                self.slots.push(Some(cohort));
                self.slots.len() as u32 - 1
            }
        }
    }
}
