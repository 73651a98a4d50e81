//! Shows what storage rules do with names, so that rules can be tested before they are used. Nothing is
//! changed.

pub mod full;
pub mod known;
pub mod trial;
