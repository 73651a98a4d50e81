//! Carbon's protobuf messages, in the same frames as pickles.

use prost::Message;

use super::emit::{Emitter, Flow, outcome};
use super::{Context, Cursor, Decode, Intake};
use crate::reject::Reject;

/// The content of a frame.
#[derive(Clone, PartialEq, Message)]
pub struct Payload {
    /// The metrics.
    #[prost(message, repeated, tag = "1")]
    pub metrics: Vec<Metric>,
}

/// A metric with its points.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// The name. A string in the definition; taken as bytes, so that one that is not UTF-8 costs its
    /// own points and not the frame.
    #[prost(bytes = "vec", tag = "1")]
    pub metric: Vec<u8>,
    /// The points.
    #[prost(message, repeated, tag = "2")]
    pub points: Vec<Point>,
}

/// One point.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Point {
    /// Seconds since the epoch.
    #[prost(uint32, tag = "1")]
    pub timestamp: u32,
    /// The value.
    #[prost(double, tag = "2")]
    pub value: f64,
}

/// Reads protobuf messages.
#[derive(Debug, Default)]
pub struct Protobuf;

impl Decode for Protobuf {
    fn decode(
        &mut self,
        frame: &[u8],
        from: Cursor,
        context: &Context<'_>,
        intake: &mut Intake,
    ) -> Option<Cursor> {
        match Payload::decode(frame) {
            Ok(payload) if !payload.metrics.is_empty() => {
                let mut emitter = Emitter::new(frame.len(), from, context, intake);
                outcome(payload_of(&payload, &mut emitter))
            }
            Ok(_) => {
                intake.tally.reject(Reject::Frame, b"a message without metrics");
                None
            }
            Err(error) => {
                intake.tally.reject(Reject::Frame, error.to_string().as_bytes());
                None
            }
        }
    }
}

fn payload_of(payload: &Payload, emitter: &mut Emitter<'_>) -> Flow {
    for metric in &payload.metrics {
        if metric.points.is_empty() {
            emitter.entry(&metric.metric, Err(Reject::Item))?;
        }
        for point in &metric.points {
            emitter.entry(&metric.metric, Ok((point.timestamp, point.value)))?;
        }
    }
    Flow::Continue(())
}
