//! Time to parse lines and pickles into a batch.

use std::hint::black_box;
use std::io::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plumbago_ingest::protocol::line::Lines;
use plumbago_ingest::protocol::pickle::Pickle;
use plumbago_ingest::protocol::{Compression, Context, Framed, Intake, Protocol, Step, Stream};
use plumbago_ingest::{NameOptions, Relabel};

const LINES: usize = 4000;
const NOW: u32 = 1_700_000_000;

/// Names with five to eight components and about 50 bytes, and values with 1 to 17 digits.
fn names(suffix: &str) -> Vec<String> {
    (0..LINES)
        .map(|i| match i % 3 {
            0 => format!(
                "servers.dc{}.rack{:02}.web{:04}.cpu.{}.percent.user{suffix}",
                i % 3,
                i % 40,
                i,
                i % 16
            ),
            1 => format!(
                "servers.dc{}.rack{:02}.db{:04}.disk.sda{}.write_bytes{suffix}",
                i % 3,
                i % 40,
                i,
                i % 9
            ),
            _ => format!("apps.checkout.prod.pod-{i:05x}.http.requests.count{suffix}"),
        })
        .collect()
}

fn value(i: usize) -> String {
    match i % 10 {
        0 | 1 => "42".into(),
        2..=4 => (i * 7919 % 5000).to_string(),
        5 | 6 => (i * 104_729).to_string(),
        7 | 8 => format!("{}.{:02}", i % 100, i % 97),
        _ => format!("{}", (i as f64).sqrt()),
    }
}

fn lines(suffix: &str) -> Vec<u8> {
    let line = |(i, name): (usize, String)| format!("{name} {} {}\n", value(i), NOW - (i % 60) as u32);
    names(suffix).into_iter().enumerate().map(line).collect::<String>().into_bytes()
}

/// A frame as carbon's relay sends it: protocol 2, a list of `(name, (timestamp, value))` with floats.
fn frames() -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in names("").chunks(500) {
        let mut frame = b"\x80\x02]q\x01(".to_vec();
        for (i, name) in chunk.iter().enumerate() {
            frame.push(b'X');
            frame.extend((name.len() as u32).to_le_bytes());
            frame.extend(name.as_bytes());
            frame.extend(b"q\x02G");
            frame.extend(f64::from(NOW).to_be_bytes());
            frame.push(b'G');
            frame.extend(value(i).parse::<f64>().unwrap_or(0.0).to_be_bytes());
            frame.extend(b"\x86q\x03\x86q\x04");
        }
        frame.extend(b"e.");
        out.extend((frame.len() as u32).to_be_bytes());
        out.extend(frame);
    }
    out
}

/// The number of bytes that carbon-c-relay compresses together.
const FLUSH: usize = 32 << 10;

/// Lines as carbon-c-relay compresses them. The gzip stream has an end, so that the same bytes can be sent
/// again.
fn compressed(lines: &[u8]) -> [(&'static str, Vec<u8>); 3] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for piece in lines.chunks(FLUSH) {
        gzip.write_all(piece).and_then(|()| gzip.flush()).expect("a vector takes all");
    }
    let lz4 = lines.chunks(FLUSH).flat_map(|piece| {
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(piece).expect("a vector takes all");
        frame.finish().expect("a vector takes all")
    });
    let mut snappy = snap::write::FrameEncoder::new(Vec::new());
    snappy.write_all(lines).expect("a vector takes all");
    [
        ("line/gzip", gzip.finish().expect("a vector takes all")),
        ("line/lz4", lz4.collect()),
        ("line/snappy", snappy.into_inner().expect("a vector takes all")),
    ]
}

fn parse(c: &mut Criterion) {
    let (relabel, _) = Relabel::parse("^carbon\\.", "", "[pre]\n^servers\\.dc(\\d) = dc\\1.servers");
    let mut group = c.benchmark_group("parse");
    group.throughput(Throughput::Elements(LINES as u64));
    let cases = [
        ("line/clean", lines(""), None),
        ("line/double_dot", lines("..x"), None),
        ("line/tagged", lines(";dc=a;host=b"), None),
        ("line/relabel", lines(""), Some(&relabel)),
    ];
    for (name, bytes, relabel) in &cases {
        let context = Context { now: NOW, names: NameOptions::default(), relabel: *relabel };
        group.bench_function(*name, |b| {
            let mut protocol = Lines::new(16 << 10);
            let mut intake = Intake::for_bytes(bytes.len());
            b.iter(|| run(&mut protocol, bytes, &context, &mut intake));
        });
    }
    let context = Context { now: NOW, names: NameOptions::default(), relabel: None };
    let plain = lines("");
    for (name, bytes) in compressed(&plain).iter().chain([&("line/auto", plain.clone())]) {
        println!("{name}: {} bytes for {}", bytes.len(), plain.len());
        group.bench_function(*name, |b| {
            let mut protocol = Stream::new(Lines::new(16 << 10), Compression::Auto);
            let mut intake = Intake::for_bytes(plain.len());
            b.iter(|| run(&mut protocol, bytes, &context, &mut intake));
        });
    }
    let bytes = frames();
    group.bench_function("pickle/protocol_2", |b| {
        let mut protocol = Framed::new(Pickle, 1 << 20);
        let mut intake = Intake::for_bytes(bytes.len());
        b.iter(|| run(&mut protocol, &bytes, &context, &mut intake));
    });
    group.finish();
}

/// Reuses the memory of the batch, because allocating it is not the parser's work. A daemon's allocator also
/// keeps this memory.
fn run(protocol: &mut impl Protocol, bytes: &[u8], context: &Context<'_>, intake: &mut Intake) {
    intake.points.clear();
    let mut step = protocol.feed(black_box(bytes), context, intake);
    while step == Step::Again {
        step = protocol.again(context, intake);
    }
    assert_eq!((intake.points.len(), intake.tally.total()), (LINES, 0));
    black_box(intake);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(3));
    targets = parse
}
criterion_main!(benches);
