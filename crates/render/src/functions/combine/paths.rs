//! The path expressions of several series.

use std::collections::HashSet;

use crate::series::TimeSeries;

/// The path expressions of the series, each once, in order.
pub(super) fn path_expressions<'a>(series: impl IntoIterator<Item = &'a TimeSeries>) -> String {
    let mut seen = HashSet::new();
    let all = series.into_iter().map(|s| &*s.path_expression);
    let unique: Vec<&str> = all.filter(|text| seen.insert(*text)).collect();
    unique.join(",")
}
