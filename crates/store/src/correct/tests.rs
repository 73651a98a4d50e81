use proptest::prelude::*;

use super::*;
use crate::RowCount;

const OURS: u16 = 80;
const METHODS: [Aggregation; 10] = [
    Aggregation::Average,
    Aggregation::AvgZero,
    Aggregation::Sum,
    Aggregation::Count,
    Aggregation::Min,
    Aggregation::Max,
    Aggregation::AbsMin,
    Aggregation::AbsMax,
    Aggregation::Last,
    Aggregation::Percentile(900),
];

fn fold(method: Aggregation, slots: &[f64]) -> Folded {
    let window = method.fold_all(slots.iter().copied());
    Folded { window, magnitude: slots.iter().map(|value| value.abs()).sum() }
}

fn row(replica: u8, id: u16, value: f64, count: i32, written_us: i64) -> WriterRow {
    let row = WindowRow { value, count: RowCount::new(count) };
    WriterRow { writer: WriterIdentity::new(replica, id), part: 0, row, written_us, is_full: false }
}

fn of_slots(method: Aggregation, id: u16, slots: &[f64], written_us: i64) -> Option<WriterRow> {
    let Window { value, count } = fold(method, slots).window;
    (count > 0).then(|| row(0, id, value, count as i32, written_us))
}

/// Writes the rows of a correction as a store would.
fn apply(own: WriterIdentity, correction: &Correction, rows: &mut Vec<WriterRow>, written_us: i64) {
    for (writer, row) in correction.others.iter().copied().chain([(own, correction.own)]) {
        rows.retain(|known| known.writer != writer);
        rows.push(WriterRow { writer, part: 0, row, written_us, is_full: false });
    }
}

fn seen(method: Aggregation, rows: &[WriterRow]) -> Option<Window> {
    let mut slot = SlotWindow::default();
    rows.iter().for_each(|row| slot.add(method, *row));
    slot.window()
}

proptest! {
    /// Whichever slots of a window the writers of a replica have seen, one repair makes the window equal to
    /// the raw slots. A second repair, by the same daemon or another, finds nothing to do. Cases: a lost
    /// part, slots that two writers got, late corrections by two writers at once, replaced values.
    #[test]
    fn a_repaired_window_equals_the_raw_slots(
        slots in prop::collection::vec(-1000i32..1000, 1..40),
        seen_by in prop::collection::vec(prop::collection::vec((any::<bool>(), 0i32..20), 40), 0..4),
        ours in prop::option::of(0usize..4),
    ) {
        let slots: Vec<f64> = slots.into_iter().map(|value| f64::from(value) * 0.1).collect();
        for method in METHODS {
            let folded = fold(method, &slots);
            let mut rows: Vec<WriterRow> = seen_by.iter().enumerate().filter_map(|(n, seen)| {
                // Some of the values were replaced later by another writer.
                let known = slots.iter().zip(seen).filter(|(_, (knows, _))| *knows);
                let values: Vec<f64> = known
                    .map(|(value, (_, other))| if *other == 0 { value + 500.0 } else { *value }).collect();
                of_slots(method, 8 * (7 + n as u16), &values, n as i64)
            }).collect();
            let own = WriterIdentity::new(0, 8 * (7 + ours.unwrap_or(9) as u16));
            match judge(method, folded, own, &rows) {
                Verdict::Wrong(correction) => apply(own, &correction, &mut rows, 100),
                verdict => prop_assert_eq!(verdict, Verdict::Right),
            }
            let window = seen(method, &rows).unwrap();
            prop_assert!(is_same(method, window, folded), "{method}: {window:?} is not {folded:?}");
            for again in [own, WriterIdentity::new(0, OURS + 80)] {
                prop_assert_eq!(judge(method, folded, again, &rows), Verdict::Right, "{}", method);
            }
        }
    }
}

#[test]
fn a_lost_writer_leaves_what_is_missing_to_ours() {
    let own = WriterIdentity::new(0, OURS);
    let rows = [row(0, 8, 30.0, 30, 0), row(0, OURS, 10.0, 10, 0)];
    let folded = fold(Aggregation::Sum, &[1.0; 60]);
    let Verdict::Wrong(correction) = judge(Aggregation::Sum, folded, own, &rows) else { panic!() };
    assert_eq!(correction, Correction { own: row(0, 0, 30.0, 30, 0).row, others: Vec::new() });
}

#[test]
fn slots_counted_twice_are_taken_back() {
    let own = WriterIdentity::new(0, OURS);
    let rows = [row(0, 8, 60.0, 60, 0), row(0, 16, 50.0, 50, 0)];
    let folded = fold(Aggregation::Average, &[1.0; 60]);
    let Verdict::Wrong(correction) = judge(Aggregation::Average, folded, own, &rows) else { panic!() };
    assert_eq!(correction.own, row(0, 0, -50.0, -50, 0).row);
    // This time one of the two writers with rows repairs the window.
    let Verdict::Wrong(correction) = judge(Aggregation::Average, folded, rows[1].writer, &rows) else {
        panic!()
    };
    assert_eq!(correction.own, row(0, 0, 0.0, 0, 0).row);
}

#[test]
fn raw_slots_that_are_gone_are_no_reason_to_lower_a_window() {
    let own = WriterIdentity::new(0, OURS);
    let judge =
        |slots: &[f64], rows: &[WriterRow]| judge(Aggregation::Sum, fold(Aggregation::Sum, slots), own, rows);
    let whole = row(0, 8, 60.0, 60, 0);
    assert_eq!(judge(&[1.0; 20], &[whole]), Verdict::Kept(Reason::SlotsMissing));
    assert_eq!(judge(&[], &[whole]), Verdict::Kept(Reason::SlotsMissing));
    assert_eq!(judge(&[1.0; 20], &[whole, row(0, 16, 5.0, 5, 0)]), Verdict::Kept(Reason::SlotsMissing));
    assert_eq!(judge(&[], &[]), Verdict::Right);
    // The second row once corrected another daemon's row, but is no longer needed.
    let rows = [row(0, 8, 60.0, 60, 0), row(0, 16, -10.0, -10, 0), row(0, OURS, 20.0, 20, 0)];
    assert!(matches!(judge(&[1.0; 60], &rows), Verdict::Wrong(_)));
}

#[test]
fn each_replica_is_corrected_by_its_own_daemons() {
    let folded = fold(Aggregation::Sum, &[1.0; 60]);
    let rows = [row(0, 8, 60.0, 60, 0), row(1, 8, 70.0, 70, 0), row(1, 16, 50.0, 50, 0)];
    let of = |replica| judge(Aggregation::Sum, folded, WriterIdentity::new(replica, OURS), &rows);
    assert_eq!(of(0), Verdict::Kept(Reason::OtherReplica));
    assert_eq!(of(1), Verdict::Kept(Reason::SlotsMissing));
    // A replica without rows does not change a right answer. A replica that has a part of the window
    // completes it.
    let rows = [row(0, 8, 60.0, 60, 0), row(1, 8, 5.0, 5, 0)];
    let of = |replica| judge(Aggregation::Sum, folded, WriterIdentity::new(replica, OURS), &rows);
    assert_eq!(of(2), Verdict::Right);
    let Verdict::Wrong(correction) = of(1) else { panic!() };
    assert_eq!(correction.own, row(1, 0, 55.0, 55, 0).row);
}

#[test]
fn rounding_is_no_difference() {
    let slots = [0.1, 1e9, -1e9, 0.3];
    let folded = fold(Aggregation::Sum, &slots);
    let other_order: f64 = 0.1 + 0.3 + 1e9 - 1e9;
    assert_ne!(other_order, folded.window.value);
    let own = WriterIdentity::new(0, OURS);
    assert_eq!(judge(Aggregation::Sum, folded, own, &[row(0, 8, other_order, 4, 0)]), Verdict::Right);
    assert!(matches!(judge(Aggregation::Sum, folded, own, &[row(0, 8, 1.4, 4, 0)]), Verdict::Wrong(_)));
    let infinite = fold(Aggregation::Sum, &[f64::INFINITY, 1.0]);
    assert_eq!(
        judge(Aggregation::Sum, infinite, own, &[row(0, 8, 1.0, 1, 0)]),
        Verdict::Kept(Reason::NotFinite)
    );
}
