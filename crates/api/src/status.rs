//! The daemon's status, its test of rules and what costs, as the process gives them to the API's port.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use crate::admin::AdminSecret;
use crate::error::AdminError;

/// Looks inside the process.
#[async_trait]
pub trait StatusSource: Send + Sync + Debug {
    /// Returns what the process says of itself, as a JSON object: `about` (version, start, store, memory),
    /// `store` (its stages), `ledger`, `refused` (samples of refused points), `jobs` and `maintenance`.
    ///
    /// # Errors
    ///
    /// `AdminError` if the engine has been stopped.
    async fn status(&self) -> Result<Value, AdminError>;
}

/// Texts of storage rules that are tried; the text in force stands for one that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuleTexts {
    /// `storage-schemas.conf`.
    pub schemas: Option<String>,
    /// `storage-aggregation.conf`.
    pub aggregation: Option<String>,
}

/// How much of the daemon a trial of rules, or a look at all metrics, may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialLimits {
    /// Most metrics that are looked at.
    pub metrics_max: u64,
    /// How long it may look at them.
    pub time: Duration,
}

/// Says what the rules do with a name, and what other rules would do with the metrics that exist. Changes nothing.
#[async_trait]
pub trait RuleTester: Send + Sync + Debug {
    /// Returns the texts of the storage rules in force, and their files, as a JSON object.
    ///
    /// # Errors
    ///
    /// `AdminError` if the process is stopping.
    async fn in_force(&self) -> Result<Value, AdminError>;

    /// Returns what becomes of a name as it is received, as a JSON object: what takes it on its way in, the sections that fit,
    /// the stages, and where an existing metric differs.
    ///
    /// # Errors
    ///
    /// `AdminError` if the store cannot be read.
    async fn explain(&self, name: &str) -> Result<Value, AdminError>;

    /// Returns what these rules would do with the metrics that exist, as a JSON object. Ends early at a limit, and says so.
    ///
    /// # Errors
    ///
    /// `AdminError::Invalid` with all problems of the texts, each with its line.
    async fn try_texts(&self, texts: RuleTexts, limits: TrialLimits) -> Result<Value, AdminError>;
}

/// What is asked for about costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostQuestion {
    /// How many days nobody wrote or read a metric that counts as unused.
    pub days: u32,
    /// How many components below `under` directories are, at least 1.
    pub depth: usize,
    /// Only metrics below this directory; empty for all.
    pub under: String,
    /// Most rows of each list.
    pub limit: usize,
    /// The tag whose biggest values are asked for.
    pub tag: Option<String>,
}

/// Tells what costs. Changes nothing.
#[async_trait]
pub trait CostSource: Send + Sync + Debug {
    /// Returns the biggest directories and tags, the newest metrics with their rules, and those that nobody writes or reads,
    /// as a JSON object. Ends early at a limit, and says so.
    ///
    /// # Errors
    ///
    /// `AdminError` if the store cannot be read, or too many ask at once.
    async fn costs(&self, question: CostQuestion, limits: TrialLimits) -> Result<Value, AdminError>;
}

/// Where the status comes from, and what those have to know who may not see it otherwise.
#[derive(Debug, Clone)]
pub struct StatusHandles {
    /// Gives the status.
    pub source: Arc<dyn StatusSource>,
    /// Explains and tries rules, for those who may see the status.
    pub rules: Arc<dyn RuleTester>,
    /// Tells what costs, to those who may see the status.
    pub costs: Arc<dyn CostSource>,
    /// `admin.token`; empty if there is none.
    pub token: String,
    /// The secret of the data directory, which is as good as the token.
    pub secret: AdminSecret,
}
