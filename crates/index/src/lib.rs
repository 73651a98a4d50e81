//! Which metrics and directories exist: a tree of components that answers all globs, and the
//! tagged series beside it.
//!
//! Must not know: points, HTTP, CQL. Start at [`Index`]. Inside, [`trie`] is the tree, made of
//! interned [`components`] and of sorted [`children`] that live in the chunks of a [`pool`];
//! [`walk`] goes through it along a [`plan`] of the pattern. What a pattern means is decided in
//! `plumbago_model::glob` alone.

mod children;
mod components;
pub mod fuzzing;
mod index;
mod metrics;
mod plan;
mod pool;
mod trie;
mod walk;

pub use index::{FindError, FindLimits, Index, Node, NodeRef};
