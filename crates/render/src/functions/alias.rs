//! Functions that rename series.

mod case;
mod legend;
mod name;
mod node;
mod query;
mod sub;
mod substr;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] =
    &[case::ALL, legend::ALL, name::ALL, node::ALL, query::ALL, sub::ALL, substr::ALL];
