//! Functions that combine many series into fewer, slot by slot.

mod aggregate;
mod apply;
mod count;
mod divide;
mod group;
mod lists;
mod paths;
mod percent;
mod percentile;
mod pow;
mod reduce;
mod weighted;
mod wildcards;

pub(super) use aggregate::all;
pub(super) use divide::zipped;
pub(super) use lists::pairs;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[
    aggregate::ALL,
    apply::ALL,
    count::ALL,
    divide::ALL,
    group::ALL,
    lists::ALL,
    percent::ALL,
    percentile::ALL,
    pow::ALL,
    reduce::ALL,
    weighted::ALL,
    wildcards::ALL,
];
