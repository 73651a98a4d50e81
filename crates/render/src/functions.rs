//! The functions of the target language. There is a directory for each family, and a file for each function
//! or group of related functions.

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

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::function::Function;

/// All functions by family and file.
const ALL: &[&[&[Function]]] = &[
    alias::ALL,
    calculate::ALL,
    combine::ALL,
    extra::ALL,
    filter::ALL,
    graph::ALL,
    special::ALL,
    transform::ALL,
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let all = ALL.iter().flat_map(|family| family.iter()).flat_map(|file| file.iter());
    all.flat_map(|f| std::iter::once(f.name).chain(f.aliases.iter().copied()).map(move |name| (name, f)))
        .collect()
});

/// The function with this name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    BY_NAME.get(name).copied()
}

/// Whether a function with this name exists that `groupByNode` and the like accept as a callback.
pub(crate) fn is_callback(name: &str) -> bool {
    find(name).is_some_and(|function| function.is_callback)
}

/// All functions by all their names.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Function)> {
    BY_NAME.iter().map(|(name, function)| (*name, *function))
}
