//! `pearson` and `pearsonClosest`: Pearson's correlation.

use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::grid::Grid;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[
    Function::new(
        "pearson",
        Group::Calculate,
        &[
            Param::new("seriesA", Kind::Series),
            Param::new("seriesB", Kind::Series),
            Param::new("windowSize", Kind::Integer),
        ],
        pearson,
    )
    .about(
        "Pearson's correlation of two series in a moving window, from -1 to 1.",
        "pearson(server.load, server.requests, 30)",
    ),
    Function::new(
        "pearsonClosest",
        Group::Calculate,
        &[
            Param::new("reference", Kind::Series),
            SERIES,
            Param::new("n", Kind::Integer),
            Param::new("direction", Kind::String)
                .default(Default::Text("abs"))
                .options(&["abs", "pos", "neg"]),
        ],
        closest,
    )
    .about(
        "Returns the n series with the highest correlation to another one.",
        "pearsonClosest(server.load, host.*.requests, 5)",
    ),
];

/// The correlation; NaN if one of the series is constant or empty.
fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let known = || pairs.clone().filter(|(a, b)| !a.is_nan() && !b.is_nan());
    let count = known().count() as f64;
    let (sum_a, sum_b) = known().fold((0.0, 0.0), |(x, y), (a, b)| (x + a, y + b));
    let (mean_a, mean_b) = (sum_a / count, sum_b / count);
    let add = |(ab, aa, bb): (f64, f64, f64), (a, b): (f64, f64)| {
        let (a, b) = (a - mean_a, b - mean_b);
        (ab + a * b, aa + a * a, bb + b * b)
    };
    let (ab, aa, bb) = known().fold((0.0, 0.0, 0.0), add);
    let scale = (aa * bb).sqrt();
    if scale > 0.0 { ab / scale } else { f64::NAN }
}

fn pearson(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    /// The longest window. Each result reads the whole window.
    const WINDOW_MAX: usize = 10_000;
    let size = usize::try_from(args.int(2)).ok().filter(|size| (1..=WINDOW_MAX).contains(size));
    let size = size.ok_or_else(|| format!("the argument windowSize must be from 1 to {WINDOW_MAX}"))?;
    let (first, second) = (args.series(0), args.series(1));
    let ([a], [b]) = (&first[..], &second[..]) else {
        return Err(format!("needs two series, but got {} and {}", first.len(), second.len()).into());
    };
    let Some(grid) = Grid::of([a, b])? else { return Ok(Vec::new().into()) };
    context.count_points(grid.len.saturating_mul(size))?;
    let (x, y) = (grid.spread(a), grid.spread(b));
    let mut pace = context.pace();
    let window = |at: usize| {
        let Some(from) = (at + 1).checked_sub(size) else { return Ok(f64::NAN) };
        pace.step(size)?;
        Ok(correlation(x[from..=at].iter().copied().zip(y[from..=at].iter().copied())))
    };
    let values = (0..grid.len).map(window).collect::<Result<_, Fault>>()?;
    let name = format!("pearson({},{},{size})", a.name, b.name);
    Ok(vec![TimeSeries::made(name, grid.times(), values, context.x_files_factor)].into())
}

fn closest(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let n = usize::try_from(args.int(2)).unwrap_or(0);
    let direction = args.text(3).to_owned();
    let references = args.series(0);
    let [reference] = &references[..] else {
        return Err(format!("the reference must be one series, but there are {}", references.len()).into());
    };
    let mut ranked = Vec::new();
    for series in args.series(1) {
        let Some(grid) = Grid::of([reference, &series])? else { continue };
        let (x, y) = (grid.spread(reference), grid.spread(&series));
        let correlation = correlation(x.iter().copied().zip(y.iter().copied()));
        let rank = match direction.as_str() {
            "pos" => correlation,
            "neg" => -correlation,
            _ => correlation.abs(),
        };
        if !rank.is_nan() {
            ranked.push((rank, series));
        }
    }
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    Ok(ranked.into_iter().take(n).map(|(_, series)| series).collect::<Vec<_>>().into())
}
