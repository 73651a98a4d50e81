//! The journal through its public interface.

use plumbago_journal::JournalError;
use plumbago_tests::wait::wait_until;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::common::{Fixture, Seen, open, replay_all};

#[test]
fn what_was_handed_over_is_replayed_in_order() {
    let mut fixture = Fixture::new();
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
                assert_eq!(writer.write_out().unwrap(), pending);
                assert_eq!(writer.pending_points(), 0);
            }
            fixture.clock.advance(31);
        }
        drop(writers);
        assert!(journal.segments().len() > 4);
        let points = expected.iter().filter(|seen| matches!(seen, Seen::Point(..))).count();
        assert_eq!(fixture.metric("plumbago_journal_written_points_total"), points as f64);
        journal.close().unwrap();
    }
    expected.sort_by_key(Seen::sequence);
    let journal = fixture.open();
    assert_eq!(replay_all(&journal), expected);
    let last = expected.last().unwrap().sequence();
    assert!(journal.sequence() >= last);
    let mut writer = journal.writer();
    assert!(writer.point(0, 0, 0.0) > last);
}

#[test]
fn numbers_start_where_the_engine_says() {
    let mut fixture = Fixture::new();
    let journal = fixture.open();
    journal.start_at(1_000_000);
    journal.start_at(5);
    assert_eq!(journal.sequence(), 999_999);
    assert_eq!(journal.writer().point(1, 2, 3.0), 1_000_000);
}

#[test]
fn dropped_segments_stay_dropped() {
    let mut fixture = Fixture::new();
    {
        let journal = fixture.open();
        let mut writer = journal.writer();
        let first = writer.segment();
        for i in 0..10u32 {
            assert_eq!(writer.segment(), first + i);
            writer.point(i, 60, 1.0);
            fixture.clock.advance(300);
            writer.write_out().unwrap();
        }
        assert_eq!(journal.drop_before(first + 7).unwrap(), 7);
        assert_eq!(journal.drop_before(first + 7).unwrap(), 0);
        let numbers: Vec<u32> = journal.segments().iter().map(|segment| segment.number).collect();
        assert_eq!(numbers, [first + 7, first + 8, first + 9]);
    }
    let metrics: Vec<u32> = replay_all(&fixture.open())
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
    let mut fixture = Fixture::new();
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
    assert_eq!(writer.write_out().unwrap(), 20_000);
    assert!(!writer.is_full());
    assert_eq!(replay_all(&journal), expected);
}

#[test]
fn two_at_once_are_refused() {
    let mut fixture = Fixture::new();
    let journal = fixture.open();
    let error = fixture.try_open().err().unwrap();
    assert!(matches!(&error, JournalError::Locked { path } if path == fixture.dir.path()), "{error}");
    journal.close().unwrap();
    fixture.open();
}

#[test]
fn a_closed_journal_refuses_its_writers() {
    let mut fixture = Fixture::new();
    let journal = fixture.open();
    let mut writer = journal.writer();
    writer.point(1, 2, 3.0);
    journal.clone().close().unwrap();
    assert!(matches!(writer.write_out(), Err(JournalError::Closed)));
    assert_eq!(writer.pending_points(), 1);
    assert!(matches!(journal.drop_before(1), Err(JournalError::Closed)));
}

#[test]
fn a_newer_format_is_refused() {
    let mut fixture = Fixture::new();
    fixture.open().close().unwrap();
    let file = fixture.dir.path().join("plumbago-format");
    std::fs::write(&file, "plumbago-journal 3\n").unwrap();
    let error = fixture.try_open().err().unwrap();
    assert!(matches!(&error, JournalError::Format { path, .. } if *path == file), "{error}");
    for text in ["", "something else"] {
        std::fs::write(&file, text).unwrap();
        let error = fixture.try_open().err().unwrap();
        assert!(matches!(&error, JournalError::Corrupt { path, .. } if *path == file), "{error}");
    }
    std::fs::write(&file, "plumbago-journal 2\n").unwrap();
    fixture.open().close().unwrap();
    // Format 1, with an unknown version of fjall's format.
    std::fs::write(&file, "plumbago-journal 1\n").unwrap();
    std::fs::write(fixture.dir.path().join("version"), b"FJL\x09").unwrap();
    let error = fixture.try_open().err().unwrap();
    assert!(matches!(error, JournalError::Format { .. }), "{error}");
}

/// An earlier version was killed while it created the database of format 1.
#[test]
fn an_interrupted_creation_is_finished() {
    for version in [None, Some(b"".as_slice()), Some(b"FJL\x03")] {
        let mut fixture = Fixture::new();
        let dir = fixture.dir.path();
        std::fs::create_dir(dir.join("keyspaces")).unwrap();
        std::fs::write(dir.join("lock"), "").unwrap();
        std::fs::File::create(dir.join("0.jnl")).unwrap().set_len(64 << 20).unwrap();
        if let Some(version) = version {
            std::fs::write(dir.join("version"), version).unwrap();
        }
        let journal = fixture.open();
        journal.writer().point(1, 2, 3.0);
        drop(journal);
        assert_eq!(replay_all(&fixture.open()).len(), 1);
    }
}

#[test]
fn a_size_limit_refuses_and_dropping_makes_room() {
    let fixture = Fixture::new();
    let config = plumbago_journal::Config { max_bytes: Some(200_000), ..Default::default() };
    let journal = open(fixture.dir.path(), config, fixture.clock.clone(), &fixture.registry).unwrap();
    let mut writer = journal.writer();
    let mut handed = 0;
    let error = loop {
        for i in 0..100 {
            writer.point(i, i, 1.0);
        }
        match writer.write_out() {
            Ok(points) => handed += points,
            Err(error) => break error,
        }
    };
    assert!(error.is_transient(), "{error}");
    assert!(!journal.healthy() && journal.trouble().is_some());
    assert_eq!(writer.pending_points(), 100);
    assert_eq!(fixture.metric("plumbago_journal_written_points_total"), handed as f64);
    fixture.clock.advance(600);
    journal.drop_before(journal.current_segment()).unwrap();
    assert_eq!(writer.write_out().unwrap(), 100);
    assert!(journal.healthy());
}

/// Dropping segments frees their disk space, whatever their size.
#[test]
fn the_disk_is_given_back() {
    for (segments, points) in [(60, 100_000u32), (8, 2_500_000), (200, 100)] {
        let mut fixture = Fixture::new();
        let journal = fixture.open();
        let mut writer = journal.writer();
        for _ in 0..segments {
            for i in 0..points {
                if writer.is_full() {
                    writer.write_out().unwrap();
                }
                writer.point(i, i, 0.5);
            }
            writer.write_out().unwrap();
            fixture.clock.advance(300);
            writer.write_out().unwrap();
            journal.drop_before(journal.current_segment()).unwrap();
            assert!(journal.segments().is_empty());
        }
        // Files reserve disk space ahead of what they use.
        let most = 8 << 20;
        wait_until("the disk is given back", || journal.disk_bytes() < most);
        drop((writer, journal));
        assert!(replay_all(&fixture.open()).is_empty());
    }
}

#[test]
fn it_syncs_in_the_background_as_told() {
    for (sync, syncs) in [("20ms", true), ("off", false)] {
        let fixture = Fixture::new();
        let config = plumbago_journal::Config { sync: sync.parse().unwrap(), ..Default::default() };
        let journal = open(fixture.dir.path(), config, fixture.clock.clone(), &fixture.registry).unwrap();
        let mut writer = journal.writer();
        writer.point(1, 2, 3.0);
        writer.write_out().unwrap();
        if syncs {
            wait_until("a sync", || fixture.metric("plumbago_journal_syncs_total") > 0.0);
        } else {
            assert_eq!(fixture.metric("plumbago_journal_syncs_total"), 0.0);
            journal.sync().unwrap();
        }
        // Nothing was written since then, so this does not sync.
        journal.sync().unwrap();
        assert_eq!(fixture.metric("plumbago_journal_syncs_total"), 1.0);
        assert_eq!(fixture.metric("plumbago_journal_sync_errors_total"), 0.0);
    }
}

/// Random appends, writes, drops and restarts, some of them after a clean close. The replay must always equal the expected records.
#[test]
fn any_history_replays_as_it_was() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut fixture = Fixture::new();
        let mut expected: Vec<(u32, Seen)> = Vec::new();
        for _ in 0..4 {
            let journal = fixture.open();
            let seen: Vec<Seen> = expected.iter().map(|(_, seen)| seen.clone()).collect();
            assert_eq!(replay_all(&journal), seen, "seed {seed}");
            let mut writers: Vec<_> = (0..3).map(|_| journal.writer()).collect();
            for _ in 0..rng.random_range(1..60) {
                let writer = &mut writers[rng.random_range(0..3)];
                for i in 0..rng.random_range(0..50u32) {
                    let segment = writer.segment();
                    let record = match rng.random_range(0..10) {
                        0 => Seen::Creation(writer.creation(i, "a.b"), i, "a.b".to_owned()),
                        1 => Seen::Removal(writer.removal(i), i),
                        _ => Seen::Point(writer.point(i, i, 0.5), i, i, 0.5),
                    };
                    expected.push((segment, record));
                }
                fixture.clock.advance(rng.random_range(0..200));
                if rng.random_bool(0.2) {
                    // Like the engine, write all pending records before dropping segments.
                    writers.iter_mut().for_each(|writer| assert!(writer.write_out().is_ok()));
                    let before = journal.current_segment().saturating_sub(rng.random_range(0..4));
                    journal.drop_before(before).unwrap();
                    expected.retain(|(segment, _)| *segment >= before);
                } else if rng.random_bool(0.7) {
                    writer.write_out().unwrap();
                }
            }
            expected.sort_by_key(|(_, seen)| seen.sequence());
            drop(writers);
            if rng.random_bool(0.5) {
                journal.close().unwrap();
            }
        }
    }
}
