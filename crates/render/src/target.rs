//! Parses a target into a tree.
//!
//! The language is graphite-web's. Where its parser silently ignores an unclosed bracket or the rest of a text,
//! this one reports an error with the position.

mod ast;
mod parser;
#[cfg(test)]
mod tests;

pub use ast::{Expr, ExprKind, Literal, Span, Target};
pub(crate) use parser::EXPRESSION;
pub(crate) use parser::parse_beginning;
pub use parser::{ParseError, TARGET_BYTES_MAX, TARGET_DEPTH_MAX, parse};
