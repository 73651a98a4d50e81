//! Combines many series into one, slot by slot, in one pass over each series.

use crate::aggregate::Aggregate;
use crate::fault::Fault;
use crate::grid::Grid;
use crate::series::TimeSeries;
use crate::watch::Pace;

/// Reduces each slot to one value; NaN if too few values are known.
pub(crate) fn fold(
    series: &[TimeSeries],
    grid: &Grid,
    method: Aggregate,
    x_files_factor: f64,
    mut pace: Pace<'_>,
) -> Result<Vec<f64>, Fault> {
    let (mut rows, known) = match method {
        Aggregate::Median | Aggregate::Percentile(_) => {
            (gathered(series, grid, pace, |row| method.of(row))?, known(series, grid))
        }
        Aggregate::StdDev => deviations(series, grid, &mut pace)?,
        Aggregate::Range => ranges(series, grid, &mut pace)?,
        _ => accumulated(series, grid, method, &mut pace)?,
    };
    let total = series.len() as f64;
    for (row, known) in rows.iter_mut().zip(known) {
        let known = f64::from(known);
        if known == 0.0 || known / total < x_files_factor || (method == Aggregate::Multiply && known < total)
        {
            *row = f64::NAN;
            continue;
        }
        match method {
            Aggregate::Average => *row /= known,
            Aggregate::AvgZero => *row /= total,
            Aggregate::Count => *row = known,
            _ => {}
        }
    }
    Ok(rows)
}

/// Reduces each slot to one value with any function. Its argument has one value per series; NaN is unknown.
pub(crate) fn gathered(
    series: &[TimeSeries],
    grid: &Grid,
    mut pace: Pace<'_>,
    of: impl Fn(&[f64]) -> f64,
) -> Result<Vec<f64>, Fault> {
    /// The number of slots that are processed together, so that each series is read in blocks.
    const BLOCK: usize = 64;
    let aligned: Vec<_> = series.iter().map(|s| grid.align(s)).collect();
    let mut block = vec![f64::NAN; BLOCK * series.len()];
    let mut rows = Vec::with_capacity(grid.len);
    for first in (0..grid.len).step_by(BLOCK) {
        pace.step(block.len())?;
        let slots = first..(first + BLOCK).min(grid.len);
        for (index, values) in aligned.iter().enumerate() {
            for slot in slots.clone() {
                block[(slot - first) * series.len() + index] = values.get(slot).copied().unwrap_or(f64::NAN);
            }
        }
        rows.extend(block.chunks(series.len()).take(slots.len()).map(&of));
    }
    Ok(rows)
}

/// Partial results, and the number of known values, for each slot.
type Rows = (Vec<f64>, Vec<u32>);

fn accumulated(
    series: &[TimeSeries],
    grid: &Grid,
    method: Aggregate,
    pace: &mut Pace<'_>,
) -> Result<Rows, Fault> {
    match method {
        Aggregate::Max => each(series, grid, pace, f64::NEG_INFINITY, |row, v| if v > row { v } else { row }),
        Aggregate::Min => each(series, grid, pace, f64::INFINITY, |row, v| if v < row { v } else { row }),
        Aggregate::Last => each(series, grid, pace, f64::NAN, |_, v| v),
        Aggregate::Diff => {
            each(series, grid, pace, f64::NAN, |row, v| if row.is_nan() { 0.0 + v } else { row - v })
        }
        Aggregate::Multiply => each(series, grid, pace, 1.0, |row, v| row * v),
        _ => each(series, grid, pace, 0.0, |row, v| row + v),
    }
}

fn each(
    series: &[TimeSeries],
    grid: &Grid,
    pace: &mut Pace<'_>,
    start: f64,
    merge: impl Fn(f64, f64) -> f64,
) -> Result<Rows, Fault> {
    let (mut rows, mut known) = (vec![start; grid.len], vec![0u32; grid.len]);
    for series in series {
        pace.step(series.values.len())?;
        let values = grid.align(series);
        for ((row, known), value) in rows.iter_mut().zip(&mut known).zip(values.iter()) {
            // Both results are computed, so that the loop has no branch.
            let merged = merge(*row, *value);
            *row = if value.is_nan() { *row } else { merged };
            *known += u32::from(!value.is_nan());
        }
    }
    Ok((rows, known))
}

/// The number of known values of each slot.
fn known(series: &[TimeSeries], grid: &Grid) -> Vec<u32> {
    let mut known = vec![0; grid.len];
    for series in series {
        for (known, value) in known.iter_mut().zip(grid.align(series).iter()) {
            *known += u32::from(!value.is_nan());
        }
    }
    known
}

fn ranges(series: &[TimeSeries], grid: &Grid, pace: &mut Pace<'_>) -> Result<Rows, Fault> {
    let (lows, _) = accumulated(series, grid, Aggregate::Min, pace)?;
    let (mut rows, known) = accumulated(series, grid, Aggregate::Max, pace)?;
    rows.iter_mut().zip(lows).for_each(|(high, low)| *high -= low);
    Ok((rows, known))
}

fn deviations(series: &[TimeSeries], grid: &Grid, pace: &mut Pace<'_>) -> Result<Rows, Fault> {
    let (mut means, known) = accumulated(series, grid, Aggregate::Sum, pace)?;
    means.iter_mut().zip(&known).for_each(|(sum, known)| *sum /= f64::from(*known));
    let mut squares = vec![0.0; grid.len];
    for series in series {
        pace.step(series.values.len())?;
        let values = grid.align(series);
        for ((square, mean), value) in squares.iter_mut().zip(&means).zip(values.iter()) {
            if !value.is_nan() {
                *square += (value - mean) * (value - mean);
            }
        }
    }
    squares.iter_mut().zip(&known).for_each(|(square, known)| *square = (*square / f64::from(*known)).sqrt());
    Ok((squares, known))
}
