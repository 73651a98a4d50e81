//! Aggregation functions that arguments name. They reduce many values to one and ignore unknown values.

/// A function that reduces many values to one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Aggregate {
    Average,
    AvgZero,
    Median,
    Sum,
    Min,
    Max,
    Diff,
    StdDev,
    Count,
    Range,
    Multiply,
    Last,
    /// A percentile, interpolated between the two nearest values. carbonapi calls them `p50` to `p999`.
    Percentile(f64),
}

/// The names in the order of `/functions`: first the aggregations, then their aliases.
pub(crate) const NAMES: [(&str, Aggregate); 16] = [
    ("average", Aggregate::Average),
    ("avg_zero", Aggregate::AvgZero),
    ("median", Aggregate::Median),
    ("sum", Aggregate::Sum),
    ("min", Aggregate::Min),
    ("max", Aggregate::Max),
    ("diff", Aggregate::Diff),
    ("stddev", Aggregate::StdDev),
    ("count", Aggregate::Count),
    ("range", Aggregate::Range),
    ("multiply", Aggregate::Multiply),
    ("last", Aggregate::Last),
    ("rangeOf", Aggregate::Range),
    ("avg", Aggregate::Average),
    ("total", Aggregate::Sum),
    ("current", Aggregate::Last),
];

impl Aggregate {
    pub(crate) fn named(name: &str) -> Option<Self> {
        let plain = NAMES.iter().find(|(known, _)| *known == name).map(|(_, aggregate)| *aggregate);
        plain.or_else(|| percent(name.strip_prefix('p')?).map(Self::Percentile))
    }

    /// The aggregation with this name. Accepts `sumSeries` for `sum` and the like, as old dashboards write it.
    pub(crate) fn named_or_deprecated(name: &str) -> Option<Self> {
        Self::named(name.strip_suffix("Series").unwrap_or(name))
    }

    /// Reduces the values; NaN is unknown.
    pub(crate) fn of(self, values: &[f64]) -> f64 {
        let known = || values.iter().copied().filter(|value| !value.is_nan());
        match self {
            Self::Average => sum(known()) / known().count() as f64,
            Self::AvgZero => known().fold(0.0, |sum, value| sum + value) / values.len() as f64,
            Self::Median => median(known().collect()),
            Self::Sum => sum(known()),
            Self::Min => known().reduce(|a, b| if b < a { b } else { a }).unwrap_or(f64::NAN),
            Self::Max => known().reduce(|a, b| if b > a { b } else { a }).unwrap_or(f64::NAN),
            // In graphite-web this is a sum, which starts at 0.0, so that -0.0 becomes 0.0.
            Self::Diff => known().map(|value| 0.0 + value).reduce(|a, b| a - b).unwrap_or(f64::NAN),
            Self::StdDev => {
                let count = known().count() as f64;
                let mean = sum(known()) / count;
                (sum(known().map(|value| (value - mean) * (value - mean))) / count).sqrt()
            }
            Self::Count => known().count() as f64,
            Self::Range => Self::Max.of(values) - Self::Min.of(values),
            Self::Multiply if values.is_empty() => f64::NAN,
            Self::Multiply => values.iter().product(),
            Self::Percentile(percent) => percentile_between(known().collect(), percent),
            Self::Last => values.iter().rev().copied().find(|value| !value.is_nan()).unwrap_or(f64::NAN),
        }
    }

    /// Whether the result is an integer in graphite-web. The arguments say whether the values are integers,
    /// and how many are known. Python's divisions, products and ranges are floats.
    pub(crate) fn is_whole(self, are_whole: bool, count: usize) -> bool {
        match self {
            Self::Count => true,
            Self::Sum | Self::Min | Self::Max | Self::Diff | Self::Last => are_whole,
            Self::Median => are_whole && count % 2 == 1,
            _ => false,
        }
    }

    /// The value by which series are sorted: like [`Self::of`], but an unknown result is below all others.
    pub(crate) fn key(self, values: &[f64]) -> f64 {
        let value = self.of(values);
        if value.is_nan() { f64::NEG_INFINITY } else { value }
    }
}

/// Reads the number after the `p`: `99` and `99.9` as they are, `999` as 99.9.
fn percent(digits: &str) -> Option<f64> {
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut percent: f64 = digits.parse().ok()?;
    while percent.is_finite() && percent > 100.0 {
        percent /= 10.0;
    }
    (percent <= 100.0).then_some(percent)
}

/// The percentile, interpolated between two values; NaN if there are no values.
fn percentile_between(mut known: Vec<f64>, percent: f64) -> f64 {
    known.sort_unstable_by(f64::total_cmp);
    let place = percent / 100.0 * known.len().saturating_sub(1) as f64;
    match (known.get(place.floor() as usize), known.get(place.ceil() as usize)) {
        (Some(low), Some(high)) => low + (high - low) * place.fract(),
        _ => f64::NAN,
    }
}

/// The sum of the values; NaN if there are none.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value)).unwrap_or(f64::NAN)
}

fn median(mut known: Vec<f64>) -> f64 {
    known.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&known)
}

/// The median of sorted values: the middle one, or the mean of the two in the middle.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len.is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The percentile `n` of sorted values; NaN if there are none. If `n` is outside of 0 to 100, the first or the
/// last value.
pub(crate) fn percentile_of_sorted(sorted: &[f64], n: f64, interpolate: bool) -> f64 {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return f64::NAN };
    if interpolate {
        return interpolated_percentile(sorted, n);
    }
    match percentile_index(sorted.len(), n) {
        Some(index) => sorted[index],
        None => *if n < 0.0 { first } else { last },
    }
}

/// The index of the percentile `n` in `len` sorted values; `None` if it is outside of them.
///
/// graphite-web uses Python's negative indices, which count from the end. So a percentile just below 0 is one
/// of the largest values.
fn percentile_index(len: usize, n: f64) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let exact = n / 100.0 * (len as f64 + 1.0);
    // The cast truncates, and saturates if the number is too large.
    let rank = (exact.trunc() + exact.fract().ceil()) as i64;
    let index = match rank {
        0 => 0,
        rank if rank == len.saturating_add(1) => len - 1,
        rank => rank.saturating_sub(1),
    };
    let index = if index < 0 { index.saturating_add(len) } else { index };
    usize::try_from(index).ok().filter(|_| index < len)
}

/// The percentile of at least one sorted value, interpolated between its two neighbours.
fn interpolated_percentile(sorted: &[f64], n: f64) -> f64 {
    let last = sorted.len() as f64 + 1.0;
    let exact = (n / 100.0 * last).clamp(0.0, last);
    let rank = exact.trunc() as usize;
    let value = sorted[rank.max(1).min(sorted.len()) - 1];
    match sorted.get(rank) {
        Some(next) => value + exact.fract() * (next - value),
        None => value,
    }
}

/// Like [`percentile_of_sorted`], for values in any order; unknown values are ignored.
pub(crate) fn percentile(values: impl IntoIterator<Item = f64>, n: f64, interpolate: bool) -> f64 {
    percentile_of_sorted(&sorted(values), n, interpolate)
}

/// Like [`percentile`] without interpolation, but `None` if no value is known, or if the index is outside of
/// the values.
pub(crate) fn percentile_within(values: impl IntoIterator<Item = f64>, n: f64) -> Option<f64> {
    let sorted = sorted(values);
    percentile_index(sorted.len(), n).map(|index| sorted[index])
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut known: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    known
}
