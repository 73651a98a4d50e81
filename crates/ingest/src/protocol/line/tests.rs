use proptest::prelude::*;

use super::*;
use crate::name::NameOptions;

const NOW: u32 = 1_700_000_000;

/// Compares with carbon 1.1.10, whose results are in a file that `testdata/lines.py` writes.
const CARBON: &str = include_str!("../../../testdata/lines.tsv");

/// Intended differences. Unlike this parser, carbon stores the name `a..b`, accepts `_` in numbers and any
/// white space as a separator, and stores times before 1970 and after 2106, malformed tags, and control
/// characters.
const OURS: [(&str, Result<&str, Reject>); 13] = [
    ("'a..b 1 1234567890'", Ok("a.b 3ff0000000000000 1234567890")),
    ("'.a.b. 1 1234567890'", Ok("a.b 3ff0000000000000 1234567890")),
    ("'a.b 1_000 1234567890'", Err(Reject::Value)),
    ("'a.b 1 -2'", Err(Reject::Timestamp)),
    ("'a.b 1 1700000000000'", Err(Reject::Future)),
    ("'a.b;x 1 1234567890'", Err(Reject::Tags)),
    ("'a.b\\x0b1\\x0c1234567890'", Err(Reject::Fields)),
    ("'a.b\\xc2\\xa01 1234567890'", Err(Reject::Fields)),
    ("'a\\x07b 1 1234567890'", Err(Reject::NameControl)),
    ("'a.b\\x00c 1 1234567890'", Err(Reject::NameControl)),
    ("'a.b 1\\r 1234567890'", Err(Reject::Value)),
    ("'a.b 1 nan'", Err(Reject::Timestamp)),
    ("'caf\\xe9 1 1234567890'", Err(Reject::Encoding)),
];

fn context() -> Context<'static> {
    Context { now: NOW, names: NameOptions::default(), relabel: None }
}

fn shown(intake: &Intake) -> Vec<String> {
    let show = |p: &plumbago_model::PointRef| {
        format!("{} {:016x} {}", intake.points.name(p), p.value.to_bits(), p.timestamp)
    };
    intake.points.points().iter().map(show).collect()
}

fn reasons(intake: &Intake) -> Vec<(Reject, u64)> {
    Reject::ALL.map(|r| (r, intake.tally.count(r))).into_iter().filter(|(_, n)| *n > 0).collect()
}

/// Parses all chunks as one stream, and ends it.
fn fed(chunks: &[&[u8]], line_bytes_max: usize) -> Intake {
    let mut lines = Lines::new(line_bytes_max);
    let mut intake = Intake::default();
    for chunk in chunks {
        assert_eq!(lines.feed(chunk, &context(), &mut intake), Step::Read);
    }
    lines.finish(&mut intake);
    assert_eq!(lines.held_bytes(), 0);
    intake
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn lines_are_read_as_carbon_reads_them() {
    let mut differences = 0;
    for row in CARBON.lines() {
        let [hex, label, carbon] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let line = from_hex(hex);
        let intake = fed(&[&line, b"\n"], 1000);
        let expected = match OURS.iter().find(|(ours, _)| *ours == label) {
            Some((_, ours)) => {
                differences += 1;
                ours.map(str::to_owned).map_err(Some)
            }
            None if carbon == "-" => Err(None),
            None => Ok(carbon.to_owned()),
        };
        match expected {
            Ok(point) => assert_eq!((shown(&intake), reasons(&intake)), (vec![point], vec![]), "{label}"),
            Err(reason) => {
                assert!(intake.points.is_empty(), "{label}");
                if let Some(reason) = reason {
                    assert_eq!(reasons(&intake), [(reason, 1)], "{label}");
                }
                assert_eq!(intake.received(), u64::from(!line.trim_ascii().is_empty()), "{label}");
            }
        }
    }
    assert_eq!(differences, OURS.len());
}

#[test]
fn every_refusal_has_its_reason() {
    for (line, reason) in [
        (&b"a.b 1"[..], Reject::Fields),
        (b"a.b", Reject::Fields),
        (b"a.b 1 1234567890 x", Reject::Fields),
        (b"a.b 1 1234567890 2 1234567890", Reject::Fields),
        (b"a.b 1 1234567890\ra.c 2 1234567890", Reject::Fields),
        (b"a.b x 1234567890", Reject::Value),
        (b"a.b 1\0 1234567890", Reject::Value),
        (b"a.b 1 x", Reject::Timestamp),
        (b"a.b 1 inf", Reject::Timestamp),
        (b"a.b 1 -100", Reject::Timestamp),
        (b"a.b 1 99999999999", Reject::Future),
        (b"a.b nan 1234567890", Reject::Nan),
        (b"a.b -nan 1234567890", Reject::Nan),
        (b"a.\xff 1 1234567890", Reject::Encoding),
        (b".. 1 1234567890", Reject::NameEmpty),
        (b"a\0b 1 1234567890", Reject::NameControl),
        (b"a;b= 1 1234567890", Reject::Tags),
        (&[b'x'; 101], Reject::LineTooLong),
    ] {
        let label = line.escape_ascii().to_string();
        let intake = fed(&[line, b"\ngood 1 1234567890\n"], 100);
        assert_eq!(reasons(&intake), [(reason, 1)], "{label}");
        assert_eq!(shown(&intake), ["good 3ff0000000000000 1234567890"], "{label}");
        let mut datagram = Intake::default();
        super::datagram(line, 100, &context(), &mut datagram);
        assert_eq!(reasons(&datagram), [(reason, 1)], "{label}");
    }
}

#[test]
fn a_line_that_is_not_ended_is_counted() {
    let intake = fed(&[b"a 1 1234567890\nb 2 12345"], 100);
    assert_eq!((shown(&intake).len(), reasons(&intake)), (1, vec![(Reject::HalfLine, 1)]));
    assert_eq!(reasons(&fed(&[b"a 1 1234567890\n \r"], 100)), []);
    // The sample of an unfinished line that is too long, too.
    assert_eq!(reasons(&fed(&[&[b'x'; 500]], 100)), [(Reject::LineTooLong, 1)]);
}

#[test]
fn a_datagram_needs_no_end() {
    let mut intake = Intake::default();
    datagram(b"a 1 1234567890\r\nb 2 1234567890", 100, &context(), &mut intake);
    assert_eq!(shown(&intake), ["a 3ff0000000000000 1234567890", "b 4000000000000000 1234567890"]);
}

#[test]
fn a_line_of_any_length_holds_no_more_than_the_limit() {
    let mut lines = Lines::new(100);
    let mut intake = Intake::default();
    for _ in 0..1000 {
        lines.feed(&[b'x'; 70], &context(), &mut intake);
        assert!(lines.held_bytes() <= 512, "{}", lines.held_bytes());
    }
    lines.feed(b"\na 1 1234567890\n", &context(), &mut intake);
    assert_eq!((shown(&intake).len(), reasons(&intake)), (1, vec![(Reject::LineTooLong, 1)]));
}

/// Streams of good and bad lines.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "[a-c.]{1,12} [0-9]{1,3}(\\.[0-9])? 1[0-9]{9}\r?\n".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[a-c;= \t\r\n0-9]{0,40}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_points(stream in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let (whole, cut) = (fed(&[&stream], 20), fed(&chunks, 20));
        prop_assert_eq!(shown(&whole), shown(&cut));
        prop_assert_eq!(reasons(&whole), reasons(&cut));
        prop_assert_eq!(whole.messages, cut.messages);
    }

    #[test]
    fn any_bytes_are_taken_or_counted(data in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::line(&data);
        let whole = fed(&[&data], 1000);
        let carrying = data.split(|b| *b == b'\n').filter(|line| !trim(line).is_empty()).count();
        prop_assert_eq!(whole.received(), carrying as u64);
    }
}
