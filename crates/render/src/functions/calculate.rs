//! Statistics and forecasts.

mod deviation;
mod exponential;
mod holt_winters;
mod line;
mod moving;
mod percentile;
mod regression;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[
    deviation::ALL,
    exponential::ALL,
    holt_winters::ALL,
    line::ALL,
    moving::ALL,
    percentile::ALL,
    regression::ALL,
];
