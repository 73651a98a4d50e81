use std::path::Path;

use proptest::prelude::*;

use super::machine::held_bytes;
use super::*;
use crate::name::NameOptions;
use crate::protocol::{BATCH_BYTES, Framed, Protocol, Step};

const NOW: u32 = 1_700_000_000;

/// The results of carbon 1.1.10 for the files in this directory. `testdata/pickles.py` writes all of them.
const CARBON: &str = include_str!("../../../testdata/pickle/expected.tsv");

fn context() -> Context<'static> {
    Context { now: NOW, names: NameOptions::default(), relabel: None }
}

fn decoded(frame: &[u8]) -> Intake {
    let mut intake = Intake::default();
    assert_eq!(Pickle.decode(frame, Cursor::default(), &context(), &mut intake), None);
    intake
}

fn shown(intake: &Intake) -> Vec<String> {
    let show = |p: &plumbago_model::PointRef| {
        format!("{}\t{:016x}\t{}", intake.points.name(p), p.value.to_bits(), p.timestamp)
    };
    intake.points.points().iter().map(show).collect()
}

fn reasons(intake: &Intake) -> Vec<(Reject, u64)> {
    Reject::ALL.map(|r| (r, intake.tally.count(r))).into_iter().filter(|(_, n)| *n > 0).collect()
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

/// The invalid items of `pickles.py`, in every protocol version.
const BAD_ITEMS: [(Reject, u64); 4] =
    [(Reject::Value, 2), (Reject::Nan, 1), (Reject::Item, 3), (Reject::Frame, 0)];

#[test]
fn pickles_are_read_as_carbon_reads_them() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/pickle");
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pickle") {
            continue;
        }
        files += 1;
        let label = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let intake = decoded(&std::fs::read(&path).unwrap());
        let lines = CARBON.lines().filter_map(|line| line.split_once('\t'));
        let carbon: Vec<_> = lines.filter(|(file, _)| *file == label).map(|(_, point)| point).collect();
        match label.split('-').next().unwrap() {
            // Carbon sorts tags in its storage, not in its receiver.
            "python3" | "tuple" | "no" => {
                let carbon: Vec<_> = carbon.iter().map(|p| p.replace("y=1;x=2", "x=2;y=1")).collect();
                assert_eq!(shown(&intake), carbon, "{label}");
            }
            // Unlike go-carbon, carbon accepts neither names as bytes nor several points per item.
            "bytes" => assert_eq!(shown(&intake), ["bytes.name\t401e000000000000\t1700000000"]),
            "several" => assert_eq!(intake.points.len(), 3),
            _ => assert_eq!(shown(&intake), carbon, "{label}"),
        }
        match label.split('-').next().unwrap() {
            "python3" | "no" => {
                BAD_ITEMS.iter().for_each(|(r, n)| assert_eq!(intake.tally.count(*r), *n, "{label} {r}"));
                assert_eq!(intake.received(), 16);
            }
            "dict" => assert_eq!(reasons(&intake), [(Reject::Item, 2)], "{label}"),
            "string" => assert_eq!(reasons(&intake), [(Reject::Item, 1)], "{label}"),
            "statsd" => assert_eq!(reasons(&intake), [(Reject::Nan, 1)], "{label}"),
            _ => assert_eq!(reasons(&intake), [], "{label}"),
        }
    }
    assert!(files > 25, "{files}");
}

#[test]
fn what_is_no_data_is_refused() {
    for frame in [
        &b""[..],
        b"(l",                                    // no STOP
        b".",                                     // nothing to give
        b"(.",                                    // only a mark
        b"cos\nsystem\n(S'id'\ntR.",              // GLOBAL, REDUCE
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.", // STACK_GLOBAL
        b"(ios\nsystem\n.",                       // INST
        b"]2.",                                   // DUP
        b"Pid\n.",                                // PERSID
        b"\x82\x01.",                             // EXT1
        b"\x8f.",                                 // a set
        b"\x80\x06].",                            // a protocol of the future
        b"\x95\xff\0\0\0\0\0\0\0].",              // a frame longer than the frame
        b"]a.",                                   // nothing to append
        b"NNa.",                                  // append to None
        b"](Na.",                                 // append across a mark
        b"N\x86.",                                // half a pair
        b"Nt.",                                   // no mark
        b"h\x05.",                                // a memo entry that is none
        b"]r\xff\xff\xff\x7f.",                   // a memo entry far out
        b"U\xffabc.",                             // a string longer than the frame
        b"T\xff\xff\xff\xff.",                    // a negative length
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", // a length of 64 bits
        b"p99999999999999999999\n.",
        b"GABC",
        b"S'abc",
        b"\xff\xfe\xfd",
    ] {
        let intake = decoded(frame);
        let label = frame.escape_ascii().to_string();
        assert_eq!((reasons(&intake), intake.points.len()), (vec![(Reject::Frame, 1)], 0), "{label}");
    }
}

#[test]
fn one_bad_item_costs_no_other() {
    let good = b"(S'good'\n(I1700000000\nI1\ntta";
    for (item, reason) in [
        (&b"Na"[..], Reject::Item),
        (b"(ta", Reject::Item),
        (b"(S'a'\nta", Reject::Item),
        (b"(I1\n(I1700000000\nI1\ntta", Reject::Item),
        (b"(S'a'\nNta", Reject::Item),
        (b"(S'a'\n(I1\ntta", Reject::Item),
        (b"(S'a'\n(I1\nI2\nI3\ntta", Reject::Item),
        (b"(S'a'\n(I1700000000\nNtta", Reject::Value),
        (b"(S'a'\n(I1700000000\nS'1_0'\ntta", Reject::Value),
        (b"(S'a'\n(NI1\ntta", Reject::Timestamp),
        (b"(S'a'\n(I-2\nI1\ntta", Reject::Timestamp),
        (b"(S'a'\n(Fnan\nI1\ntta", Reject::Timestamp),
        (b"(S'a'\n(L1700000000000L\nI1\ntta", Reject::Future),
        (b"(S'a'\n(I1700000000\nFnan\ntta", Reject::Nan),
        (b"(S'a b'\n(I1700000000\nI1\ntta", Reject::NameControl),
        (b"(S'a\\xff'\n(I1700000000\nI1\ntta", Reject::Encoding),
        (b"(S'a\n(I1700000000\nI1\ntta", Reject::Item),
        (b"(S'a\\x4'\n(I1700000000\nI1\ntta", Reject::Item),
        (b"(S''\n(I1700000000\nI1\ntta", Reject::NameEmpty),
        (b"(S'a;b'\n(I1700000000\nI1\ntta", Reject::Tags),
        (b"(S'a'\n(I1700000000\n\x8a\x11\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01tta", Reject::Value),
        (b"}a", Reject::Item),
        (b"]a", Reject::Item),
    ] {
        let intake = decoded(&[&b"(l"[..], good, item, good, b"."].concat());
        let label = item.escape_ascii().to_string();
        assert_eq!((reasons(&intake), intake.points.len()), (vec![(reason, 1)], 2), "{label}");
    }
}

#[test]
fn strange_but_harmless_shapes() {
    // A list that contains itself, and one that grows after it was put into the memo.
    assert_eq!(reasons(&decoded(b"]q\x00h\x00a.")), [(Reject::Item, 1)]);
    assert_eq!(decoded(b"](lq\x00a0h\x00(U\x01a(I1\nI2\ntta.").points.len(), 1);
    // POP, POP_MARK, and bytes after the end.
    assert_eq!(decoded(b"]N0(NN1(U\x01a(I1\nI2\ntta.garbage").points.len(), 1);
    assert_eq!(decoded(b"](0(U\x01a(I1\nI2\ntta.").points.len(), 1);
    assert_eq!(decoded(b"((ttu.").tally.count(Reject::Frame), 1);
}

/// Memory that a frame may take per byte, including the spare capacity of vectors.
const BYTES_PER_BYTE: usize = 40;

#[test]
fn bombs_hold_a_small_multiple_of_their_frame() {
    const SIZE: usize = 1 << 20;
    let pieces: [&[u8]; 14] = [
        b"]", b"(", b"N", b")", b"}", b"]\x94", b"N\x94", b"Na", b"N\x85", b"h\x00", b"(e", b"(t", b"(l",
        b"U\x00",
    ];
    for piece in pieces {
        for start in [&b"]\x94"[..], b"(", b""] {
            let frame = [start, &piece.repeat(SIZE / piece.len()), b"."].concat();
            let held = held_bytes(&frame);
            let label = piece.escape_ascii().to_string();
            assert!(held < BYTES_PER_BYTE * frame.len(), "{label}: {}", held / frame.len());
            let intake = decoded(&frame);
            assert!(intake.points.is_empty() && intake.received() <= SIZE as u64, "{label}");
        }
    }
}

/// A long name and a point, repeated through the memo with 5 bytes per copy of the name.
fn repeating(name_bytes: usize, copies: usize) -> Vec<u8> {
    let mut frame = b"\x80\x02](X".to_vec();
    frame.extend((name_bytes as u32).to_le_bytes());
    frame.extend(vec![b'n'; name_bytes]);
    frame.extend(b"q\x00K\x01K\x02\x86q\x01\x86");
    frame.extend(b"h\x00h\x01\x86".repeat(copies - 1));
    frame.extend(b"e.");
    frame
}

/// Parses a stream. Returns the points, the refusals and the size of the largest batch.
fn fed(bytes: &[u8], chunk: usize, frame_bytes_max: usize) -> (Vec<String>, Vec<(Reject, u64)>, usize) {
    let mut protocol = Framed::new(Pickle, frame_bytes_max);
    let (mut points, mut intake, mut largest) = (Vec::new(), Intake::default(), 0);
    for chunk in bytes.chunks(chunk) {
        let mut step = protocol.feed(chunk, &context(), &mut intake);
        loop {
            largest = largest.max(intake.points.bytes());
            points.extend(shown(&intake));
            intake.points.clear();
            if step != Step::Again {
                break;
            }
            step = protocol.again(&context(), &mut intake);
        }
        if step == Step::Close {
            return (points, reasons(&intake), largest);
        }
    }
    protocol.finish(&mut intake);
    assert_eq!(protocol.held_bytes(), 0);
    (points, reasons(&intake), largest)
}

#[test]
fn repeated_names_come_in_batches_of_bounded_size() {
    // 40,000 points of a name of 100 bytes, as in a backfill.
    let bytes = [framed(&repeating(100, 40_000)), framed(b"(l(S'after'\n(I1\nI2\ntta.")].concat();
    for chunk in [bytes.len(), 1000] {
        let (points, refused, largest) = fed(&bytes, chunk, 1 << 20);
        assert_eq!((points.len(), refused), (40_001, vec![]));
        assert!(points[40_000].starts_with("after"));
        assert!(largest < BATCH_BYTES + 1024, "{largest}");
    }
}

#[test]
fn a_name_repeated_without_end_is_cut_off() {
    let frame = repeating(16_000, 200_000);
    let (points, refused, largest) = fed(&framed(&frame), 1 << 20, 2 << 20);
    assert_eq!(refused, [(Reject::Amplified, 1)]);
    assert!(points.len() * 16_024 <= 64 * frame.len() && points.len() > 1000, "{}", points.len());
    assert!(largest < BATCH_BYTES + 32_000, "{largest}");
}

/// Reading the long text for each point would keep a thread busy for minutes.
#[test]
fn a_huge_text_repeated_without_end_is_not_read_each_time() {
    let huge = [&b"S'\\\\"[..], &b"x".repeat(500_000), b"'\n"].concat();
    // Ten items with a name and 250,000 times the same pair, whose numbers are the long text.
    let pair = [&huge[..], b"q\x00h\x00\x86q\x01"].concat();
    let item = [&b"(U\x01a"[..], &pair, &b"h\x01".repeat(250_000), b"tq\x02"].concat();
    let frame = [b"](", &item[..], &b"h\x02".repeat(9), b"e."].concat();
    assert_eq!(reasons(&decoded(&frame)), [(Reject::Value, 2_500_010)]);
    // A name with a wrong quote at its end.
    let name = [&b"S'"[..], &b"\\x41".repeat(100_000), b"\\xzz'\n"].concat();
    let item = [&b"("[..], &name, b"(K\x01K\x02ttq\x00"].concat();
    let frame = [b"](", &item[..], &b"h\x00".repeat(250_000), b"e."].concat();
    let refused = reasons(&decoded(&frame));
    assert!(matches!(refused[..], [(Reject::Item, 1..1000), (Reject::Amplified, 1)]), "{refused:?}");
}

#[test]
fn frames_as_they_come() {
    let good = framed(b"(l(S'a'\n(I1\nI2\ntta.");
    let count = |bytes: &[u8]| {
        let (points, refused, _) = fed(bytes, 7, 1000);
        (points.len(), refused)
    };
    assert_eq!(count(&[&good[..], &good].concat()), (2, vec![]));
    assert_eq!(count(&[&good[..], &framed(b"garbage"), &good].concat()), (2, vec![(Reject::Frame, 1)]));
    assert_eq!(count(&[&framed(b""), &good[..]].concat()), (1, vec![(Reject::Frame, 1)]));
    assert_eq!(count(&[&good[..], &good[..9]].concat()), (1, vec![(Reject::HalfFrame, 1)]));
    assert_eq!(count(&good[..2]), (0, vec![(Reject::HalfFrame, 1)]));
    // A frame that is too long closes the connection at once.
    assert_eq!(count(&[&good[..], b"\0\0\x03\xe9", &good].concat()), (1, vec![(Reject::FrameTooLarge, 1)]));
    assert_eq!(count(b"GET / HTTP/1.1\r\n\r\n"), (0, vec![(Reject::FrameTooLarge, 1)]));
}

/// Opcodes that form valid pickles more often than random bytes.
fn program() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"(",
        b")",
        b"]",
        b"}",
        b"N",
        b"t",
        b"l",
        b"d",
        b"a",
        b"e",
        b"s",
        b"u",
        b"0",
        b"1",
        b"2",
        b".",
        b"\x85",
        b"\x86",
        b"\x87",
        b"\x94",
        b"q\x00",
        b"q\x01",
        b"h\x00",
        b"h\x01",
        b"K\x05",
        b"G\x41\xd9\x55\x40\0\0\0\0",
        b"U\x01a",
        b"X\x02\0\0\0b.",
        b"S'c'\n",
        b"Vd\n",
        b"I7\n",
        b"L8L\n",
        b"\x8a\x01\x01",
        b"(U\x01a(K\x05K\x06tt",
        b"\x80\x02",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_counted(data in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::pickle(&data);
    }

    #[test]
    fn any_program_ends(program in program()) {
        crate::fuzzing::pickle(&program);
        crate::fuzzing::pickle(&[&b"]("[..], &program, b"e."].concat());
        let _ = run(&program);
    }

    #[test]
    fn any_cut_gives_the_same_points(frames in prop::collection::vec(program(), 0..5), chunk in 1usize..50) {
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        let whole = fed(&stream, stream.len().max(1), 100);
        let cut = fed(&stream, chunk, 100);
        prop_assert_eq!((whole.0, whole.1), (cut.0, cut.1));
    }
}
