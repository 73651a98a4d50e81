//! Combines several values into one: those of one bucket, or those of several series at one time.

use crate::kairos::Amount;
use crate::statistics::{at_position, squares, sum};

/// A function from values to one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregator {
    /// The sum.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The mean.
    Avg,
    /// The standard deviation of a population.
    Dev,
    /// The number of series that have begun and have not ended.
    Count,
    /// Every series on its own.
    None,
    /// The sum, where a missing value is 0.
    ZimSum,
    /// The smallest value; series without a value do not count.
    MimMin,
    /// The largest value; series without a value do not count.
    MimMax,
    /// The value of the first series, where a missing value is 0.
    First,
    /// The value of the last series, where a missing value is 0.
    Last,
    /// The upper of the two middle values.
    Median,
    /// A percentile, above 0 and below 100.
    Percentile(f64),
}

/// All aggregators by their names, sorted.
pub const AGGREGATORS: [(&str, Aggregator); 19] = [
    ("avg", Aggregator::Avg),
    ("count", Aggregator::Count),
    ("dev", Aggregator::Dev),
    ("first", Aggregator::First),
    ("last", Aggregator::Last),
    ("max", Aggregator::Max),
    ("median", Aggregator::Median),
    ("mimmax", Aggregator::MimMax),
    ("mimmin", Aggregator::MimMin),
    ("min", Aggregator::Min),
    ("none", Aggregator::None),
    ("p50", Aggregator::Percentile(50.0)),
    ("p75", Aggregator::Percentile(75.0)),
    ("p90", Aggregator::Percentile(90.0)),
    ("p95", Aggregator::Percentile(95.0)),
    ("p99", Aggregator::Percentile(99.0)),
    ("p999", Aggregator::Percentile(99.9)),
    ("sum", Aggregator::Sum),
    ("zimsum", Aggregator::ZimSum),
];

impl Aggregator {
    /// The aggregator with this name.
    pub fn named(name: &str) -> Option<Self> {
        AGGREGATORS.iter().find(|(known, _)| *known == name).map(|(_, aggregator)| *aggregator)
    }

    /// Combines values, of which there is at least one. NaN values are ignored; if all values are NaN, the
    /// result is NaN. May change the order of `values`.
    pub(super) fn fold(self, values: &mut Vec<f64>) -> f64 {
        match self {
            Self::First | Self::None => return values.first().copied().unwrap_or(f64::NAN),
            Self::Last => return values.last().copied().unwrap_or(f64::NAN),
            _ => {}
        }
        if values.iter().any(|value| value.is_nan()) {
            values.retain(|value| !value.is_nan());
        }
        if self == Self::Count {
            return values.len() as f64;
        }
        if values.is_empty() {
            return f64::NAN;
        }
        let sum = || sum(values.iter().copied());
        match self {
            Self::Sum | Self::ZimSum => sum(),
            Self::Avg => sum() / values.len() as f64,
            Self::Min | Self::MimMin => values.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Max | Self::MimMax => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Dev => (squares(values.iter().copied()) / values.len() as f64).sqrt(),
            Self::Median => {
                values.sort_unstable_by(f64::total_cmp);
                values[values.len() / 2]
            }
            Self::Percentile(percent) => {
                let position = percent * (values.len() + 1) as f64 / 100.0;
                at_position(values, position)
            }
            Self::First | Self::Last | Self::None | Self::Count => f64::NAN,
        }
    }

    /// Combines the points of one series in one bucket, of which there is at least one. Slots of a coarse
    /// stage count with all their points in sums, means and counts. A deviation is computed from the means of
    /// the slots.
    pub(super) fn fold_slots(self, slots: &[Amount]) -> f64 {
        // For points, the results equal those of OpenTSDB to the last bit.
        let is_coarse = slots.iter().any(|slot| slot.count != 1);
        let counts = || slots.iter().map(|slot| f64::from(slot.count));
        let count = || sum(counts());
        let total = || sum(slots.iter().map(|slot| slot.sum));
        match self {
            Self::Sum | Self::ZimSum if is_coarse => total(),
            Self::Count if is_coarse => count(),
            Self::Avg if is_coarse => total() / count(),
            Self::Dev if is_coarse => {
                let mean = total() / count();
                let means = slots.iter().map(|slot| slot.sum / f64::from(slot.count));
                let squares = means.zip(counts()).map(|(value, count)| count * (value - mean).powi(2));
                (sum(squares) / count()).sqrt()
            }
            _ => self.fold(&mut slots.iter().map(|slot| slot.value).collect()),
        }
    }

    /// The value of a series at `x`, between its points `from` and `to`.
    pub(super) fn between(self, x: i64, from: (i64, f64), to: (i64, f64)) -> f64 {
        match self {
            Self::ZimSum | Self::Count | Self::First | Self::Last | Self::None => 0.0,
            // As in OpenTSDB, the neutral value takes part.
            Self::MimMin => f64::MAX,
            Self::MimMax => f64::MIN,
            _ => from.1 + (x - from.0) as f64 * (to.1 - from.1) / (to.0 - from.0) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_folded() {
        let fold = |name: &str, values: &[f64]| Aggregator::named(name).unwrap().fold(&mut values.to_vec());
        let values = [4.0, 1.0, 3.0, f64::NAN, 2.0];
        for (name, expected) in [
            ("sum", 10.0),
            ("zimsum", 10.0),
            ("min", 1.0),
            ("mimmin", 1.0),
            ("max", 4.0),
            ("mimmax", 4.0),
            ("avg", 2.5),
            ("count", 4.0),
            ("first", 4.0),
            ("last", 2.0),
            ("median", 3.0),
            ("p50", 2.5),
            ("p75", 3.75),
            ("p999", 4.0),
        ] {
            assert_eq!(fold(name, &values), expected, "{name}");
        }
        // The deviation of the population 2, 4, 4, 4, 5, 5, 7, 9 is 2.
        assert_eq!(fold("dev", &[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.0);
        assert_eq!(fold("dev", &[5.0]), 0.0);
        assert!(fold("sum", &[f64::NAN]).is_nan() && fold("count", &[f64::NAN]) == 0.0);
        assert!(AGGREGATORS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(Aggregator::named("SUM").is_none() && Aggregator::named("mult").is_none());
    }

    #[test]
    fn coarse_slots_count_with_all_their_points() {
        let slot = |mean: f64, count: u32| Amount { value: mean, sum: mean * f64::from(count), count };
        let fold = |name: &str, slots: &[Amount]| Aggregator::named(name).unwrap().fold_slots(slots);
        let slots = [slot(1.0, 9), slot(5.0, 1)];
        for (name, expected) in [
            ("avg", 1.4),
            ("sum", 14.0),
            ("zimsum", 14.0),
            ("count", 10.0),
            ("max", 5.0),
            ("last", 5.0),
            ("dev", 1.2),
        ] {
            assert!((fold(name, &slots) - expected).abs() < 1e-12, "{name}: {}", fold(name, &slots));
        }
        // The value of a slot of a sum is the sum.
        let sums = [Amount { value: 9.0, sum: 9.0, count: 9 }, Amount::from(5.0)];
        assert_eq!((fold("avg", &sums), fold("sum", &sums)), (1.4, 14.0));
        let points = [0.1, 0.2, 0.3].map(Amount::from);
        for (name, aggregator) in AGGREGATORS {
            let values = aggregator.fold(&mut vec![0.1, 0.2, 0.3]);
            assert_eq!(fold(name, &points).to_bits(), values.to_bits(), "{name}");
        }
    }

    #[test]
    fn what_is_missing_between_two_points() {
        let between = |name: &str| Aggregator::named(name).unwrap().between(25, (20, 10.0), (40, 30.0));
        for name in ["sum", "min", "max", "avg", "dev", "median", "p95"] {
            assert_eq!(between(name), 15.0, "{name}");
        }
        for name in ["zimsum", "count", "first", "last"] {
            assert_eq!(between(name), 0.0, "{name}");
        }
        assert_eq!((between("mimmin"), between("mimmax")), (f64::MAX, f64::MIN));
    }
}
