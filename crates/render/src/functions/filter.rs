//! Functions that select series or points, and that sort series.

mod compare;
mod data;
mod deviant;
mod highest;
mod name;
mod percentile;
mod sort;
mod unique;
mod use_above;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[
    compare::ALL,
    data::ALL,
    deviant::ALL,
    highest::ALL,
    name::ALL,
    percentile::ALL,
    sort::ALL,
    unique::ALL,
    use_above::ALL,
];
