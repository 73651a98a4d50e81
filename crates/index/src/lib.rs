//! The metrics and directories that exist: a tree of components that answers globs, and the tagged series.
//!
//! Must not know: points, HTTP, CQL. Start at [`Index`]. Inside, [`trie`] is the tree. It consists of
//! interned [`components`] and sorted [`children`], whose arrays are in a [`pool`]. [`walk`] searches it
//! along a [`plan`] of the pattern; only `plumbago_model::glob` decides what a pattern matches. Tagged series
//! are in [`tags`]. [`search`] finds names by words and lists directories, with a [`sweep`] through the tree.
//! A [`tree_search`] goes only once through directories of the same [`shape`], because it remembers what is
//! [`known`] about them.

mod best;
mod biggest;
mod children;
mod components;
mod found;
pub mod fuzzing;
mod index;
mod known;
mod memo;
mod metrics;
mod needle;
mod plan;
mod pool;
mod search;
mod shape;
mod sweep;
mod tagged;
mod tags;
mod tree_search;
mod trie;
mod walk;
mod words;

pub use biggest::{BiggestTags, TagSize};
pub use found::{FindError, FindLimits, Node, NodeRef};
pub use index::Index;
pub use search::{Listed, Listing, Matches};
pub use tags::complete::{TagFilter, TagText};
pub use tags::expression::{TagError, TagExpression};
pub use words::WORDS_MAX;
