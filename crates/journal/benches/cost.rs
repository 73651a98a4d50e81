//! Measures CPU time and bytes written per point, for the whole process with its background work, at a fixed
//! rate.
//!
//! `cargo bench -p plumbago-journal --bench cost -- [POINTS] [POINTS_PER_FRAME] [FRAMES_PER_SECOND]`
//! prints one line. A rate of 0 means as fast as possible. Wall time is not measured, because the load is
//! paced.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use plumbago_journal::{Config, Journal};
use plumbago_model::ManualClock;
use plumbago_telemetry::Registry;

/// Number of points after which the clock moves to the next segment.
const SEGMENT_POINTS: u64 = 5_000_000;
/// Number of segments kept besides the newest one.
const KEPT_SEGMENTS: u32 = 4;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (points, frame, rate) = (number(0, 20_000_000), number(1, 500), number(2, 0));

    let dir = tempfile::tempdir_in(".").unwrap();
    let clock = Arc::new(ManualClock::at(1_700_000_100));
    let journal = Journal::open(dir.path(), Config::default(), clock.clone(), &Registry::new()).unwrap();
    let (cpu_before, written_before) = (cpu_seconds(), written_bytes());
    let mut writers = [journal.writer(), journal.writer()];
    let start = Instant::now();
    let (mut appended, mut frames, mut segment_end) = (0, 0_u64, SEGMENT_POINTS);
    while appended < points {
        let writer = &mut writers[frames as usize % 2];
        for i in 0..frame {
            let n = appended + i;
            writer.point((n as u32).wrapping_mul(2_654_435_761), 1_700_000_000 + n as u32, n as f64 * 0.1);
        }
        writer.write_out().unwrap();
        appended += frame;
        frames += 1;
        if appended >= segment_end {
            segment_end += SEGMENT_POINTS;
            clock.advance(300);
            writers.iter_mut().for_each(|writer| assert!(writer.write_out().is_ok()));
            journal.drop_before(journal.current_segment() - KEPT_SEGMENTS).unwrap();
        }
        if let Some(due) = (frames * 1_000_000_000).checked_div(rate) {
            let due = start + Duration::from_nanos(due);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    drop(writers);
    journal.close().unwrap();
    let millions = appended as f64 / 1e6;
    println!(
        "{appended} points in frames of {frame}: {:.2} CPU ms per million points, {:.2} bytes written per point",
        (cpu_seconds() - cpu_before) * 1e3 / millions,
        (written_bytes() - written_before) as f64 / appended as f64
    );
}

/// User and system time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

/// Number of bytes that this process has caused to be written to the disk.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}
