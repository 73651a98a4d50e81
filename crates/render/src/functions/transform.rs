//! Functions that change each series by itself.

mod delay;
mod derivative;
mod each;
mod gaps;
mod hitcount;
mod integral;
mod made;
mod minmax;
mod null;
mod scale;
mod summarize;
mod time_shift;
mod time_slice;
mod unary;

pub(super) use scale::power;

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[
    delay::ALL,
    derivative::ALL,
    gaps::ALL,
    hitcount::ALL,
    integral::ALL,
    made::ALL,
    minmax::ALL,
    null::ALL,
    scale::ALL,
    summarize::ALL,
    time_shift::ALL,
    time_slice::ALL,
    unary::ALL,
];
