//! The text of a render expression, read into a tree.
//!
//! The language is graphite-web's; where its parser gives up quietly (an unclosed bracket, text left
//! over) this one says where it stopped.

mod ast;
mod parser;
#[cfg(test)]
mod tests;

pub use ast::{Expr, ExprKind, Literal, Span, Target};
pub(crate) use parser::parse_beginning;
pub use parser::{ParseError, TARGET_BYTES_MAX, TARGET_DEPTH_MAX, parse};
