//! Logs what a stop waits for, if this takes longer than a moment.

use std::time::Duration;

use plumbago_telemetry::{Conditions, Registry};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Pause before the first line of the log, and between two lines.
const PAUSE: Duration = Duration::from_secs(2);

/// What a stop waits for at the moment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The engine accepts what the listeners have read.
    Listeners,
    /// Open intervals are computed.
    Aggregation,
    /// The relay sends as much as it can.
    Relay,
    /// The store accepts the points and open windows that are in memory.
    Metrics,
    /// Requests in progress are answered.
    Requests,
    /// Files are written and closed.
    Closing,
}

impl Step {
    fn text(self) -> &'static str {
        match self {
            Self::Listeners => {
                "waiting until the engine has accepted the points that the listeners have read"
            }
            Self::Aggregation => "computing the open intervals of the aggregation rules",
            Self::Relay => "sending what the relay's destinations accept within 5 s; the rest stays on disk",
            Self::Metrics => "storing what is in memory; after 60 s the journal keeps the rest",
            Self::Requests => "waiting for requests in progress",
            Self::Closing => "closing the store",
        }
    }
}

/// Reports the steps of a stop until it is dropped.
#[derive(Debug)]
pub(super) struct Reporter {
    step: watch::Sender<Step>,
    task: JoinHandle<()>,
}

impl Reporter {
    pub(super) fn start(registry: Registry, conditions: Conditions) -> Self {
        let (step, current) = watch::channel(Step::Listeners);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(PAUSE).await;
                let step = *current.borrow();
                let left = registry.value("plumbago_engine_flush_all_left").unwrap_or(0.0);
                let left = matches!(step, Step::Metrics).then(|| format!("; {left} metrics are left"));
                let (text, left, trouble) = (step.text(), left.unwrap_or_default(), trouble(&conditions));
                tracing::info!("stopping: {text}{left}{trouble}");
            }
        });
        Self { step, task }
    }

    pub(super) fn begin(&self, step: Step) {
        self.step.send_replace(step);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The conditions that prevent points from being stored, as a text.
fn trouble(conditions: &Conditions) -> String {
    let held = conditions.list();
    let reasons =
        held.iter().filter(|held| matches!(held.name, "store" | "journal" | "store_broken" | "spool"));
    reasons.map(|held| format!("; {}", held.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_of_the_store_is_part_of_the_line() {
        let conditions = Conditions::new(&Registry::new());
        assert_eq!(trouble(&conditions), "");
        conditions.begin("memory", "no memory");
        conditions.begin("store", "the disk is full");
        assert_eq!(trouble(&conditions), "; the disk is full");
    }
}
