//! The settings of users.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The `[api.users]` section: Basic authentication.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsersConfig {
    /// Path of a file written by `htpasswd -B`: a line `name:hash` for each user, with a bcrypt hash. "" lets
    /// everybody use the port. SIGHUP reads the file again.
    pub file: PathBuf,
    /// Which requests must come from a user.
    pub required_for: RequiredFor,
}

/// Which requests must come from a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RequiredFor {
    /// All requests.
    #[default]
    All,
    /// Requests that change something: points, deletions, tags, events, settings of metrics.
    Writes,
}
