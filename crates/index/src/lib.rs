//! The metrics and directories that exist: a tree of components that answers globs, and the tagged series.
//!
//! Must not know: points, HTTP, CQL. Start at [`Index`]. Inside, [`trie`] is the tree. It is made of interned
//! [`components`] and sorted [`children`], whose arrays live in a [`pool`]. [`walk`] searches it along a
//! [`plan`] of the pattern; only `plumbago_model::glob` decides what a pattern matches. Tagged series are in
//! [`tags`].

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
