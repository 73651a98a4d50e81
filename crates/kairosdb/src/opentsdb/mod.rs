//! OpenTSDB's lines and bodies.

mod put;

pub use put::put;
