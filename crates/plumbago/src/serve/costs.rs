//! Answers the API's requests about costs, from the store and the rules in effect.

use std::fmt;

use plumbago_api::{AdminError, CostQuestion, CostSource, TrialLimits};
use plumbago_boxed_futures::boxed_futures;
use plumbago_maintenance::costs;
use plumbago_maintenance::tester::trial::Limits;
use plumbago_maintenance::verb::Work;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::rule_tester::{failed, shown};
use super::{Core, rules};

/// Answers requests about what metrics cost.
pub(super) struct Costs {
    work: Work,
    rules: rules::Live,
    reads_are_noted: bool,
    /// Held by the request that reads all metrics, so that only one such request runs at a time.
    turn: Semaphore,
}

impl fmt::Debug for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Costs")
    }
}

impl Costs {
    pub(super) fn new(core: &Core, work: Work) -> Self {
        let reads_are_noted = core.keeper.notes_reads().is_some();
        Self { work, rules: core.rules.clone(), reads_are_noted, turn: Semaphore::new(1) }
    }
}

#[boxed_futures]
impl CostSource for Costs {
    async fn costs(&self, question: CostQuestion, limits: TrialLimits) -> Result<Value, AdminError> {
        let limits = Limits { metrics_max: limits.metrics_max, until: Instant::now() + limits.time };
        let Ok(turn) = timeout_at(limits.until, self.turn.acquire()).await else {
            let text = "another request is already computing the costs, which takes long here; try again in \
                        a minute";
            return Err(AdminError::Failed(text.to_owned()));
        };
        let _turn = turn.map_err(|error| AdminError::Failed(error.to_string()))?;
        let CostQuestion { days, depth, under, limit, tag } = question;
        let asked = json!({"days": days, "depth": depth, "under": under, "limit": limit});
        let reads_are_noted = self.reads_are_noted;
        let question = costs::Question { days, depth, under, limit, tag, reads_are_noted };
        let work = self.work.for_run(self.work.stop().child_token());
        let (rules, files) = (self.rules.load(), self.rules.files());
        let found = costs::measure(&work, &rules, question, limits).await.map_err(failed)?;
        let mut answer =
            serde_json::to_value(found).map_err(|error| AdminError::Failed(error.to_string()))?;
        answer["asked"] = asked;
        answer["now"] = json!(work.context.clock.now());
        answer["schemas"] = json!(shown(&files.schemas));
        Ok(answer)
    }
}
