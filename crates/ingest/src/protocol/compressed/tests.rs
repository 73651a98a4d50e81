use std::io::Write;

use flate2::{Compress, FlushCompress, GzBuilder, write::GzEncoder};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;

use super::*;
use crate::name::NameOptions;
use crate::protocol::line::Lines;

const NOW: u32 = 1_700_000_000;

type Points = Vec<(String, u32, u64)>;

/// The result of a stream: points, refusals by reason, and whether the stream was read to its end.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    points: Points,
    refused: Vec<(Reject, u64)>,
    is_closed: bool,
}

impl Outcome {
    fn take(&mut self, intake: &mut Intake) {
        assert!(intake.points.bytes() < 2 * crate::protocol::BATCH_BYTES);
        let points = intake.points.points().iter();
        self.points
            .extend(points.map(|p| (intake.points.name(p).to_owned(), p.timestamp, p.value.to_bits())));
        for reason in Reject::ALL {
            match (self.refused.iter_mut().find(|(other, _)| *other == reason), intake.tally.count(reason)) {
                (_, 0) => {}
                (Some((_, sum)), count) => *sum += count,
                (None, count) => self.refused.push((reason, count)),
            }
        }
        *intake = Intake::default();
    }
}

fn read<'a>(protocol: &mut dyn Protocol, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let context = Context { now: NOW, names: NameOptions::default(), relabel: None };
    let (mut outcome, mut intake) = (Outcome::default(), Intake::default());
    for chunk in chunks {
        let mut step = protocol.feed(chunk, &context, &mut intake);
        loop {
            outcome.take(&mut intake);
            if step != Step::Again {
                break;
            }
            step = protocol.again(&context, &mut intake);
        }
        if step == Step::Close {
            outcome.is_closed = true;
            break;
        }
    }
    protocol.finish(&mut intake);
    outcome.take(&mut intake);
    outcome
}

fn stream(bytes: &[u8], compression: Compression) -> Outcome {
    read(&mut Stream::new(Lines::new(4096), compression), [bytes])
}

fn plain(bytes: &[u8]) -> Outcome {
    read(&mut Lines::new(4096), [bytes])
}

/// Lines of different lengths, good and bad.
fn lines(count: usize) -> Vec<u8> {
    let line = |i: usize| match i % 50 {
        49 => "not a line\n".to_owned(),
        _ => format!(
            "servers.dc{}.web{:03}.cpu.{}.user {}.{} {}\n",
            i % 3,
            i % 200,
            i % 8,
            i * 37 % 1000,
            i % 10,
            NOW
        ),
    };
    (0..count).map(line).collect::<String>().into_bytes()
}

/// Gzip as carbon-c-relay sends it: pieces of at most 32 KiB, flushed, without an end.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let header = GzBuilder::new().write(Vec::new(), flate2::Compression::none()).finish().unwrap();
    let mut out = header[..10].to_vec();
    let mut deflate = Compress::new(flate2::Compression::default(), false);
    for piece in bytes.chunks(32 << 10) {
        let mut packed = Vec::with_capacity(2 * piece.len() + 100);
        deflate.compress_vec(piece, &mut packed, FlushCompress::Partial).unwrap();
        out.extend(packed);
    }
    out
}

/// Complete gzip in two members, with every part that a header can have.
fn gzip_members(bytes: &[u8]) -> Vec<u8> {
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    let mut first = GzBuilder::new().extra("extra").filename("a name").comment("a comment");
    first = first.mtime(NOW);
    let mut first = first.write(Vec::new(), flate2::Compression::fast());
    first.write_all(head).unwrap();
    let mut second = GzEncoder::new(first.finish().unwrap(), flate2::Compression::best());
    second.write_all(tail).unwrap();
    second.finish().unwrap()
}

/// LZ4 as carbon-c-relay sends it: a frame for each piece.
fn lz4(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(32 << 10).flat_map(|piece| lz4_frame(piece, FrameInfo::new())).collect()
}

fn lz4_frame(bytes: &[u8], info: FrameInfo) -> Vec<u8> {
    let mut frame = FrameEncoder::with_frame_info(info, Vec::new());
    frame.write_all(bytes).unwrap();
    frame.finish().unwrap()
}

/// One frame of linked blocks, with every checksum.
fn lz4_linked(bytes: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new()
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max64KB)
        .block_checksums(true)
        .content_checksum(true)
        .content_size(Some(bytes.len() as u64));
    let skipped = b"\x53\x2a\x4d\x18\x05\0\0\0hello";
    [&skipped[..], &lz4_frame(bytes, info)].concat()
}

/// Blocks of 4 MiB, which are parsed in several steps.
fn lz4_large(bytes: &[u8]) -> Vec<u8> {
    lz4_frame(bytes, FrameInfo::new().block_size(BlockSize::Max4MB))
}

fn snappy_framed(bytes: &[u8]) -> Vec<u8> {
    let mut out = snap::write::FrameEncoder::new(Vec::new());
    out.write_all(bytes).unwrap();
    // A stream may identify itself again, and may be padded.
    [snappy::MAGIC, &out.into_inner().unwrap(), b"\xfe\x03\0\0\0\0\0", snappy::MAGIC].concat()
}

/// Snappy as carbon-c-relay sends it: a bare block for each piece.
fn snappy_raw(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = snap::raw::Encoder::new();
    bytes.chunks(32 << 10).flat_map(|piece| encoder.compress_vec(piece).unwrap()).collect()
}

type Pack = fn(&[u8]) -> Vec<u8>;

/// Every form of a compressed stream.
const FORMS: [(&str, Pack, Compression); 9] = [
    ("gzip", gzip, Compression::Auto),
    ("gzip members", gzip_members, Compression::Auto),
    ("lz4", lz4, Compression::Auto),
    ("lz4 linked", lz4_linked, Compression::Auto),
    ("lz4 large", lz4_large, Compression::Auto),
    ("snappy framed", snappy_framed, Compression::Auto),
    ("snappy framed, announced", snappy_framed, Compression::Snappy),
    ("snappy raw", snappy_raw, Compression::Snappy),
    ("plain", <[u8]>::to_vec, Compression::Auto),
];

/// A stream that starts with a frame to be skipped is not recognised, but one that continues with it is read.
fn packed(form: usize, bytes: &[u8]) -> Vec<u8> {
    let (name, pack, _) = FORMS[form];
    if name == "lz4 linked" { [lz4(b"\n"), pack(bytes)].concat() } else { pack(bytes) }
}

#[test]
fn compressed_lines_are_the_lines() {
    let bytes = [lines(20_000), b"half a li".to_vec()].concat();
    let expected = plain(&bytes);
    assert_eq!(expected.points.len(), 19_600);
    assert_eq!(expected.refused, [(Reject::Value, 400), (Reject::HalfLine, 1)]);
    for (form, (name, _, compression)) in FORMS.iter().enumerate() {
        let outcome = stream(&packed(form, &bytes), *compression);
        assert_eq!(outcome.points.len(), expected.points.len(), "{name}: {:?}", outcome.refused);
        assert!(outcome == expected, "{name}: {:?}", outcome.refused);
    }
}

#[test]
fn a_flush_is_seen_at_once() {
    let context = Context { now: NOW, names: NameOptions::default(), relabel: None };
    for (name, pack, compression) in FORMS {
        if name.contains("linked") || name.contains("members") {
            continue;
        }
        let (mut protocol, mut intake) = (Stream::new(Lines::new(4096), compression), Intake::default());
        let bytes = pack(b"a.b 1 1700000000\nc 2 1700000000\nd 3 17");
        assert_eq!(protocol.feed(&bytes, &context, &mut intake), Step::Read);
        assert_eq!(intake.points.len(), 2, "{name}");
    }
}

#[test]
fn compression_can_be_off() {
    let bytes = gzip(b"a.b 1 1700000000\n");
    let outcome = read(&mut *(crate::protocol::line::connect)(4096, Compression::None), [&bytes[..]]);
    assert!(outcome.points.is_empty() && !outcome.is_closed, "{outcome:?}");
}

#[test]
fn damage_ends_the_stream_and_keeps_what_came_before() {
    let (good, more) = (lines(300), lines(3000));
    for (name, pack, compression) in FORMS {
        if name == "plain" || name == "lz4 linked" {
            continue;
        }
        // Garbage after a complete stream or a flush, if the format has one.
        let mut bytes = pack(&good);
        if name == "gzip" {
            bytes = gzip_members(&good);
        }
        bytes.extend(b"\x03\x02\x01\xffgarbage, and so on and on");
        let outcome = stream(&bytes, compression);
        assert_eq!(outcome.points, plain(&good).points, "{name}");
        assert!(outcome.is_closed, "{name}");
        assert!(outcome.refused.contains(&(Reject::Damaged, 1)), "{name}: {:?}", outcome.refused);
        // A changed byte in the middle.
        let mut bytes = pack(&more);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        let outcome = stream(&bytes, compression);
        assert!(outcome.points.len() <= plain(&more).points.len() + 1, "{name}");
    }
}

#[test]
fn checksums_are_compared() {
    let bytes = lines(1000);
    let cases: [(Vec<u8>, usize); 4] = [
        (gzip_members(&bytes), 5),
        ([lz4(b"\n"), lz4_linked(&bytes)].concat(), 2),
        ([lz4(b"\n"), lz4_linked(&bytes)].concat(), 10),
        (snappy_framed(b"a 1 1\n"), 7 + 10 + 3),
    ];
    for (at, (mut bytes, from_end)) in cases.into_iter().enumerate() {
        let position = bytes.len() - from_end;
        bytes[position] ^= 1;
        let outcome = stream(&bytes, Compression::Auto);
        assert_eq!(outcome.refused.last(), Some(&(Reject::Damaged, 1)), "case {at}: {:?}", outcome.refused);
    }
}

#[test]
fn a_cut_block_is_counted_and_a_missing_end_is_not() {
    let bytes = b"a 1 1700000000\n";
    for (bytes, is_cut) in [
        (gzip(bytes), false),
        (gzip(bytes)[..5].to_vec(), true),
        (gzip_members(bytes), false),
        (gzip_members(bytes)[..gzip_members(bytes).len() - 3].to_vec(), true),
        (lz4(bytes), false),
        (lz4(bytes)[..10].to_vec(), true),
        (snappy_framed(bytes), false),
        (snappy_framed(bytes)[..25].to_vec(), true),
        (b"\x1f".to_vec(), false),
    ] {
        let outcome = stream(&bytes, Compression::Auto);
        assert!(!outcome.is_closed);
        assert_eq!(outcome.refused.iter().any(|(r, _)| *r == Reject::HalfFrame), is_cut, "{bytes:x?}");
    }
}

#[test]
fn bombs_are_refused() {
    let zeros = vec![b'x'; 64 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&zeros).unwrap();
    let gzip = gzip.finish().unwrap();
    for bytes in [gzip, lz4_large(&zeros)] {
        let mut protocol = Stream::new(Lines::new(4096), Compression::Auto);
        let outcome = read(&mut protocol, bytes.chunks(256 << 10));
        assert_eq!(outcome.refused, [(Reject::LineTooLong, 1), (Reject::Amplified, 1)]);
        assert!(outcome.is_closed && protocol.held_bytes() < 64 << 10, "{}", protocol.held_bytes());
    }
    // A small number of points never counts as a decompression bomb.
    let same = b"a.b.c.d.e.f.g 1 1700000000\n".repeat(20_000);
    assert_eq!(stream(&gzip_members(&same), Compression::Auto).points.len(), 20_000);
}

#[test]
fn hostile_headers_take_no_memory() {
    for bytes in [
        // An LZ4 block and a snappy chunk that claim to be large.
        &b"\x04\x22\x4d\x18\x40\x40\xc0\xff\xff\xff\x7f"[..],
        b"\xff\x06\0\0sNaPpY\0\xff\xff\xff",
        b"\xff\x06\0\0sNaPpY\x05\x01\0\0",
        b"\x04\x22\x4d\x18\x41\x40\0",
        b"\x1f\x8b\x07",
        b"\x1f\x8b\x08\xe0",
    ] {
        let mut protocol = Stream::new(Lines::new(4096), Compression::Auto);
        let outcome = read(&mut protocol, [bytes]);
        assert_eq!(outcome.refused, [(Reject::Damaged, 1)], "{bytes:x?}");
        assert!(outcome.is_closed && protocol.held_bytes() < 1024);
    }
    for bytes in [&b"\xff\xff\xff\xff\x0f"[..], b"\x10\xfc\xff\xff\xff\xff", b"\x04\x01\x09"] {
        assert_eq!(stream(bytes, Compression::Snappy).refused, [(Reject::Damaged, 1)], "{bytes:x?}");
    }
}

proptest! {
    #[test]
    fn chunks_do_not_matter(form in 0..FORMS.len(), count in 0usize..2500, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let bytes = packed(form, &lines(count));
        let compression = FORMS[form].2;
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
        let outcome = read(&mut Stream::new(Lines::new(4096), compression), chunks);
        prop_assert!(outcome == stream(&bytes, compression));
        prop_assert_eq!(outcome.points, plain(&lines(count)).points);
    }

    #[test]
    fn single_bytes_do_not_matter(form in 0..FORMS.len(), count in 0usize..30) {
        let bytes = packed(form, &lines(count));
        let outcome = read(&mut Stream::new(Lines::new(4096), FORMS[form].2), bytes.chunks(1));
        prop_assert_eq!(outcome, plain(&lines(count)));
    }

    #[test]
    fn any_bytes_are_decoded_or_counted(form in 0..FORMS.len(), count in 0usize..60, garbage in prop::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>()) {
        let mut bytes = packed(form, &lines(count));
        let at = at.index(bytes.len() + 1);
        bytes.splice(at..(at + garbage.len() / 2).min(bytes.len()), garbage);
        crate::fuzzing::compressed(&bytes);
    }
}
