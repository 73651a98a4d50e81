//! Adapts the listeners' path into the engine to the API's [`PointWriter`], and the API's port to the
//! listeners' [`HttpServer`].

use std::ops::Range;
use std::time::Duration;

use plumbago_api::{BodyFault, Door, NotTaken, PointWriter};
use plumbago_boxed_futures::boxed_futures;
use plumbago_ingest::{HttpServer, Reject, Stream, Writes};
use plumbago_kairosdb::point::Points;
use plumbago_maintenance::runs::{RunError, Runs};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Pause between two checks whether a deletion has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Carries out the changes that requests make.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) writes: Writes,
    /// Deletions are runs of the verb `delete`.
    pub(crate) runs: Runs,
}

#[boxed_futures]
impl PointWriter for Requests {
    async fn write(&self, points: Points, bytes: usize) -> Result<(), NotTaken> {
        self.writes.write(points, bytes).await.map_err(|error| NotTaken(error.to_string()))
    }

    async fn delete(&self, names: Vec<String>, times: Option<Range<i64>>) -> Result<(), NotTaken> {
        let failed = |error: RunError| NotTaken(error.to_string());
        let mut parameters = json!({"which": {"names": names}, "confirmed": true});
        if let Some(times) = times {
            parameters["from"] = times.start.into();
            parameters["until"] = times.end.into();
        }
        let mut run = self.runs.start("delete", parameters).map_err(failed)?;
        while !run.state.is_over() {
            tokio::time::sleep(LOOK).await;
            run = self.runs.get(&run.id).map_err(failed)?;
        }
        match run.error {
            None => Ok(()),
            Some(error) => Err(NotTaken(error)),
        }
    }

    fn refuse(&self, fault: BodyFault, text: &str) {
        let reason = match fault {
            BodyFault::TooLarge => Reject::FrameTooLarge,
            BodyFault::Damaged => Reject::Damaged,
            BodyFault::Half => Reject::HalfFrame,
            BodyFault::Memory => Reject::Memory,
        };
        self.writes.refuse(reason, text);
    }
}

/// The API's port, for requests that come to the port of OpenTSDB's lines.
#[derive(Debug)]
pub(crate) struct ApiPort(pub(crate) Door);

#[boxed_futures]
impl HttpServer for ApiPort {
    async fn serve(&self, stream: Box<dyn Stream>, stop: CancellationToken) {
        self.0.serve(stream, &stop).await;
    }
}
