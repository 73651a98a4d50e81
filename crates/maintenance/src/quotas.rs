//! The trait through which verbs learn what directories use of their quotas.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

/// The quota of a directory, and what it uses of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryQuota {
    /// The name of the quota.
    pub quota: String,
    /// Nothing is refused, only counted.
    pub dry_run: bool,
    /// What is counted.
    pub limits: Vec<LimitUse>,
    /// Points refused since the start of the process, or that would have been in a dry run.
    pub refused_points: u64,
}

/// One thing that a quota counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitUse {
    /// The key of the limit in the file of quotas.
    pub what: String,
    /// How much is used; `None` if it was not measured yet.
    pub used: Option<u64>,
    /// How much may be used; `None` for any.
    pub limit: Option<u64>,
}

/// The quotas of a process.
pub trait DirectoryQuotas: Send + Sync + Debug {
    /// The quota that counts for a directory (`/` for everything), if there is one.
    fn of(&self, directory: &str) -> Option<DirectoryQuota>;
}
