//! The verbs `copy` and `move`.

use plumbago_boxed_futures::boxed_futures;
use serde::{Deserialize, Serialize};

use crate::copies::{CopiesReport, CopyPlan, Old, copy};
use crate::verb::{Verb, VerbError, Work};

/// Copies metrics to other names.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyMetrics {
    /// What to copy, and how.
    #[serde(flatten)]
    pub plan: CopyPlan,
}

/// Copies metrics to other names, and deletes them under the old ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveMetrics {
    /// What to move, and how.
    #[serde(flatten)]
    pub plan: CopyPlan,
}

#[boxed_futures]
impl Verb for CopyMetrics {
    const NAME: &'static str = "copy";
    type Answer = CopiesReport;

    fn check(&self) -> Result<(), String> {
        self.plan.check()
    }

    async fn run(&self, work: &Work) -> Result<CopiesReport, VerbError> {
        copy(&self.plan, Old::Stays, work).await
    }
}

#[boxed_futures]
impl Verb for MoveMetrics {
    const NAME: &'static str = "move";
    type Answer = CopiesReport;

    fn check(&self) -> Result<(), String> {
        self.plan.check()
    }

    async fn run(&self, work: &Work) -> Result<CopiesReport, VerbError> {
        copy(&self.plan, Old::Goes, work).await
    }
}
