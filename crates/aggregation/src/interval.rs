//! One interval of a cohort: the values that arrived for it, folded in every way that its buffers may need.

use plumbago_model::rules::RuleMethod;

/// The number of ways in which an interval folds its values.
pub(crate) const FOLDS: usize = 3;
const SUM: usize = 0;
const MIN: usize = 1;
const MAX: usize = 2;

/// An open interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interval {
    /// The start, in seconds since the epoch.
    pub(crate) start: u32,
    /// The number of values that arrived for the interval.
    pub(crate) count: u32,
    /// The sum, minimum and maximum of the values. After a start, only those that a buffer needs are right.
    folds: [f64; FOLDS],
    /// All values, for percentiles.
    values: Vec<f64>,
    /// Whether values have arrived since the last computation.
    pub(crate) is_active: bool,
    /// Whether the interval is too old to be kept, and its last value is on its way to the store.
    pub(crate) is_closing: bool,
    /// The oldest segment of the log that has records of it.
    pub(crate) segment: u32,
}

/// Which of the folds of an interval the method needs; `None` if none.
pub(crate) fn fold(method: RuleMethod) -> Option<usize> {
    match method {
        RuleMethod::Sum | RuleMethod::Avg => Some(SUM),
        RuleMethod::Min => Some(MIN),
        RuleMethod::Max => Some(MAX),
        RuleMethod::Count | RuleMethod::Percentile(_) => None,
    }
}

impl Interval {
    pub(crate) fn new(start: u32, segment: u32) -> Self {
        Self {
            start,
            count: 0,
            folds: [0.0; FOLDS],
            values: Vec::new(),
            is_active: true,
            is_closing: false,
            segment,
        }
    }

    /// Makes an interval from the state that [`Interval::state`] returned before.
    pub(crate) fn restored(start: u32, method: RuleMethod, count: u32, state: Vec<f64>) -> Self {
        let mut interval = Self { count, ..Self::new(start, 0) };
        match fold(method) {
            Some(fold) => interval.folds[fold] = state.first().copied().unwrap_or_default(),
            None => interval.values = state,
        }
        interval
    }

    /// Adds a value. `is_kept` says whether it is kept for percentiles.
    #[inline]
    pub(crate) fn add(&mut self, value: f64, is_kept: bool) {
        if is_kept {
            self.values.push(value);
        } else {
            // Adds in the order of arrival, starting from zero, as Python's `sum` does.
            self.folds[SUM] += value;
            if self.count == 0 || value < self.folds[MIN] {
                self.folds[MIN] = value;
            }
            if self.count == 0 || value > self.folds[MAX] {
                self.folds[MAX] = value;
            }
        }
        self.count = self.count.saturating_add(1);
        self.is_active = true;
        self.is_closing = false;
    }

    /// The value of the interval. `ranks` are those of this interval.
    pub(crate) fn value(&self, method: RuleMethod, ranks: &mut Ranks<'_>) -> f64 {
        match method {
            RuleMethod::Sum => self.folds[SUM],
            RuleMethod::Min => self.folds[MIN],
            RuleMethod::Max => self.folds[MAX],
            RuleMethod::Avg => self.folds[SUM] / f64::from(self.count),
            RuleMethod::Count => f64::from(self.count),
            RuleMethod::Percentile(thousandths) => ranks.percentile(thousandths),
        }
    }

    /// Prepares the computation of percentiles. `scratch` is a reusable buffer.
    pub(crate) fn ranks<'a>(&'a self, scratch: &'a mut Vec<f64>) -> Ranks<'a> {
        scratch.clear();
        scratch.extend_from_slice(&self.values);
        Ranks { values: &self.values, partly_sorted: scratch, settled: 0, last: None }
    }

    /// The numbers that, together with the count, describe the whole state.
    pub(crate) fn state(&self, method: RuleMethod) -> &[f64] {
        match (method, fold(method)) {
            (_, Some(fold)) => std::slice::from_ref(&self.folds[fold]),
            (RuleMethod::Percentile(_), None) => &self.values,
            (_, None) => &[],
        }
    }

    /// The number of values that are kept in memory.
    pub(crate) fn kept(&self) -> u64 {
        self.values.len() as u64
    }

    /// Whether both intervals have the same state. Only the folds that are set in `folds` are compared.
    pub(crate) fn agrees(&self, other: &Self, folds: [bool; FOLDS]) -> bool {
        let are_same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        (self.start, self.count, self.is_active, self.is_closing)
            == (other.start, other.count, other.is_active, other.is_closing)
            && (0..FOLDS).all(|at| !folds[at] || are_same((&self.folds[at], &other.folds[at])))
            && self.values.len() == other.values.len()
            && self.values.iter().zip(&other.values).all(are_same)
    }

    /// Takes those folds of the other interval that are set in `folds`, and its records in the log.
    pub(crate) fn adopt(&mut self, other: &Self, folds: [bool; FOLDS]) {
        for at in (0..FOLDS).filter(|at| folds[*at]) {
            self.folds[at] = other.folds[at];
        }
        self.segment = self.segment.min(other.segment);
    }
}

/// Computes percentiles of one interval. Does the same operations in the same order as carbon, so that the results
/// are equal to the last bit. Carbon sorts all values; here only those that are needed are selected, which takes the
/// least time if lower percentiles are asked for first.
pub(crate) struct Ranks<'a> {
    /// In the order of arrival.
    values: &'a [f64],
    /// The same values. The last of the first `settled` ones is where it would be if all were sorted; none before it
    /// is greater, none after it is less.
    partly_sorted: &'a mut [f64],
    settled: usize,
    /// The percentile that was computed last, in thousandths, and its value.
    last: Option<(u16, f64)>,
}

impl Ranks<'_> {
    fn percentile(&mut self, thousandths: u16) -> f64 {
        match self.last {
            Some((last, value)) if last == thousandths => value,
            _ => {
                let value = self.compute(thousandths);
                self.last = Some((thousandths, value));
                value
            }
        }
    }

    fn compute(&mut self, thousandths: u16) -> f64 {
        let Some(last) = self.values.len().checked_sub(1) else { return f64::NAN };
        let rank = f64::from(thousandths) / 1000.0 * last as f64;
        let (left, right) = (rank.floor(), rank.ceil());
        let at = (left as usize).min(last);
        let values = self.values;
        let (low, above) = self.select(at);
        let low = by_arrival(values, at, low);
        if left == right {
            return low;
        }
        let high = above.iter().copied().fold(f64::INFINITY, f64::min);
        low * (right - rank) + by_arrival(values, at + 1, high) * (rank - left)
    }

    /// The element at position `at` of the sorted values, and all elements after it in any order.
    fn select(&mut self, at: usize) -> (f64, &[f64]) {
        if at + 1 < self.settled {
            self.settled = 0;
        }
        if at >= self.settled {
            self.partly_sorted[self.settled..].select_nth_unstable_by(at - self.settled, f64::total_cmp);
            self.settled = at + 1;
        }
        (self.partly_sorted[at], &self.partly_sorted[at + 1..])
    }
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
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the percentile as carbon does, from the sorted values.
    pub(crate) fn sorted_percentile(thousandths: u16, values: &[f64]) -> f64 {
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
            let mut interval = Interval::new(60, 1);
            values.iter().for_each(|value| interval.add(*value, true));
            let mut scratch = vec![9.0];
            let mut ranks = interval.ranks(&mut scratch);
            // In ascending order, twice each, and then in descending order.
            let methods = RuleMethod::ALL;
            let orders = methods.iter().flat_map(|method| [method; 2]).chain(methods.iter().rev());
            for (name, method) in orders {
                let RuleMethod::Percentile(thousandths) = *method else { continue };
                let expected = sorted_percentile(thousandths, &values);
                let found = interval.value(*method, &mut ranks);
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
            let is_kept = matches!(method, RuleMethod::Percentile(_));
            [0.1, 0.2, -4.0, 7.0].into_iter().for_each(|value| interval.add(value, is_kept));
            let mut scratch = vec![9.0];
            let value = interval.value(method, &mut interval.ranks(&mut scratch));
            assert_eq!(value.to_bits(), f64::to_bits(expected), "{method:?}");
            let restored = Interval::restored(60, method, interval.count, interval.state(method).to_vec());
            let value = restored.value(method, &mut restored.ranks(&mut scratch));
            assert_eq!(value.to_bits(), f64::to_bits(expected), "{method:?}");
        }
    }
}
