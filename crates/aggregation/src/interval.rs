//! One interval of a buffer: the values that arrived for it, folded as far as the method allows.

use plumbago_model::rules::RuleMethod;

/// An open interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interval {
    /// The start, in seconds since the epoch.
    pub(crate) start: u32,
    /// The number of values that arrived for the interval.
    pub(crate) count: u32,
    /// The sum, minimum or maximum of the values.
    folded: f64,
    /// All values, for percentiles.
    values: Vec<f64>,
    /// Whether values have arrived since the last computation.
    pub(crate) is_active: bool,
    /// Whether the interval is too old to be kept, and its last value is on its way to the store.
    pub(crate) is_closing: bool,
    /// The oldest segment of the log that has records of it.
    pub(crate) segment: u32,
}

impl Interval {
    pub(crate) fn new(start: u32, segment: u32) -> Self {
        Self { start, count: 0, folded: 0.0, values: Vec::new(), is_active: true, is_closing: false, segment }
    }

    /// Makes an interval from the state that [`Interval::state`] returned before.
    pub(crate) fn restored(start: u32, method: RuleMethod, count: u32, state: Vec<f64>) -> Self {
        let mut interval = Self { count, ..Self::new(start, 0) };
        match method {
            RuleMethod::Percentile(_) => interval.values = state,
            _ => interval.folded = state.first().copied().unwrap_or_default(),
        }
        interval
    }

    /// Adds a value.
    #[inline]
    pub(crate) fn add(&mut self, method: RuleMethod, value: f64) {
        match method {
            // Adds in the order of arrival, starting from zero, as Python's `sum` does.
            RuleMethod::Sum | RuleMethod::Avg => self.folded += value,
            RuleMethod::Min if self.count == 0 || value < self.folded => self.folded = value,
            RuleMethod::Max if self.count == 0 || value > self.folded => self.folded = value,
            RuleMethod::Percentile(_) => self.values.push(value),
            RuleMethod::Min | RuleMethod::Max | RuleMethod::Count => {}
        }
        self.count = self.count.saturating_add(1);
        self.is_active = true;
        self.is_closing = false;
    }

    /// The value of the interval. `scratch` is a reusable buffer for the computation.
    pub(crate) fn value(&self, method: RuleMethod, scratch: &mut Vec<f64>) -> f64 {
        match method {
            RuleMethod::Sum | RuleMethod::Min | RuleMethod::Max => self.folded,
            RuleMethod::Avg => self.folded / f64::from(self.count),
            RuleMethod::Count => f64::from(self.count),
            RuleMethod::Percentile(thousandths) => percentile(thousandths, &self.values, scratch),
        }
    }

    /// The numbers that, together with the count, describe the whole state.
    pub(crate) fn state(&self, method: RuleMethod) -> &[f64] {
        match method {
            RuleMethod::Percentile(_) => &self.values,
            RuleMethod::Count => &[],
            _ => std::slice::from_ref(&self.folded),
        }
    }

    /// The number of values that are kept in memory.
    pub(crate) fn kept(&self) -> u64 {
        self.values.len() as u64
    }
}

/// Does the same operations in the same order as carbon, so that the results are equal to the last bit.
/// Carbon sorts all values; here only the one or two that are needed are selected.
fn percentile(thousandths: u16, values: &[f64], scratch: &mut Vec<f64>) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let rank = f64::from(thousandths) / 1000.0 * last as f64;
    let (left, right) = (rank.floor(), rank.ceil());
    let at = (left as usize).min(last);
    scratch.clear();
    scratch.extend_from_slice(values);
    let (_, low, above) = scratch.select_nth_unstable_by(at, f64::total_cmp);
    let low = by_arrival(values, at, *low);
    if left == right {
        return low;
    }
    let high = above.iter().copied().fold(f64::INFINITY, f64::min);
    low * (right - rank) + by_arrival(values, at + 1, high) * (rank - left)
}

/// The element at position `at` of the sorted values, which compares as equal to `value`. Python's sort is
/// stable, and 0.0 and -0.0 compare as equal, so zeros stay in the order of arrival.
fn by_arrival(values: &[f64], at: usize, value: f64) -> f64 {
    if value != 0.0 {
        return value;
    }
    let below = values.iter().filter(|value| **value < 0.0).count();
    let mut zeros = values.iter().filter(|value| **value == 0.0);
    zeros.nth(at.saturating_sub(below)).copied().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the percentile as carbon does, from the sorted values.
    fn sorted_percentile(thousandths: u16, values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let rank = f64::from(thousandths) / 1000.0 * (sorted.len() - 1) as f64;
        let (left, right) = (rank.floor(), rank.ceil());
        let value = |rank: f64| sorted[rank as usize];
        if left == right { value(left) } else { value(left) * (right - rank) + value(right) * (rank - left) }
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_a_stable_sort(
            values in prop::collection::vec(
                prop_oneof![
                    Just(0.0_f64), Just(-0.0), Just(f64::MIN_POSITIVE), Just(f64::INFINITY), Just(f64::NEG_INFINITY),
                    -3.0..3.0_f64, (-3..3_i8).prop_map(f64::from),
                ],
                1..60,
            ),
        ) {
            let mut scratch = Vec::new();
            for (name, method) in RuleMethod::ALL {
                let RuleMethod::Percentile(thousandths) = method else { continue };
                let expected = sorted_percentile(thousandths, &values);
                let found = percentile(thousandths, &values, &mut scratch);
                let is_same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                prop_assert!(is_same, "{name}: {found} and {expected}");
            }
        }
    }

    #[test]
    fn values_are_those_of_carbon() {
        for (method, expected) in [
            ("sum", 0.1 + 0.2 + -4.0 + 7.0),
            ("avg", (0.1 + 0.2 + -4.0 + 7.0) / 4.0),
            ("min", -4.0),
            ("max", 7.0),
            ("count", 4.0),
            ("p50", 0.1 * 0.5 + 0.2 * 0.5),
            ("p999", 0.2 * (3.0 - 0.999 * 3.0) + 7.0 * (0.999 * 3.0 - 2.0)),
        ] {
            let method = RuleMethod::named(method).unwrap();
            let mut interval = Interval::new(60, 1);
            [0.1, 0.2, -4.0, 7.0].into_iter().for_each(|value| interval.add(method, value));
            let mut scratch = vec![9.0];
            assert_eq!(interval.value(method, &mut scratch).to_bits(), f64::to_bits(expected), "{method:?}");
            let restored = Interval::restored(60, method, interval.count, interval.state(method).to_vec());
            assert_eq!(restored.value(method, &mut scratch).to_bits(), f64::to_bits(expected), "{method:?}");
        }
    }
}
