//! The trait through which verbs learn how much directories use of their quotas.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

/// The quota of a directory, and how much the directory uses of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryQuota {
    /// The name of the quota.
    pub quota: String,
    /// Whether the quota only counts and refuses nothing.
    pub dry_run: bool,
    /// The use of each limit.
    pub limits: Vec<LimitUse>,
    /// Number of points that were refused since the start of the process, or would have been in a dry run.
    pub refused_points: u64,
}

/// An amount that a quota counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitUse {
    /// The key of the limit in the file of quotas.
    pub what: String,
    /// How much is used, in the unit of the limit; `None` if it has not been measured yet.
    pub used: Option<u64>,
    /// How much may be used; `None` for no limit.
    pub limit: Option<u64>,
}

/// The quotas of a process.
pub trait DirectoryQuotas: Send + Sync + Debug {
    /// Returns the quota that applies to a directory (`/` for all metrics), if there is one.
    fn of(&self, directory: &str) -> Option<DirectoryQuota>;
}
