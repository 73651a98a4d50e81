//! Shows how many points have been sent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Runs `work` and shows its progress meanwhile: a bar on a terminal, a line every 30 seconds elsewhere.
/// `work` counts the points in the counter that it receives.
pub(super) fn with_progress<T>(message: &'static str, points: u64, work: impl FnOnce(&AtomicU64) -> T) -> T {
    let (sent, finished) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| show(message, points, &sent, &finished));
        let result = work(&sent);
        finished.store(true, Ordering::Release);
        result
    })
}

fn show(message: &'static str, points: u64, sent: &AtomicU64, finished: &AtomicBool) {
    let bar = ProgressBar::new(points).with_message(message);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {per_sec}") {
        bar.set_style(style);
    }
    let (mut lines, started) = (0, Instant::now());
    while !finished.load(Ordering::Acquire) {
        let count = sent.load(Ordering::Relaxed);
        bar.set_position(count);
        let due = started.elapsed().as_secs() / 30;
        if bar.is_hidden() && due > lines {
            lines = due;
            eprintln!("{message}: {count} of {points} points");
        }
        thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
