use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use super::*;
use crate::frame::{self, Point, Points};

/// A frame with the points `from..until`.
fn frame(from: u32, until: u32) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    for n in from..until {
        frame::push(&mut frame, Point { name: b"metric.name", timestamp: n, value: f64::from(n) });
    }
    frame::seal(&mut frame, until - from, 7);
    frame
}

fn append(queue: &Queue, writer: &mut SegmentWriter, from: u32, until: u32) {
    writer.append(queue, &frame(from, until), u64::from(until - from)).unwrap();
}

/// Reads to the end and marks all as sent. Returns the timestamps, and the position behind them.
fn drain(queue: &Queue, mut at: Position) -> (Vec<u32>, Position) {
    let mut read = Vec::new();
    loop {
        match queue.read(at, 1000).unwrap() {
            Next::Chunk(chunk) => {
                for frame in &chunk.frames {
                    read.extend(Points(&chunk.bytes[frame.points.clone()]).map(|point| point.timestamp));
                    queue.set_sent(frame);
                    at = frame.end;
                }
            }
            Next::End => return (read, at),
            Next::Damaged(place) => at = queue.skip(place).0,
        }
    }
}

#[test]
fn what_was_appended_is_read_in_order_and_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, found) = Queue::open(dir.path(), 1 << 30).unwrap();
    assert_eq!(found, Found::default());
    let mut writer = SegmentWriter::default();
    append(&queue, &mut writer, 0, 10);
    append(&queue, &mut writer, 10, 1000);
    let (read, at) = drain(&queue, queue.sent());
    assert_eq!(read, (0..1000).collect::<Vec<_>>());
    append(&queue, &mut writer, 1000, 1010);
    queue.keep_from(at).unwrap();
    assert_eq!(queue.size().waiting, 10);
    drop((queue, writer));

    let (queue, found) = Queue::open(dir.path(), 1 << 30).unwrap();
    assert_eq!(found, Found { waiting: 10, surplus_bytes: 0 });
    append(&queue, &mut SegmentWriter::default(), 1010, 1020);
    let (read, _) = drain(&queue, queue.kept());
    assert_eq!(read, (1000..1020).collect::<Vec<_>>());
    assert_eq!(queue.size().waiting, 0);
}

#[test]
fn what_is_kept_is_sent_again_and_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(dir.path(), 1 << 30).unwrap();
    append(&queue, &mut SegmentWriter::default(), 0, 100);
    let begin = queue.sent();
    assert_eq!(drain(&queue, begin).0.len(), 100);
    let Next::Chunk(chunk) = queue.read(begin, 1 << 20).unwrap() else { panic!("nothing to read") };
    assert!(!queue.set_sent(&chunk.frames[0]));
    assert_eq!(queue.size().waiting, 0);
}

#[test]
fn a_torn_end_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(dir.path(), 1 << 30).unwrap();
    let mut writer = SegmentWriter::default();
    append(&queue, &mut writer, 0, 10);
    append(&queue, &mut writer, 10, 20);
    drop((queue, writer));
    let path = files::path(dir.path(), 0);
    let whole = fs::read(&path).unwrap();
    for cut in [whole.len() - 1, frame(0, 10).len() + 3, frame(0, 10).len() + HEADER] {
        fs::write(&path, &whole[..cut]).unwrap();
        let (queue, found) = Queue::open(dir.path(), 1 << 30).unwrap();
        assert_eq!(found.waiting, 10, "{cut}");
        assert_eq!(found.surplus_bytes as usize, cut - frame(0, 10).len());
        append(&queue, &mut SegmentWriter::default(), 50, 60);
        assert_eq!(drain(&queue, queue.sent()).0, (0..10).chain(50..60).collect::<Vec<_>>());
        fs::remove_file(files::path(dir.path(), 1)).unwrap();
    }
}

#[test]
fn damage_costs_the_rest_of_its_segment_only() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(dir.path(), 1 << 30).unwrap();
    for from in [0, 100] {
        let mut writer = SegmentWriter::default();
        append(&queue, &mut writer, from, from + 10);
        append(&queue, &mut writer, from + 10, from + 20);
    }
    let file = OpenOptions::new().write(true).open(files::path(dir.path(), 0)).unwrap();
    file.write_all_at(b"?", frame(0, 10).len() as u64 + 30).unwrap();
    assert_eq!(drain(&queue, queue.sent()).0, (0..10).chain(100..120).collect::<Vec<_>>());
    assert_eq!(queue.size().waiting, 0);
}

/// The newest segment grows behind its damage.
#[test]
fn reading_goes_on_behind_damage_in_the_newest_segment() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(dir.path(), 1 << 30).unwrap();
    let mut writer = SegmentWriter::default();
    append(&queue, &mut writer, 0, 10);
    let file = OpenOptions::new().write(true).open(files::path(dir.path(), 0)).unwrap();
    file.write_all_at(b"?", 30).unwrap();
    let Next::Damaged(at) = queue.read(queue.sent(), 1000).unwrap() else { panic!("no damage") };
    let (next, lost) = queue.skip(at);
    assert_eq!(lost, 10);
    append(&queue, &mut writer, 10, 20);
    assert_eq!(drain(&queue, next).0, (10..20).collect::<Vec<_>>());
    assert_eq!(queue.size().waiting, 0);
}

#[test]
fn the_oldest_points_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(dir.path(), 3 * frame(0, 10).len() as u64).unwrap();
    for from in 0..5 {
        append(&queue, &mut SegmentWriter::default(), from * 10, from * 10 + 10);
    }
    assert_eq!(queue.make_room(false).unwrap(), Some(10));
    assert_eq!(queue.make_room(false).unwrap(), Some(10));
    assert_eq!(queue.make_room(false).unwrap(), None);
    assert_eq!(drain(&queue, Position::default()).0, (20..50).collect::<Vec<_>>());
    assert_eq!(queue.make_room(true).unwrap(), Some(0));
    assert_eq!(files::list(dir.path()).unwrap(), [3, 4]);
}

#[test]
fn sent_segments_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(dir.path(), 1 << 30).unwrap();
    for from in 0..4 {
        append(&queue, &mut SegmentWriter::default(), from * 10, from * 10 + 10);
    }
    let (_, at) = drain(&queue, queue.sent());
    assert_eq!(files::list(dir.path()).unwrap(), [0, 1, 2, 3]);
    queue.keep_from(at).unwrap();
    assert_eq!(files::list(dir.path()).unwrap(), [3]);
}
