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

/// Reads to the end and marks all as sent. Returns the timestamps, and the position after them.
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
    assert_eq!(found, Found { waiting: 10, ..Found::default() });
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
        // The next round begins with the first segment only.
        let ids = files::list(dir.path()).unwrap();
        ids.iter().skip(1).for_each(|id| fs::remove_file(files::path(dir.path(), *id)).unwrap());
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

/// Whatever happens to the files, new points are sent, and missing files are reported.
#[test]
fn missing_files_and_a_damaged_note_are_noticed() {
    let fill = |dir: &Path| {
        let (queue, _) = Queue::open(dir, 1 << 30).unwrap();
        for from in 0..4 {
            append(&queue, &mut SegmentWriter::default(), from * 10, from * 10 + 10);
        }
        let Next::Chunk(chunk) = queue.read(queue.sent(), 1000).unwrap() else { panic!("nothing to read") };
        chunk.frames.iter().for_each(|frame| assert!(queue.set_sent(frame)));
        queue.keep_from(queue.sent()).unwrap();
    };
    let check = |dir: &Path, missing: u64, is_note_lost: bool, sent: &[u32]| {
        let (queue, found) = Queue::open(dir, 1 << 30).unwrap();
        assert_eq!((found.missing, found.is_note_lost), (missing, is_note_lost));
        append(&queue, &mut SegmentWriter::default(), 90, 93);
        assert_eq!(drain(&queue, queue.sent()).0, [sent, &[90, 91, 92]].concat());
    };
    let rest: Vec<u32> = (10..40).collect();
    for (gone, missing, left) in [
        (vec![], 0, rest.clone()),
        (vec![3], 1, (10..30).collect()),
        (vec![2], 1, [(10..20).collect::<Vec<_>>(), (30..40).collect()].concat()),
        (vec![0, 1, 2, 3], 4, vec![]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path());
        gone.iter().for_each(|id| fs::remove_file(files::path(dir.path(), *id)).unwrap());
        check(dir.path(), missing, false, &left);
    }
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let note = files::positions_path(dir.path());
    let whole = fs::read_to_string(&note).unwrap();
    let all: Vec<u32> = (0..40).collect();
    for harmed in [
        whole.replacen("sent 0", "sent 9", 1),
        whole.replacen("last 3", "last 7", 1),
        whole[..whole.len() - 4].to_owned(),
        whole[..10].to_owned(),
        String::new(),
        "\0".repeat(whole.len()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path());
        fs::write(files::positions_path(dir.path()), harmed).unwrap();
        check(dir.path(), 0, true, &all);
    }
    // The form of older versions.
    let old: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(&note, old).unwrap();
    check(dir.path(), 0, false, &rest);
}

/// The newest segment grows after a damaged place in it.
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
