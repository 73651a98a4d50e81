//! Functions that control reading, replace missing series, and draw lines.

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
