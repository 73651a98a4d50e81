//! OpenTSDB's lines and bodies.

mod line;
mod put;

pub use line::{Line, LineFault, Lines, Put};
pub use put::put;
