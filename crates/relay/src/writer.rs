//! The thread that moves a destination's points from memory to its queue on disk.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use plumbago_model::Clock;
use plumbago_telemetry::Throttle;

use crate::frame;
use crate::inlet::{Batch, Inlet, Taken};
use crate::queue::{Queue, SegmentWriter};
use crate::stats::Stats;

/// Pause between two writes, so that many small batches become one. Also the time for which a kill can lose
/// points.
const PAUSE: Duration = Duration::from_millis(5);
/// Interval between two syncs, and between two looks at the free space.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Why a queue cannot be written; nothing while it can.
#[derive(Debug, Default)]
pub(crate) struct DiskTrouble(Mutex<Option<String>>);

impl DiskTrouble {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// What a writer needs.
pub(crate) struct Writer {
    pub(crate) destination: String,
    pub(crate) inlet: Arc<Inlet>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) stats: Stats,
    pub(crate) trouble: Arc<DiskTrouble>,
    pub(crate) clock: Arc<dyn Clock>,
    /// While the disk has fewer free bytes than this, the oldest segments are removed.
    pub(crate) min_free_bytes: u64,
}

impl Writer {
    /// Starts the thread. It ends when the inlet is closed and empty.
    ///
    /// # Errors
    ///
    /// If the system starts no further thread.
    pub(crate) fn start(self) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("relay-writer".to_owned()).spawn(move || self.run())
    }

    fn run(self) {
        static FAILED: Throttle = Throttle::new(60_000);
        let mut files = SegmentWriter::default();
        let mut empty = Batch::default();
        let mut looked = Instant::now();
        loop {
            match self.inlet.take(empty, HOUSEKEEPING) {
                Taken::Frames(mut batch) => {
                    self.seal(&mut batch);
                    self.write(&mut files, &batch, &FAILED);
                    empty = batch;
                    if !self.inlet.is_closed() {
                        thread::sleep(PAUSE);
                    }
                }
                Taken::Nothing => empty = Batch::default(),
                Taken::Closed => {
                    self.sync(&mut files, &FAILED);
                    return;
                }
            }
            if looked.elapsed() >= HOUSEKEEPING {
                self.sync(&mut files, &FAILED);
                self.make_room();
                looked = Instant::now();
            }
        }
    }

    fn seal(&self, batch: &mut Batch) {
        let time = self.clock.now().clamp(0, i64::from(u32::MAX)) as u32;
        let mut begin = 0;
        for (end, points) in &batch.frames {
            frame::seal(&mut batch.bytes[begin..*end], *points, time);
            begin = *end;
        }
    }

    /// Writes a batch, in parts that fit into a segment. While the disk fails it is tried again; meanwhile points
    /// wait in the inlet. During a stop it is tried once.
    fn write(&self, files: &mut SegmentWriter, batch: &Batch, failed: &Throttle) {
        let (mut begin, mut points) = (0, 0);
        for (number, (end, more)) in batch.frames.iter().enumerate() {
            points += u64::from(*more);
            if (end - begin) as u64 >= self.queue.segment_bytes() || number + 1 == batch.frames.len() {
                self.append(files, &batch.bytes[begin..*end], points, failed);
                (begin, points) = (*end, 0);
            }
        }
    }

    fn append(&self, files: &mut SegmentWriter, frames: &[u8], points: u64, failed: &Throttle) {
        let mut has_failed = false;
        while let Err(error) = files.append(&self.queue, frames, points) {
            let then = "points for this destination wait in memory, and are dropped when it is full";
            self.log(failed, "cannot write", &error, then);
            self.trouble.set(Some(error.to_string()));
            has_failed = true;
            self.make_room();
            if self.inlet.is_closed() {
                self.stats.dropped_disk.add(points);
                break;
            }
            thread::sleep(HOUSEKEEPING);
        }
        if has_failed {
            self.trouble.set(None);
        }
        self.inlet.release(points);
    }

    fn sync(&self, files: &mut SegmentWriter, failed: &Throttle) {
        if let Err(error) = files.sync() {
            self.log(failed, "cannot sync", &error, "its last points may not survive a power cut");
        }
    }

    /// Removes the oldest segments beyond the limits.
    fn make_room(&self) {
        loop {
            let is_disk_full = free_bytes(self.queue.dir()).is_some_and(|free| free < self.min_free_bytes);
            match self.queue.make_room(is_disk_full) {
                Ok(Some(lost)) => self.stats.dropped_full.add(lost),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(destination = self.destination, %error, "cannot remove an old file of the relay's queue; until this works, the queue takes more disk space than its limits allow");
                    return;
                }
            }
        }
    }

    fn log(&self, failed: &Throttle, what: &str, error: &io::Error, then: &str) {
        if let Some(suppressed) = failed.pass_now() {
            tracing::error!(
                destination = self.destination,
                suppressed,
                "{what} the relay's queue in {}: {error}; {then}",
                self.queue.dir().display()
            );
        }
    }
}

/// Free bytes of the disk of `dir`. `None` if the system does not say.
fn free_bytes(dir: &Path) -> Option<u64> {
    let found = statvfs(dir).ok()?;
    Some(found.blocks_available() as u64 * found.fragment_size() as u64)
}
