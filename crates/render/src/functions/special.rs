//! How series are read, where there are none, and lines.

mod changed;
mod consolidate;
mod events;
mod fallback;
mod line;
mod tag;

pub(super) use line::constant_line;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] =
    &[changed::ALL, consolidate::ALL, events::ALL, fallback::ALL, line::ALL, tag::ALL];
