//! Checks of the workspace itself, run by CI: which crate may depend on which ([`layers`]), dependencies that
//! no code uses ([`unused`]), licences, sources and duplicates of external crates ([`deny`]), and files that
//! are too long ([`length`]).
//!
//! The checks read `cargo metadata` and return one message per problem. Start at `tests/workspace.rs`.

pub mod deny;
pub mod layers;
pub mod length;
pub mod metadata;
pub mod unused;
