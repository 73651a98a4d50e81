//! Points that arrive in requests to the API's port. They pass through the same steps as those of the
//! listeners: lists, rewrite rules, names, counters, sink.

use std::sync::Arc;
use std::time::Duration;

use plumbago_kairosdb::point::{Points, Reason};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::listener::Shared;
use crate::protocol::{BATCH_BYTES, Intake, Losses};
use crate::reject::{Reject, reject_of};
use crate::relabel::with_stored_series;
use crate::stats::{Listener, ListenerStats};

/// How long a request waits for its turn, while batches of other requests go to the engine.
const TURN: Duration = Duration::from_secs(10);

/// Accepts the points of requests to the API's port.
#[derive(Clone)]
pub struct Writes {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Why the points of a request were not taken. The sender has to send them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Too many requests are waiting for the engine.
    #[error("too many points are waiting; send these points again later")]
    Busy,
    /// The process is stopping, or the engine has failed.
    #[error("no points are accepted now; send them again later")]
    Stopped,
}

impl Writes {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// Takes the points of a body of `bytes` bytes. Once it returns, a kill of the process cannot lose those
    /// that were accepted. Points that lists or rules refuse are only counted, as for lines.
    ///
    /// # Errors
    /// If not all points were taken; they are counted as rejected.
    pub async fn write(&self, points: Points, bytes: usize) -> Result<(), WriteError> {
        let (this, token) = (self.clone(), self.tasks.token());
        // A separate task: if the client disconnects, its points must still reach the sink.
        let task = tokio::spawn(async move {
            let _token = token;
            this.take(&points, bytes).await
        });
        task.await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Counts a request whose points cannot be read.
    pub fn refuse(&self, reason: Reject, text: &str) {
        let mut intake = Intake { messages: 1, ..Intake::default() };
        intake.tally.reject(reason, text.as_bytes());
        self.stats().parsed(0, &mut intake, self.shared.clock.now_ms());
    }

    /// Waits for the requests in progress; later ones are refused.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn stats(&self) -> &ListenerStats {
        self.shared.stats.of(Listener::API)
    }

    async fn take(&self, points: &Points, bytes: usize) -> Result<(), WriteError> {
        let mut intake = Intake { messages: 1, ..Intake::default() };
        refusals(points, &mut intake);
        self.stats().parsed(bytes, &mut intake, self.shared.clock.now_ms());
        let permit = timeout(TURN, self.shared.in_flight.acquire()).await;
        let outcome = match permit {
            _ if self.stop.is_cancelled() => Err((0, WriteError::Stopped)),
            Ok(Ok(_permit)) => self.push(points).await,
            Ok(Err(_)) => Err((0, WriteError::Stopped)),
            Err(_) => Err((0, WriteError::Busy)),
        };
        if let Err((done, error)) = outcome {
            let left = points.points().len() - done;
            self.stats().lost(left, self.shared.clock.now_ms());
            return Err(error);
        }
        let Points { cut, with_ttl, rounded, .. } = *points;
        self.shared.stats.note(Losses { cut, with_ttl, rounded });
        if points.points().is_empty() || self.shared.sink.wait_written().await {
            Ok(())
        } else {
            Err(WriteError::Stopped)
        }
    }

    /// Pushes the points in batches. If this fails, the error contains the number of points that are already
    /// counted.
    async fn push(&self, points: &Points) -> Result<(), (usize, WriteError)> {
        let mut done = 0;
        while done < points.points().len() {
            let mut intake = Intake::for_bytes(64 * (points.points().len() - done).min(BATCH_BYTES / 64));
            done += self.fill(points, done, &mut intake);
            self.stats().parsed(0, &mut intake, self.shared.clock.now_ms());
            if !self.shared.push(intake.points, self.stats()).await {
                return Err((done, WriteError::Stopped));
            }
        }
        Ok(())
    }

    /// Fills a batch with points, starting at position `from`. Returns the number of points that are in the
    /// batch or were refused.
    fn fill(&self, points: &Points, from: usize, intake: &mut Intake) -> usize {
        let relabel = self.shared.rules.current();
        let context = self.shared.context(&relabel);
        let (mut series, mut name) = (None, Vec::new());
        let mut outcome = Ok(());
        for (at, point) in points.points()[from..].iter().enumerate() {
            if intake.points.bytes() >= BATCH_BYTES {
                return at;
            }
            if series != Some(point.series) {
                series = Some(point.series);
                name.clear();
                let received = points.name(point.series).as_bytes();
                let keep = |clean: &[u8]| name.extend_from_slice(clean);
                outcome = with_stored_series(received, context.names, context.relabel, keep);
            }
            match outcome {
                Ok(()) => intake.points.push_utf8(&name, point.timestamp, point.value),
                Err(reason) => intake.tally.reject(reason, points.name(point.series).as_bytes()),
            }
        }
        points.points().len() - from
    }
}

impl std::fmt::Debug for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writes")
    }
}

/// Counts what the parser refused.
fn refusals(points: &Points, intake: &mut Intake) {
    for reason in Reason::ALL {
        let count = points.count(reason);
        let text = points.refused().iter().find(|refused| refused.reason == reason);
        let text = text.map_or("", |refused| refused.text.as_str());
        intake.tally.reject_many(reject_of(reason), count, text.as_bytes());
    }
}
