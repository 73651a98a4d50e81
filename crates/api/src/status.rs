//! The daemon's status, as the process gives it to the API's port.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::admin::AdminSecret;
use crate::error::AdminError;

/// Looks inside the process.
#[async_trait]
pub trait StatusSource: Send + Sync + Debug {
    /// Returns what the process says of itself, as a JSON object: `about` (version, start, store, memory),
    /// `ledger`, `refused` (samples of refused points), `jobs` and `maintenance`.
    ///
    /// # Errors
    ///
    /// `AdminError` if the engine has been stopped.
    async fn status(&self) -> Result<Value, AdminError>;
}

/// Where the status comes from, and what those have to know who may not see it otherwise.
#[derive(Debug, Clone)]
pub struct StatusHandles {
    /// Gives the status.
    pub source: Arc<dyn StatusSource>,
    /// `admin.token`; empty if there is none.
    pub token: String,
    /// The secret of the data directory, which is as good as the token.
    pub secret: AdminSecret,
}
