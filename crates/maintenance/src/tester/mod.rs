//! What storage rules do with names, for those who test them before they are used. Nothing here changes anything.

pub mod full;
pub mod known;
pub mod trial;
