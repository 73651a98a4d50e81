//! What the process offers to the API's port for the status page: its status, a test of the rules, and its costs.
//! Who may see them is decided in `viewers`.

mod viewers;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use serde::Deserialize;
use serde_json::Value;

use crate::access::AdminSecret;
use crate::error::AdminError;

pub(crate) use viewers::Status;

/// Supplies the status of the process.
#[boxed_futures]
pub trait StatusSource: Send + Sync + Debug {
    /// Returns the status, as a JSON object: `about` (version, start, store, memory), `store` (its stages),
    /// `ledger`, `refused` (samples of refused points), `jobs` and `maintenance`.
    ///
    /// # Errors
    ///
    /// `AdminError` if the engine has been stopped.
    async fn status(&self) -> Result<Value, AdminError>;
}

/// Texts of storage rules to try. For a missing text, the text in use applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuleTexts {
    /// The text of `storage-schemas.conf`.
    pub schemas: Option<String>,
    /// The text of `storage-aggregation.conf`.
    pub aggregation: Option<String>,
}

/// The limits of a trial of rules or of another pass over all metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialLimits {
    /// Maximum number of metrics that are checked.
    pub metrics_max: u64,
    /// How long the pass over the metrics may take.
    pub time: Duration,
}

/// Explains what the rules do with a name, and what other rules would do with the existing metrics. Changes
/// nothing.
#[boxed_futures]
pub trait RuleTester: Send + Sync + Debug {
    /// Returns the texts of the storage rules in use, and their files, as a JSON object.
    ///
    /// # Errors
    ///
    /// `AdminError` if the process is stopping.
    async fn in_force(&self) -> Result<Value, AdminError>;

    /// Returns what happens to a received name, as a JSON object: the lists and rewrite rules that apply, the
    /// sections that match, the stages, and how an existing metric differs.
    ///
    /// # Errors
    ///
    /// `AdminError` if the store cannot be read.
    async fn explain(&self, name: &str) -> Result<Value, AdminError>;

    /// Returns what these rules would do with the existing metrics, as a JSON object. Ends early at a limit;
    /// the object says so.
    ///
    /// # Errors
    ///
    /// `AdminError::Invalid` with all problems of the texts, each with its line number.
    async fn try_texts(&self, texts: RuleTexts, limits: TrialLimits) -> Result<Value, AdminError>;
}

/// A question about costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostQuestion {
    /// A metric counts as unused if it was not written or not read for this many days.
    pub days: u32,
    /// How many components below `under` the listed directories are; at least 1.
    pub depth: usize,
    /// Only metrics below this directory are considered; empty for all metrics.
    pub under: String,
    /// Maximum number of rows of each list.
    pub limit: usize,
    /// The tag whose biggest values are asked for.
    pub tag: Option<String>,
}

/// Finds the directories, tags and metrics with the highest costs. Changes nothing.
#[boxed_futures]
pub trait CostSource: Send + Sync + Debug {
    /// Returns the biggest directories and tags, the newest metrics with their rules, and those that are not
    /// written or not read, as a JSON object. Ends early at a limit; the object says so.
    ///
    /// # Errors
    ///
    /// `AdminError` if the store cannot be read, or too many requests ask at once.
    async fn costs(&self, question: CostQuestion, limits: TrialLimits) -> Result<Value, AdminError>;
}

/// The sources of the status, and the credentials that open it to clients on other machines.
#[derive(Debug, Clone)]
pub struct StatusHandles {
    /// Returns what the status shows of the daemon.
    pub source: Arc<dyn StatusSource>,
    /// Explains and tries rules, for clients that may see the status.
    pub rules: Arc<dyn RuleTester>,
    /// Finds costs, for clients that may see the status.
    pub costs: Arc<dyn CostSource>,
    /// `admin.token`; empty if there is none.
    pub token: String,
    /// The secret of the data directory, which is accepted instead of the token.
    pub secret: AdminSecret,
}
