//! Many series into fewer, slot by slot.

mod aggregate;
mod apply;
mod count;
mod divide;
mod group;
mod lists;
mod percent;
mod percentile;
mod pow;
mod reduce;
mod weighted;
mod wildcards;

pub(super) use aggregate::all;
pub(super) use divide::zipped;
pub(super) use lists::pairs;

use std::collections::HashSet;

use crate::function::Function;
use crate::series::TimeSeries;

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

/// The texts that produced the series, each once, in order.
pub(super) fn path_expressions<'a>(series: impl IntoIterator<Item = &'a TimeSeries>) -> String {
    let mut seen = HashSet::new();
    let all = series.into_iter().map(|s| &*s.path_expression);
    let unique: Vec<&str> = all.filter(|text| seen.insert(*text)).collect();
    unique.join(",")
}
