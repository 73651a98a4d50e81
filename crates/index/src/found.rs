//! What a search in the index finds, its limits, and why it fails.

use plumbago_model::glob::GlobError;

/// A metric, a directory, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The full path; its components are separated by dots.
    pub path: String,
    /// There is a metric with this name.
    pub leaf: bool,
    /// There are metrics below this path.
    pub branch: bool,
}

/// A borrowed [`Node`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRef<'a> {
    /// The full path; its components are separated by dots.
    pub path: &'a str,
    /// There is a metric with this name.
    pub leaf: bool,
    /// There are metrics below this path.
    pub branch: bool,
}

/// The limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindLimits {
    /// Maximum number of results.
    pub results_max: usize,
    /// Maximum number of nodes visited. Long comparisons count as additional nodes.
    pub visited_max: usize,
}

impl Default for FindLimits {
    fn default() -> Self {
        Self { results_max: 1_000_000, visited_max: 50_000_000 }
    }
}

/// Why a search failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The pattern is too large.
    #[error(transparent)]
    Pattern(#[from] GlobError),
    /// There are more results than [`FindLimits::results_max`].
    #[error("more than {0} metrics match (limit of results); narrow the pattern")]
    TooManyResults(usize),
    /// The search would visit more nodes than [`FindLimits::visited_max`].
    #[error(
        "the search would visit more than {0} nodes of the index (limit of visited nodes); narrow the pattern"
    )]
    TooManyVisits(usize),
}
