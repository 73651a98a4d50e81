//! Keeps the writer ids of this daemon registered.

use std::error::Error;
use std::time::Duration;

use plumbago_telemetry::Throttle;
use tokio::time::Instant;

use crate::retry::{RETRY_LINE_MS, RETRY_PAUSE, with_jitter};
use crate::{ClusterError, Member, host};

/// How many writer ids are tried in one attempt.
const DRAWS: usize = 16;
/// How often the registration is renewed, long before it expires.
const RENEW_EVERY: Duration = Duration::from_secs(3600);
/// The time from a first registration until it is checked again: the longest time that another daemon can
/// take between its look at the table and its own registration.
const FIRST_LOOK: Duration = Duration::from_secs(60);
/// How often the daemon checks whether a renewal is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Member {
    /// Registers the writer ids, or renews their registration. If another instance has them, takes other ids
    /// that are free.
    pub(crate) async fn register(&self) -> Result<(), ClusterError> {
        let (host, mut own) = (host(), self.own_writer().lock().await);
        let replica = own.file.identity().replica();
        for _ in 0..DRAWS {
            let (identity, instance) = (own.file.identity(), own.file.instance());
            if self.store().register_writer(identity, instance, &host).await? {
                own.is_registered = true;
                return Ok(());
            }
            let writer_id = identity.first_id();
            if std::mem::take(&mut own.is_registered) {
                tracing::error!(
                    writer_id,
                    "another instance has taken the writer id of this daemon; choosing a new one: points in \
                     the windows that are open now may be counted twice"
                );
            } else {
                tracing::warn!(writer_id, "the writer id belongs to another instance; choosing a new one");
            }
            let free = self.store().free_writer(replica).await?;
            own.file = own.file.replace(free.ok_or(ClusterError::NoFreeWriter(replica))?)?;
            self.store().set_writer_identity(own.file.identity());
        }
        Err(ClusterError::NoFreeWriter(replica))
    }

    /// Renews the registration every hour. Also measures the hour on the machine's clock, because the
    /// registration may have expired while the machine was suspended. Never returns.
    pub(crate) async fn keep_registered(self) {
        static FAILED: Throttle = Throttle::new(RETRY_LINE_MS);
        let (mut at, mut now, mut pause) = (Instant::now(), self.clock().now(), FIRST_LOOK);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let by_clock = Duration::from_secs(self.clock().now().abs_diff(now));
            if at.elapsed().max(by_clock) < pause {
                continue;
            }
            (at, now, pause) = (Instant::now(), self.clock().now(), RENEW_EVERY);
            if let Err(error) = self.renew().await {
                if let Some(suppressed) = FAILED.pass_now() {
                    tracing::warn!(
                        error = &error as &dyn Error,
                        suppressed,
                        "cannot renew the registration of the writer id; retrying"
                    );
                }
                pause = with_jitter(RETRY_PAUSE);
            }
        }
    }

    async fn renew(&self) -> Result<(), ClusterError> {
        if !self.schema_status().features.writers {
            return Ok(());
        }
        self.register().await
    }
}
