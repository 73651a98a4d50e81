//! The functions of the target language: a folder per family, a file per function or group of siblings.

mod alias;
#[cfg(test)]
mod any_call;
mod calculate;
mod combine;
mod extra;
mod filter;
mod graph;
mod special;
#[cfg(test)]
mod tests;
mod transform;

use crate::function::Function;

/// By family, by file.
pub(crate) const ALL: &[&[&[Function]]] = &[
    alias::ALL,
    calculate::ALL,
    combine::ALL,
    extra::ALL,
    filter::ALL,
    graph::ALL,
    special::ALL,
    transform::ALL,
];
