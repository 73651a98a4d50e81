//! systemd's watchdog: the daemon says that it is alive for as long as it is, which is more than that
//! the process exists. Every owner thread has to answer.

use plumbago_engine::Engine;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// Notifies three times in each period that the service manager allows (`WatchdogSec=`), until the
/// stop. Nothing where no watchdog is asked for.
pub(crate) async fn run(engine: Engine, stop: CancellationToken) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let pause = period / 3;
    loop {
        // A thread that never answers ends the notifications, and so the process.
        if engine.ledger().await.is_ok() {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}
