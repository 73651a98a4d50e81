use proptest::prelude::*;

use super::*;

/// An owned [`Record`].
#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Point(u64, u32, u32, u64),
    Creation(u64, u32, String),
    Removal(u64, u32),
}

fn own(record: Record<'_>) -> Owned {
    match record {
        Record::Point { sequence, metric, timestamp, value } => {
            Owned::Point(sequence, metric, timestamp, value.to_bits())
        }
        Record::Creation { sequence, metric, name } => Owned::Creation(sequence, metric, name.to_owned()),
        Record::Removal { sequence, metric } => Owned::Removal(sequence, metric),
    }
}

fn read(value: &[u8]) -> (Vec<Owned>, Result<FrameCounts, FrameError>) {
    let mut seen = Vec::new();
    let result = visit_frame(value, &mut |record| seen.push(own(record)));
    (seen, result)
}

#[derive(Debug, Clone)]
enum Step {
    Point(u32, u32, u64),
    Creation(u32, String),
    Removal(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(m, t, v)| Step::Point(m, t, v)),
        2 => (any::<u32>(), ".{0,40}").prop_map(|(m, n)| Step::Creation(m, n)),
        1 => any::<u32>().prop_map(Step::Removal),
    ];
    prop::collection::vec(step, 0..120)
}

/// Encodes the steps. Returns the frame and the records that a replay must visit.
fn build(first: u64, steps: &[Step]) -> (Vec<u8>, Vec<Owned>) {
    let mut frame = Frame::new();
    frame.begin(first);
    let mut expected = Vec::new();
    for step in steps {
        expected.push(match step {
            Step::Point(metric, timestamp, bits) => Owned::Point(
                frame.push_point(*metric, *timestamp, f64::from_bits(*bits)),
                *metric,
                *timestamp,
                *bits,
            ),
            Step::Creation(metric, name) => {
                Owned::Creation(frame.push_creation(*metric, name), *metric, name.clone())
            }
            Step::Removal(metric) => Owned::Removal(frame.push_removal(*metric), *metric),
        });
    }
    let value = frame.with_encoded(|_, stored| {
        let len = encoded_len(&stored[PLACE_BYTES..]);
        assert_eq!(stored.len() as u64, stored_len(len));
        stored[PLACE_BYTES..PLACE_BYTES + len].to_vec()
    });
    assert_eq!(first_sequence(&value), first);
    (value, expected)
}

proptest! {
    #[test]
    fn what_was_written_is_read(first in 0..u64::MAX / 2, steps in steps()) {
        let (value, expected) = build(first, &steps);
        let (seen, result) = read(&value);
        prop_assert!(result.is_ok());
        for (i, record) in seen.iter().enumerate() {
            let (Owned::Point(s, ..) | Owned::Creation(s, ..) | Owned::Removal(s, _)) = record;
            prop_assert_eq!(*s, first + i as u64);
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn a_cut_frame_yields_nothing(steps in steps(), cut in any::<prop::sample::Index>()) {
        let (value, _) = build(7, &steps);
        let (seen, result) = read(&value[..cut.index(value.len())]);
        prop_assert!(result.is_err());
        prop_assert!(seen.is_empty());
    }

    #[test]
    fn a_damaged_frame_yields_nothing(
        steps in steps(),
        at in any::<prop::sample::Index>(),
        flips in prop::collection::vec(1..=255u8, 1..4),
    ) {
        let (mut value, _) = build(7, &steps);
        let at = at.index(value.len());
        for (byte, flip) in value[at..].iter_mut().zip(flips) {
            *byte ^= flip;
        }
        let (seen, result) = read(&value);
        prop_assert!(result.is_err());
        prop_assert!(seen.is_empty());
    }

    /// Contents that no writer produces, with a valid checksum: they are refused or read, but never cause a
    /// panic. Sequence numbers still increase by one.
    #[test]
    fn nonsense_with_a_right_checksum_never_panics(mut value in prop::collection::vec(any::<u8>(), 25..400), events in 0..3u8) {
        let (points, kind) = (value[24] % 4, 1 + value[24] % 2);
        let events_at = (HEADER_BYTES + usize::from(points) * POINT_BYTES).min(value.len());
        value[..8].copy_from_slice(&[VERSION, 0, points, 0, events, 0, 0, 0]);
        value[15] = 0;
        let event_bytes = (value.len() - events_at) as u32;
        value[16..20].copy_from_slice(&event_bytes.to_le_bytes());
        if event_bytes as usize >= EVENT_BYTES {
            value[events_at + 1] = 0;
            value[events_at + 2..events_at + 4].copy_from_slice(&[kind, 0]);
            value[events_at + 9..events_at + 12].fill(0);
        }
        let crc = checksum(&value);
        value[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        let (seen, result) = read(&value);
        prop_assert_eq!(result.map_or(0, |counts| counts.points + counts.events), seen.len());
        for (i, record) in seen.iter().enumerate() {
            let (Owned::Point(s, ..) | Owned::Creation(s, ..) | Owned::Removal(s, _)) = record;
            prop_assert_eq!(*s, u64_at(&value, 8) + i as u64);
        }
    }

    #[test]
    fn any_bytes_never_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
        let (seen, _) = read(&value);
        prop_assert!(seen.is_empty());
    }
}

#[test]
fn a_full_frame_stays_within_its_size() {
    let mut frame = Frame::new();
    frame.begin(1);
    let mut points = 0;
    while !frame.is_full() {
        frame.push_point(1, 2, 3.0);
        points += 1;
    }
    assert_eq!(points, (FRAME_BYTES_MAX - HEADER_BYTES) / POINT_BYTES);
    assert_eq!(
        frame.with_encoded(|_, stored| stored.len()),
        PLACE_BYTES + HEADER_BYTES + points * POINT_BYTES
    );
    assert!(!frame.has_room_for(""));
}

#[test]
fn removals_fill_a_frame_by_number() {
    let mut frame = Frame::new();
    frame.begin(1);
    while frame.has_room_for("") {
        frame.push_removal(1);
    }
    assert_eq!(frame.records as usize, RECORDS_MAX);
}
