//! Entry points for fuzzers. They accept any bytes and assert what must always hold.

use crate::name::NameOptions;
use crate::protocol::line::{self, Lines};
use crate::protocol::opentsdb::OpenTsdb;
use crate::protocol::pickle::Pickle;
use crate::protocol::protobuf::Protobuf;
use crate::protocol::{BATCH_BYTES, Compression, Context, Framed, Intake, Protocol, Step, Stream};

const NOW: u32 = 1_700_000_000;

/// Parses the bytes as lines over TCP, in chunks, and as a datagram.
pub fn line(data: &[u8]) {
    streams(data, || Lines::new(64));
    let mut intake = Intake::default();
    line::datagram(data, 64, &context(), &mut intake);
    check(&intake);
}

/// Parses the bytes as a stream of lines that may be compressed. With other chunks, a decompression bomb may
/// end one chunk earlier or later.
pub fn compressed(data: &[u8]) {
    for compression in [Compression::Auto, Compression::Snappy] {
        if data.len() < 4096 {
            streams(data, || Stream::new(Lines::new(64), compression));
        } else {
            points(&[data], Stream::new(Lines::new(64), compression));
        }
    }
}

/// Parses the bytes as a stream of pickle frames and as the content of one frame.
pub fn pickle(data: &[u8]) {
    streams(data, || Framed::new(Pickle, 4096));
    streams(&framed(data), || Framed::new(Pickle, 1 << 20));
}

/// Parses the bytes as a stream of protobuf frames and as the content of one frame.
pub fn protobuf(data: &[u8]) {
    streams(data, || Framed::new(Protobuf, 4096));
    streams(&framed(data), || Framed::new(Protobuf, 1 << 20));
}

/// Parses the bytes as lines of port 4242, in chunks.
pub fn opentsdb(data: &[u8]) {
    streams(data, || OpenTsdb::new(64));
}

/// Parses the bytes as a request of carbonlink.
pub fn carbonlink(data: &[u8]) {
    crate::carbonlink::check_request(data);
}

fn framed(data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), data].concat()
}

fn context() -> Context<'static> {
    Context { now: NOW, names: NameOptions::default(), relabel: None }
}

/// Asserts that bytes in one chunk and the same bytes in two chunks result in the same points.
fn streams<P: Protocol>(data: &[u8], protocol: impl Fn() -> P) {
    let whole = points(&[data], protocol());
    let cut = data.first().map_or(0, |first| usize::from(*first) * data.len() / 256);
    let (head, tail) = data.split_at(cut);
    assert_eq!(whole, points(&[head, tail], protocol()));
}

/// Parses the chunks. Returns all points and the number of refusals.
fn points(chunks: &[&[u8]], mut protocol: impl Protocol) -> (Vec<(String, u32, u64)>, u64) {
    let mut found = (Vec::new(), 0);
    let mut intake = Intake::default();
    for chunk in chunks {
        let mut step = protocol.feed(chunk, &context(), &mut intake);
        loop {
            take(&mut intake, &mut found);
            if step != Step::Again {
                break;
            }
            step = protocol.again(&context(), &mut intake);
        }
        if matches!(step, Step::Close | Step::End) {
            return found;
        }
    }
    protocol.finish(&mut intake);
    take(&mut intake, &mut found);
    found
}

fn take(intake: &mut Intake, found: &mut (Vec<(String, u32, u64)>, u64)) {
    check(intake);
    let points = &intake.points;
    found
        .0
        .extend(points.points().iter().map(|p| (points.name(p).to_owned(), p.timestamp, p.value.to_bits())));
    found.1 += intake.tally.total();
    intake.points.clear();
    intake.tally.clear();
}

fn check(intake: &Intake) {
    assert!(intake.points.bytes() < 2 * BATCH_BYTES);
    for point in intake.points.points() {
        assert!(!point.value.is_nan());
        let name = intake.points.name(point);
        assert_eq!(plumbago_model::sanitize(name).as_deref(), Ok(name));
    }
}
