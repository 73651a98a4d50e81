//! carbonapi's own functions, without those that need other services.

mod base64;
mod baseline;
mod correlation;
mod count_values;
mod fit;
mod heat_map;
mod join;
mod kolmogorov;
mod outliers;
mod powers;
mod reset;
mod short;
mod slo;
mod spectrum;
#[cfg(test)]
mod tests;
mod versions;
mod zero;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[
    base64::ALL,
    baseline::ALL,
    correlation::ALL,
    count_values::ALL,
    fit::ALL,
    heat_map::ALL,
    join::ALL,
    kolmogorov::ALL,
    outliers::ALL,
    powers::ALL,
    reset::ALL,
    short::ALL,
    slo::ALL,
    spectrum::ALL,
    versions::ALL,
    zero::ALL,
];
