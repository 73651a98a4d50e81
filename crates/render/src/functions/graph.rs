//! Functions that set how series are drawn.

mod area;
mod options;
mod stacked;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[area::ALL, options::ALL, stacked::ALL];
