//! `tukeyAbove` and `tukeyBelow`: series with points outside of Tukey's fences.

use crate::aggregate::percentile_of_sorted;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};

const PARAMS: &[Param] = &[
    SERIES,
    Param::new("basis", Kind::Float),
    Param::new("n", Kind::Integer),
    Param::new("interval", Kind::Integer).default(Default::Integer(0)),
];

pub(super) const ALL: &[Function] = &[
    Function::new("tukeyAbove", Group::FilterSeries, PARAMS, |args, _| tukey(args, true))
        .about("Returns the n series with the most points above the upper quartile by more than basis × the interquartile range.", "tukeyAbove(host.*.latency, 1.5, 5)"),
    Function::new("tukeyBelow", Group::FilterSeries, PARAMS, |args, _| tukey(args, false))
        .about("Returns the n series with the most points below the lower quartile by more than basis × the interquartile range.", "tukeyBelow(host.*.latency, 1.5, 5)"),
];

fn tukey(args: &mut Args, above: bool) -> Outcome {
    let basis = args.float(1);
    let Some(n) = usize::try_from(args.int(2)).ok().filter(|n| *n > 0) else {
        return Err("the argument n must be at least 1".into());
    };
    if basis <= 0.0 || basis.is_nan() {
        return Err("the argument basis must be above 0".into());
    }
    let last = usize::try_from(args.int(3).unsigned_abs()).unwrap_or(0);
    let series = args.series(0);
    let mut known: Vec<f64> =
        series.iter().flat_map(|s| s.values.iter().copied()).filter(|v| !v.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    let (low, high) = (percentile_of_sorted(&known, 25.0, true), percentile_of_sorted(&known, 75.0, true));
    let range = high - low;
    let is_out =
        |value: &&f64| if above { **value > high + basis * range } else { **value < low - basis * range };
    let count = |values: &[f64]| {
        let first = if last == 0 { 0 } else { values.len().saturating_sub(last) };
        values[first..].iter().filter(is_out).count()
    };
    let counted = series.into_iter().map(|series| (count(&series.values), series));
    let mut outliers: Vec<_> = counted.filter(|(count, _)| *count > 0).collect();
    outliers.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    Ok(outliers.into_iter().take(n).map(|(_, series)| series).collect::<Vec<_>>().into())
}
