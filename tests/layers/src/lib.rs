//! Checks of the workspace itself, run by CI: which crate may depend on which ([`layers`]), dependencies
//! that nobody uses ([`unused`]), licences, sources and duplicates of crates from outside ([`deny`]), files that are
//! too long ([`length`]), and modules that need each other in a circle ([`circles`]).
//!
//! The checks read `cargo metadata` and return one message per problem. Start at `tests/workspace.rs`.

pub mod circles;
pub mod code;
pub mod deny;
pub mod layers;
pub mod length;
pub mod metadata;
pub mod unused;
