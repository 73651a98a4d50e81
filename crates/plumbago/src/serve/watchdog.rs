//! Answers systemd's watchdog, but only while every shard of the engine responds.

use plumbago_engine::Engine;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// Notifies the service manager three times per watchdog period (`WatchdogSec=`) until `stop`. Returns at
/// once if no watchdog is set.
pub(crate) async fn run(engine: Engine, stop: CancellationToken) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let pause = period / 3;
    loop {
        // While a shard hangs, this call does not return. So systemd gets no notification and restarts the
        // process.
        if engine.ledger().await.is_ok() {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}
