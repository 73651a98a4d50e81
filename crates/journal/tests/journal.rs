//! The journal through its public face.

use std::sync::Arc;

use plumbago_journal::{Config, Journal, Record};
use plumbago_model::{Clock, ManualClock};
use plumbago_telemetry::Registry;

/// An owned record: number, metric, and what it says.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Point(u64, u32, u32, f64),
    Creation(u64, u32, String),
    Removal(u64, u32),
}

impl Seen {
    fn sequence(&self) -> u64 {
        match self {
            Self::Point(sequence, ..) | Self::Creation(sequence, ..) | Self::Removal(sequence, _) => {
                *sequence
            }
        }
    }
}

struct Fixture {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    registry: Registry,
}

impl Fixture {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(1_700_000_100)),
            registry: Registry::new(),
        }
    }

    fn open(&self) -> Journal {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Journal::open(self.dir.path(), Config::default(), clock, &self.registry).unwrap()
    }

    fn metric(&self, name: &str) -> f64 {
        self.registry.value(name).unwrap()
    }
}

fn replay(journal: &Journal) -> Vec<Seen> {
    let mut seen = Vec::new();
    let report = journal
        .replay(&mut |record| {
            seen.push(match record {
                Record::Point { sequence, metric, timestamp, value } => {
                    Seen::Point(sequence, metric, timestamp, value)
                }
                Record::Creation { sequence, metric, name } => {
                    Seen::Creation(sequence, metric, name.to_owned())
                }
                Record::Removal { sequence, metric } => Seen::Removal(sequence, metric),
            });
        })
        .unwrap();
    assert_eq!(report.corrupt_frames, 0);
    assert_eq!((report.points + report.events) as usize, seen.len());
    assert!(seen.windows(2).all(|pair| pair[0].sequence() < pair[1].sequence()), "numbers must rise");
    seen
}

#[test]
fn what_was_handed_over_is_replayed_in_order() {
    let fixture = Fixture::new();
    let mut expected = Vec::new();
    {
        let journal = fixture.open();
        let mut writers = [journal.writer(), journal.writer()];
        for round in 0..50u32 {
            for (i, writer) in (0u32..).zip(&mut writers) {
                if round == 0 {
                    let name = format!("servers.web{i}.load");
                    expected.push(Seen::Creation(writer.creation(i, &name), i, name));
                }
                for k in 0..(round * 7 % 40) {
                    let value = f64::from(round) + f64::from(k) / 100.0;
                    expected.push(Seen::Point(writer.point(i, 1000 + k, value), i, 1000 + k, value));
                }
                if round == 30 {
                    expected.push(Seen::Removal(writer.removal(i), i));
                }
                let pending = writer.pending_points();
                assert_eq!(writer.hand_over().unwrap(), pending);
                assert_eq!(writer.pending_points(), 0);
            }
            fixture.clock.advance(31);
        }
        drop(writers);
        assert!(journal.segments().len() > 4);
        journal.close().unwrap();
    }
    expected.sort_by_key(Seen::sequence);
    let journal = fixture.open();
    assert_eq!(replay(&journal), expected);
    let last = expected.last().unwrap().sequence();
    assert!(journal.sequence() >= last);
    let mut writer = journal.writer();
    assert!(writer.point(0, 0, 0.0) > last);
    let points = expected.iter().filter(|seen| matches!(seen, Seen::Point(..))).count();
    assert_eq!(fixture.metric("plumbago_journal_written_points_total"), points as f64);
}

#[test]
fn numbers_start_where_the_engine_says() {
    let fixture = Fixture::new();
    let journal = fixture.open();
    journal.start_at(1_000_000);
    journal.start_at(5);
    assert_eq!(journal.sequence(), 999_999);
    assert_eq!(journal.writer().point(1, 2, 3.0), 1_000_000);
}

#[test]
fn dropped_segments_stay_dropped() {
    let fixture = Fixture::new();
    {
        let journal = fixture.open();
        let mut writer = journal.writer();
        let first = writer.segment();
        for i in 0..10u32 {
            assert_eq!(writer.segment(), first + i);
            writer.point(i, 60, 1.0);
            fixture.clock.advance(300);
            writer.hand_over().unwrap();
        }
        assert_eq!(journal.drop_before(first + 7).unwrap(), 7);
        assert_eq!(journal.drop_before(first + 7).unwrap(), 0);
        let numbers: Vec<u32> = journal.segments().iter().map(|segment| segment.number).collect();
        assert_eq!(numbers, [first + 7, first + 8, first + 9]);
    }
    let metrics: Vec<u32> = replay(&fixture.open())
        .into_iter()
        .map(|seen| match seen {
            Seen::Point(_, metric, ..) => metric,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(metrics, [7, 8, 9]);
}

#[test]
fn an_owner_that_ignores_a_full_frame_loses_nothing() {
    let fixture = Fixture::new();
    let journal = fixture.open();
    let mut writer = journal.writer();
    let mut expected = Vec::new();
    for i in 0..20_000u32 {
        if i % 3000 == 0 {
            let name = "x".repeat(16_384);
            expected.push(Seen::Creation(writer.creation(i, &name), i, name));
        }
        expected.push(Seen::Point(writer.point(i, i, 0.5), i, i, 0.5));
    }
    assert!(writer.is_full());
    assert_eq!(writer.hand_over().unwrap(), 20_000);
    assert!(!writer.is_full());
    assert_eq!(replay(&journal), expected);
}
