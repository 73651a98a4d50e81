//! Prints "ready" on standard output when the daemon is ready.

use std::time::Duration;

use plumbago_api::Readiness;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use crate::output::say;

/// Pause between two checks whether the daemon is ready.
const LOOK: Duration = Duration::from_millis(100);

/// Prints `ready` and `hints` as soon as `/readyz` reports that the daemon is ready. Until then the daemon accepts
/// points, and a line says why it is not ready yet.
pub(super) fn announce(health: &Health, hints: String, stop: &CancellationToken) {
    let reasons = reasons(health);
    if reasons.is_empty() {
        return print(&hints);
    }
    say(&format!("accepting points; not ready yet: {}", reasons.join("; ").replace('\n', " ")));
    let (health, stop) = (health.clone(), stop.clone());
    tokio::spawn(async move {
        while !self::reasons(&health).is_empty() {
            if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return;
            }
        }
        print(&hints);
    });
}

fn reasons(health: &Health) -> Vec<String> {
    let held = health.conditions().into_iter();
    held.filter(|condition| condition.severity.blocks()).map(|condition| condition.text).collect()
}

fn print(hints: &str) {
    say("ready");
    if !hints.is_empty() {
        say(hints.trim_end());
    }
    tracing::info!("ready");
}
