//! Which metrics and directories exist: a tree of components that answers all globs, and the
//! tagged series beside it.
//!
//! Must not know: points, HTTP, CQL. Start at [`Index`]. Inside, [`trie`] is the tree, made of
//! interned [`components`] and of sorted [`children`] that live in the chunks of a [`pool`];
//! [`walk`] goes through it along a [`plan`] of the pattern. What a pattern means is decided in
//! `plumbago_model::glob` alone. Tagged series are in [`tags`].

mod children;
mod components;
pub mod fuzzing;
mod index;
mod metrics;
mod plan;
mod pool;
mod tagged;
mod tags;
mod trie;
mod walk;

pub use index::{FindError, FindLimits, Index, Node, NodeRef};
pub use tags::complete::{TagFilter, TagText};
pub use tags::expression::{TagError, TagExpression};
