//! What carbonapi has beyond graphite-web, as far as people use it.

mod baseline;
mod correlation;
mod fit;
mod outliers;
mod powers;
mod reset;
mod short;
mod slo;
mod zero;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[
    baseline::ALL,
    correlation::ALL,
    fit::ALL,
    outliers::ALL,
    powers::ALL,
    reset::ALL,
    short::ALL,
    slo::ALL,
    zero::ALL,
];
