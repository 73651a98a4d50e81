//! Carbon's protobuf messages, in the same frames as pickles.

use prost::Message;

use super::emit::{Emitter, Flow, outcome};
use super::frame::{Cursor, Decode, Framed};
use super::parser::{Context, Intake, MessageLimit, Talk, TcpProtocol};
use crate::reject::Reject;

/// Protobuf messages over TCP. Off by default; the customary port is 2005.
pub const TCP: TcpProtocol = TcpProtocol {
    name: "protobuf",
    listen: "",
    limit: MessageLimit::FRAME,
    is_compressible: false,
    talk: Talk::Stream(|frame_bytes_max, _| Box::new(Framed::new(Protobuf, frame_bytes_max))),
};

/// The message in a frame.
#[derive(Clone, PartialEq, Message)]
pub struct Payload {
    /// The metrics.
    #[prost(message, repeated, tag = "1")]
    pub metrics: Vec<Metric>,
}

/// A metric with its points.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// The name. It is a string in the definition of the message. It is read as bytes here, so that a name that is
    /// not UTF-8 makes only its own points invalid, not the whole frame.
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

/// Decodes protobuf messages.
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
            emitter.refused(&metric.metric, Reject::Item)?;
        }
        for point in &metric.points {
            emitter.entry(&metric.metric, || Ok((point.timestamp, point.value)))?;
        }
    }
    Flow::Continue(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::NameOptions;

    type Points = Vec<(String, u32, f64)>;

    fn decoded(frame: &[u8]) -> (Points, Vec<(Reject, u64)>) {
        let context = Context { now: 1_700_000_000, names: NameOptions::default(), relabel: None };
        let mut intake = Intake::default();
        assert_eq!(Protobuf.decode(frame, Cursor::default(), &context, &mut intake), None);
        let points = intake.points.points().iter();
        let points = points.map(|p| (intake.points.name(p).to_owned(), p.timestamp, p.value)).collect();
        let counted = Reject::ALL.map(|r| (r, intake.tally.count(r))).into_iter().filter(|(_, n)| *n > 0);
        (points, counted.collect())
    }

    /// Encoded without the parser's code, so that the test does not take tags and wire types from the code
    /// that it tests.
    const ONE: &[u8] = b"\x0a\x16\x0a\x03a.b\x12\x0f\x08\x80\xe2\xcf\xaa\x06\x11\0\0\0\0\0\0\xf8\x3f";

    #[test]
    fn a_message_as_it_comes_over_the_wire() {
        assert_eq!(decoded(ONE), (vec![("a.b".to_owned(), 1_700_000_000, 1.5)], vec![]));
        assert_eq!(decoded(&ONE.repeat(3)).0.len(), 3);
    }

    #[test]
    fn each_bad_entry_is_counted_and_the_others_are_taken() {
        let metric = |name: &[u8], points: &[(u32, f64)]| Metric {
            metric: name.to_vec(),
            points: points
                .iter()
                .map(|(timestamp, value)| Point { timestamp: *timestamp, value: *value })
                .collect(),
        };
        let payload = Payload {
            metrics: vec![
                metric(b"a..b;y=1;x=2", &[(1, 1.0), (2, f64::NAN), (u32::MAX, f64::INFINITY)]),
                metric(b"", &[(1, 1.0)]),
                metric(b"no.points", &[]),
                metric(b"caf\xe9", &[(1, 1.0), (2, 2.0)]),
                metric(b"b", &[(3, 3.0)]),
            ],
        };
        let (points, refused) = decoded(&payload.encode_to_vec());
        let names: Vec<_> = points.iter().map(|(name, timestamp, _)| (name.as_str(), *timestamp)).collect();
        assert_eq!(names, [("a.b;x=2;y=1", 1), ("a.b;x=2;y=1", u32::MAX), ("b", 3)]);
        let expected = [(Reject::Nan, 1), (Reject::Encoding, 2), (Reject::NameEmpty, 1), (Reject::Item, 1)];
        assert_eq!(refused, expected);
    }

    #[test]
    fn what_is_no_message() {
        for frame in [&b""[..], b"garbage", &ONE[..20], b"\x0a\xff\xff\xff\xff\x0f"] {
            assert_eq!(decoded(frame), (vec![], vec![(Reject::Frame, 1)]), "{}", frame.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_counted(data in prop::collection::vec(any::<u8>(), 0..200), cut in 0..ONE.len()) {
            crate::fuzzing::protobuf(&data);
            crate::fuzzing::protobuf(&[&ONE[..cut], &data, &ONE[cut..]].concat());
        }
    }
}
