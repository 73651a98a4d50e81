//! Moving windows. Each result is computed from a point and the points before it.

use crate::aggregate::{Aggregate, median_of_sorted};
use crate::attime::parse_interval;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES, WINDOWS};
use crate::request::TimeRange;
use crate::series::TimeSeries;
use crate::target::Literal;
use crate::watch::Pace;

pub(super) const WINDOW: Param = Param::new("windowSize", Kind::IntOrInterval).suggest(WINDOWS);
const FACTOR: Param = Param::new("xFilesFactor", Kind::Float).optional();
const PARAMS: &[Param] = &[SERIES, WINDOW, FACTOR];

pub(super) const ALL: &[Function] = &[
    Function::new(
        "movingWindow",
        Group::Calculate,
        &[SERIES, WINDOW, Param::new("func", Kind::AggFunc).default(Default::Text("average")), FACTOR],
        |args, context| {
            let method = args.text(2).to_owned();
            let factor = args.given_float(3);
            moving(args, context, &method, factor)
        },
    )
    .reads(earlier)
    .about(
        "Combines each point with the points before it, in a window of points or of time.",
        "movingWindow(server.load, '10min', 'max')",
    ),
    Function::new("movingAverage", Group::Calculate, PARAMS, |args, context| short(args, context, "average"))
        .reads(earlier)
        .about("The mean of a moving window.", "movingAverage(server.load, 10)"),
    Function::new("movingMedian", Group::Calculate, PARAMS, |args, context| short(args, context, "median"))
        .reads(earlier)
        .about("The median of a moving window.", "movingMedian(server.load, '5min')"),
    Function::new("movingSum", Group::Calculate, PARAMS, |args, context| short(args, context, "sum"))
        .reads(earlier)
        .about("The sum of a moving window.", "movingSum(server.requests, '1h')"),
    Function::new("movingMin", Group::Calculate, PARAMS, |args, context| short(args, context, "min"))
        .reads(earlier)
        .about("The smallest value of a moving window.", "movingMin(server.free, '1h')"),
    Function::new("movingMax", Group::Calculate, PARAMS, |args, context| short(args, context, "max"))
        .reads(earlier)
        .about("The largest value of a moving window.", "movingMax(server.load, '1h')"),
];

/// A window, in points or in seconds.
#[derive(Debug)]
pub(super) struct Window {
    points: Option<usize>,
    pub(super) seconds: i64,
    /// The window as names show it.
    pub(super) shown: String,
    /// The window as tags show it.
    pub(super) tag: String,
}

impl Window {
    /// The window of the second argument. A number of points is converted with the longest step of the series.
    pub(super) fn of(args: &Args, series: &[TimeSeries]) -> Result<Self, Fault> {
        let literal = args.literal(1).ok_or("the argument windowSize is missing")?;
        let tag = literal.python();
        let points = match literal {
            Literal::String(text) => {
                let seconds = parse_interval(text)?.saturating_abs();
                return Ok(Self { points: None, seconds, shown: format!("\"{text}\""), tag });
            }
            Literal::Float(number) => *number as i64,
            Literal::Integer(number) => *number,
            _ => return Err("the argument windowSize must be a number of points or an amount of time".into()),
        };
        let step = series.iter().map(|series| series.step).max().unwrap_or(0);
        let count = usize::try_from(points).map_err(|_| "the argument windowSize must not be negative")?;
        let seconds = step.checked_mul(points).filter(|seconds| *seconds < 1 << 40);
        let seconds = seconds.ok_or("the argument windowSize is too large")?;
        Ok(Self { points: Some(count), seconds, shown: tag.clone(), tag })
    }

    /// The number of points of a series in the window.
    pub(super) fn points(&self, series: &TimeSeries) -> usize {
        self.points.unwrap_or(usize::try_from(self.seconds / series.step).unwrap_or(0))
    }
}

/// The range to fetch for a window of time, before the series are known.
pub(super) fn earlier(args: &Args, context: &Context<'_>) -> Result<Vec<TimeRange>, Fault> {
    match args.literal(1) {
        Some(Literal::String(_)) => Ok(vec![context.range.earlier(Window::of(args, &[])?.seconds)]),
        _ => Ok(Vec::new()),
    }
}

fn short(args: &mut Args, context: &mut Context<'_>, method: &str) -> Outcome {
    let factor = args.given_float(2);
    moving(args, context, method, factor)
}

fn moving(args: &mut Args, context: &mut Context<'_>, method: &str, factor: Option<f64>) -> Outcome {
    let aggregate =
        Aggregate::named(method).ok_or_else(|| format!("{method:?} is not an aggregation function"))?;
    let series = args.series(0);
    if series.is_empty() {
        return Ok(series.into());
    }
    let window = Window::of(args, &series)?;
    let mut letters = method.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let function = format!("moving{first}{}", letters.as_str().to_lowercase());
    let fold = |mut series: TimeSeries| {
        context.go_on()?;
        let points = window.points(&series);
        series.tags.set(&function, &*window.tag);
        let factor = factor.unwrap_or(series.x_files_factor);
        let values = windows(&series.values, points, aggregate, factor, &mut context.pace())?;
        let name = format!("{function}({},{})", series.name, window.shown);
        let is_whole = aggregate.is_whole(series.is_whole, points);
        Ok(TimeSeries { start: series.start + window.seconds, is_whole, ..series.derived(name, values) })
    };
    let series = context.again(context.range.earlier(window.seconds))?;
    Ok(series.into_iter().map(fold).collect::<Result<Vec<_>, Fault>>()?.into())
}

/// One value for each window of `size` values. The first window ends with the value at the index `size`.
fn windows(
    values: &[f64],
    size: usize,
    method: Aggregate,
    factor: f64,
    pace: &mut Pace<'_>,
) -> Result<Vec<f64>, Fault> {
    /// Windows up to this size are summed value by value, so that rounding is the same as in graphite-web.
    const SUMMED_PLAINLY: usize = 32;
    if size == 0 || values.len() <= size {
        return Ok(vec![f64::NAN; values.len().saturating_sub(size)]);
    }
    let mut folded = match method {
        Aggregate::Sum | Aggregate::Average | Aggregate::AvgZero if size <= SUMMED_PLAINLY => {
            values.windows(size).skip(1).map(|window| Aggregate::Sum.of(window)).collect()
        }
        Aggregate::Sum | Aggregate::Average | Aggregate::AvgZero => {
            by_blocks(values, size, 0.0, |a, b| a + b)
        }
        Aggregate::Max => by_blocks(values, size, f64::NEG_INFINITY, |a, b| if b > a { b } else { a }),
        Aggregate::Min => by_blocks(values, size, f64::INFINITY, |a, b| if b < a { b } else { a }),
        Aggregate::Multiply => by_blocks(values, size, 1.0, |a, b| a * b),
        Aggregate::Median => medians(values, size, pace)?,
        Aggregate::Count => vec![0.0; values.len() - size],
        Aggregate::Range => {
            let low = windows(values, size, Aggregate::Min, 0.0, pace)?;
            let high = windows(values, size, Aggregate::Max, 0.0, pace)?;
            high.iter().zip(low).map(|(high, low)| high - low).collect()
        }
        Aggregate::Diff | Aggregate::StdDev | Aggregate::Last | Aggregate::Percentile(_) => {
            let fold = |window: &[f64]| pace.step(size).map(|()| method.of(window));
            values.windows(size).skip(1).map(fold).collect::<Result<_, _>>()?
        }
    };
    let mut known = values[..size].iter().filter(|value| !value.is_nan()).count();
    for (at, value) in folded.iter_mut().enumerate() {
        known -= usize::from(!values[at].is_nan());
        known += usize::from(!values[at + size].is_nan());
        if known == 0 || (known as f64 / size as f64) < factor {
            *value = f64::NAN;
        } else if matches!(method, Aggregate::Average | Aggregate::AvgZero) {
            *value /= known as f64;
        } else if method == Aggregate::Count {
            *value = known as f64;
        }
    }
    Ok(folded)
}

/// Computes each window from the end of one block and the beginning of the next. Each value is used at most
/// twice. No value is ever subtracted again, because that would leave rounding errors. The earlier value
/// comes first in `merge`, because Python's `max` of 0.0 and -0.0 is the one that comes first.
fn by_blocks(values: &[f64], size: usize, start: f64, merge: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut ends = vec![start; values.len()];
    for at in (0..values.len()).rev() {
        let is_last = (at + 1).is_multiple_of(size) || at + 1 == values.len();
        let later = if is_last { start } else { ends[at + 1] };
        ends[at] = if values[at].is_nan() { later } else { merge(values[at], later) };
    }
    let (mut beginning, mut folded) = (start, Vec::with_capacity(values.len() - size));
    for (at, value) in values.iter().enumerate() {
        let earlier = if at.is_multiple_of(size) { start } else { beginning };
        beginning = if value.is_nan() { earlier } else { merge(earlier, *value) };
        if at >= size {
            let first = at + 1 - size;
            let is_block = first.is_multiple_of(size);
            folded.push(if is_block { beginning } else { merge(ends[first], beginning) });
        }
    }
    folded
}

fn medians(values: &[f64], size: usize, pace: &mut Pace<'_>) -> Result<Vec<f64>, Fault> {
    /// The number of values that are moved in one step when a value is inserted into the sorted window.
    const MOVED: usize = 16;
    let mut sorted: Vec<f64> = Vec::with_capacity(size + 1);
    let place = |sorted: &[f64], value: f64| sorted.partition_point(|known| known.total_cmp(&value).is_lt());
    let mut folded = Vec::with_capacity(values.len() - size);
    for (at, value) in values.iter().enumerate() {
        pace.step(1 + sorted.len() / MOVED)?;
        if let Some(gone) = at.checked_sub(size).map(|gone| values[gone]).filter(|gone| !gone.is_nan()) {
            let place = place(&sorted, gone);
            sorted.remove(place);
        }
        if !value.is_nan() {
            let place = place(&sorted, *value);
            sorted.insert(place, *value);
        }
        if at >= size {
            folded.push(median_of_sorted(&sorted));
        }
    }
    Ok(folded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::watch::Unwatched;

    proptest! {
        #[test]
        fn windows_are_what_folding_each_gives(
            values in prop::collection::vec(prop_oneof![Just(f64::NAN), Just(0.0), Just(-0.0), -1e6..1e6f64], 0..120),
            size in 1usize..50,
        ) {
            for method in [Aggregate::Sum, Aggregate::Max, Aggregate::Min, Aggregate::Median, Aggregate::Range] {
                let folded = windows(&values, size, method, 0.0, &mut Pace::new(&Unwatched, 0)).unwrap();
                let plain: Vec<f64> = values.windows(size).skip(1).map(|window| method.of(window)).collect();
                prop_assert_eq!(folded.len(), plain.len());
                for (a, b) in folded.iter().zip(&plain) {
                    let is_exact = matches!(method, Aggregate::Max | Aggregate::Min);
                    let is_same = if is_exact { a.to_bits() == b.to_bits() } else { (a - b).abs() < 1e-6 };
                    prop_assert!(is_same || a.is_nan() && b.is_nan(), "{:?} {} {}", method, a, b);
                }
            }
        }
    }
}
