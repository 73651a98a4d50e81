//! The aggregation functions that arguments name: many values into one, unknown ones left out.

/// A function from many values to one.
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
    /// What so many percent are not above, between the two nearest values; carbonapi's `p50` to `p999`.
    Percentile(f64),
}

/// The names, in the order in which `/functions` lists them: aggregations, then other names of them.
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

    /// Also `sumSeries` for `sum` and such, which old dashboards have.
    pub(crate) fn named_or_deprecated(name: &str) -> Option<Self> {
        Self::named(name.strip_suffix("Series").unwrap_or(name))
    }

    /// One value of many; NaN for unknown.
    pub(crate) fn of(self, values: &[f64]) -> f64 {
        let known = || values.iter().copied().filter(|value| !value.is_nan());
        match self {
            Self::Average => sum(known()) / known().count() as f64,
            Self::AvgZero => known().fold(0.0, |sum, value| sum + value) / values.len() as f64,
            Self::Median => median(known().collect()),
            Self::Sum => sum(known()),
            Self::Min => known().reduce(|a, b| if b < a { b } else { a }).unwrap_or(f64::NAN),
            Self::Max => known().reduce(|a, b| if b > a { b } else { a }).unwrap_or(f64::NAN),
            Self::Diff => known().reduce(|a, b| a - b).unwrap_or(f64::NAN),
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

    /// As [`Self::of`], with nothing known below everything: the order in which series are sorted.
    pub(crate) fn key(self, values: &[f64]) -> f64 {
        let value = self.of(values);
        if value.is_nan() { f64::NEG_INFINITY } else { value }
    }
}

/// `99`, `99.9`, and `999` for 99.9.
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

/// NaN when there is nothing.
fn percentile_between(mut known: Vec<f64>, percent: f64) -> f64 {
    known.sort_unstable_by(f64::total_cmp);
    let place = percent / 100.0 * known.len().saturating_sub(1) as f64;
    match (known.get(place.floor() as usize), known.get(place.ceil() as usize)) {
        (Some(low), Some(high)) => low + (high - low) * place.fract(),
        _ => f64::NAN,
    }
}

/// NaN when there is nothing.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value)).unwrap_or(f64::NAN)
}

fn median(mut known: Vec<f64>) -> f64 {
    known.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&known)
}

/// The middle of sorted values, the mean of the two in the middle when their number is even.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len.is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The value below which `n` percent of some sorted values are; NaN when there are none.
pub(crate) fn percentile_of_sorted(sorted: &[f64], n: f64, interpolate: bool) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let last = sorted.len() as f64 + 1.0;
    let exact = (n / 100.0 * last).clamp(0.0, last);
    let fraction = exact.fract();
    let whole = exact.trunc() as usize;
    let rank = if interpolate || fraction == 0.0 { whole } else { whole + 1 };
    let at = rank.max(1).min(sorted.len()) - 1;
    match sorted.get(rank) {
        Some(next) if interpolate && rank < sorted.len() => sorted[at] + fraction * (next - sorted[at]),
        _ => sorted[at],
    }
}

/// As [`percentile_of_sorted`], of values in any order, unknown ones among them.
pub(crate) fn percentile(values: impl IntoIterator<Item = f64>, n: f64, interpolate: bool) -> f64 {
    let mut known: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    percentile_of_sorted(&known, n, interpolate)
}
