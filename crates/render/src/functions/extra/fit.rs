//! `polyfit`: the polynomial that fits the points best.

use crate::attime::parse_interval;
use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "polyfit",
    Group::Calculate,
    &[
        SERIES,
        Param::new("degree", Kind::Integer).default(Default::Integer(1)),
        Param::new("offset", Kind::Interval).default(Default::Text("0d")),
    ],
    polyfit,
)
.about("Fits a polynomial to the points, and extends it beyond their end.", "polyfit(disk.used, 2, '7d')")];

/// The largest degree. Above it rounding errors dominate.
const DEGREE_MAX: usize = 8;

fn polyfit(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let degree = usize::try_from(args.int(1)).ok().filter(|degree| (1..=DEGREE_MAX).contains(degree));
    let degree = degree.ok_or_else(|| format!("the argument degree must be from 1 to {DEGREE_MAX}"))?;
    let seconds = parse_interval(args.text(2))?.max(0);
    // The name shows only the arguments that were given.
    let shown = match (args.given_int(1), args.given_text(2)) {
        (_, Some(offset)) => format!(",{degree},'{offset}'"),
        (Some(_), None) => format!(",{degree}"),
        (None, None) => String::new(),
    };
    let mut results = Vec::new();
    for series in args.series(0) {
        let more = usize::try_from(seconds / series.step).unwrap_or(usize::MAX);
        let len = series.values.len().saturating_add(more);
        context.count_points(len)?;
        // Positions from -1 to 1 keep the equations solvable.
        let half = (series.values.len() as f64 / 2.0).max(1.0);
        let place = |at: usize| at as f64 / half - 1.0;
        let known = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
        let points: Vec<(f64, f64)> = known.map(|(at, value)| (place(at), *value)).collect();
        let values = match coefficients(&points, degree) {
            Some(factors) => (0..len)
                .map(|at| factors.iter().rev().fold(0.0, |sum, factor| sum * place(at) + factor))
                .collect(),
            None => vec![f64::NAN; len],
        };
        let name = format!("polyfit({}{shown})", series.name);
        let end = series.end + more as i64 * series.step;
        results.push(TimeSeries { end, ..series.derived(name, values) });
    }
    Ok(results.into())
}

/// The coefficients by least squares; `None` if there are too few points.
fn coefficients(points: &[(f64, f64)], degree: usize) -> Option<Vec<f64>> {
    let size = degree + 1;
    if points.len() < size {
        return None;
    }
    let sum =
        |power: i32, with: fn(f64) -> f64| points.iter().map(|(x, y)| x.powi(power) * with(*y)).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|row| {
            let powers = (0..size).map(|column| sum((row + column) as i32, |_| 1.0));
            powers.chain([sum(row as i32, |y| y)]).collect()
        })
        .collect();
    for column in 0..size {
        let pivot =
            (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column].clone();
        if head[column].abs() < 1e-12 {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column] / head[column];
            row.iter_mut().zip(&head).for_each(|(value, head)| *value -= factor * head);
        }
    }
    Some(rows.iter().enumerate().map(|(at, row)| row[size] / row[at]).collect())
}
