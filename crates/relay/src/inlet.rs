//! The points that a destination's writer has not taken yet: a buffer of frames in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::frame::{self, FRAME_BYTES, HEADER, POINT_BYTES, Point};

/// Number of bytes that may wait in memory while the disk is slow or fails. Beyond it, points are dropped.
const BYTES_MAX: usize = 16 << 20;

/// Points on their way to the files of one queue.
#[derive(Debug, Default)]
pub(crate) struct Inlet {
    pending: Mutex<Pending>,
    wake: Condvar,
    /// Number of points that were accepted and are not in the queue's files yet.
    held: AtomicU64,
}

#[derive(Debug, Default)]
struct Pending {
    batch: Batch,
    /// Number of points in the last frame, which is still open.
    open_points: u32,
    is_closed: bool,
}

/// Frames without their headers filled in.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The frames one after the other, each with room for its header.
    pub(crate) bytes: Vec<u8>,
    /// Where each frame ends in `bytes`, and the number of its points.
    pub(crate) frames: Vec<(usize, u32)>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn begin_of_last(&self) -> usize {
        self.frames.last().map_or(0, |(end, _)| *end)
    }
}

/// What a writer takes from the inlet.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Frames to write.
    Frames(Batch),
    /// No points arrived in time.
    Nothing,
    /// Nothing is left, and no more points will arrive.
    Closed,
}

impl Inlet {
    /// Adds points. Returns how many were accepted. These are the first ones; there was no room for the
    /// others.
    pub(crate) fn add<'a>(&self, points: impl Iterator<Item = Point<'a>>) -> (u64, u64) {
        let (mut taken, mut refused) = (0, 0);
        let mut pending = self.pending();
        for point in points {
            let bytes = HEADER + POINT_BYTES + point.name.len();
            if pending.is_closed || pending.batch.bytes.len() + bytes > BYTES_MAX {
                refused += 1;
            } else {
                pending.add(point);
                taken += 1;
            }
        }
        // Added while `pending` is locked, because the writer subtracts the points that it takes.
        self.held.fetch_add(taken, Ordering::Relaxed);
        drop(pending);
        if taken > 0 {
            self.wake.notify_one();
        }
        (taken, refused)
    }

    /// Takes all pending frames. If there are none, waits up to `timeout`. `empty` is an empty batch whose
    /// memory is reused.
    pub(crate) fn take(&self, mut empty: Batch, timeout: Duration) -> Taken {
        let waits = |pending: &mut Pending| pending.batch.is_empty() && !pending.is_closed;
        let waited = self.wake.wait_timeout_while(self.pending(), timeout, waits);
        let mut pending = waited.unwrap_or_else(PoisonError::into_inner).0;
        if pending.batch.is_empty() {
            return if pending.is_closed { Taken::Closed } else { Taken::Nothing };
        }
        pending.end_frame();
        empty.bytes.clear();
        empty.frames.clear();
        Taken::Frames(std::mem::replace(&mut pending.batch, empty))
    }

    /// States that points that were taken are now in the files, or were dropped.
    pub(crate) fn release(&self, points: u64) {
        self.held.fetch_sub(points, Ordering::Relaxed);
    }

    /// Number of points that are not in the files yet.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Refuses further points. The writer ends when it has taken the rest.
    pub(crate) fn close(&self) {
        self.pending().is_closed = true;
        self.wake.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pending().is_closed
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn add(&mut self, point: Point<'_>) {
        if self.open_points == 0 {
            self.batch.bytes.extend_from_slice(&[0; HEADER]);
        }
        frame::push(&mut self.batch.bytes, point);
        self.open_points += 1;
        if self.batch.bytes.len() - self.batch.begin_of_last() >= FRAME_BYTES {
            self.end_frame();
        }
    }

    fn end_frame(&mut self) {
        if self.open_points > 0 {
            self.batch.frames.push((self.batch.bytes.len(), self.open_points));
            self.open_points = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Points;

    fn point(name: &[u8]) -> Point<'_> {
        Point { name, timestamp: 1, value: 2.0 }
    }

    #[test]
    fn points_come_out_in_order_in_frames_of_bounded_size() {
        let inlet = Inlet::default();
        let names: Vec<Vec<u8>> = (0..5000).map(|n| format!("metric.{n}").into_bytes()).collect();
        assert_eq!(inlet.add(names.iter().map(|name| point(name))), (5000, 0));
        let Taken::Frames(batch) = inlet.take(Batch::default(), Duration::ZERO) else { panic!("no frames") };
        assert_eq!(inlet.held(), 5000);
        assert!(batch.frames.len() > 1);
        let mut begin = 0;
        let mut read = Vec::new();
        for (end, points) in &batch.frames {
            assert!(end - begin < FRAME_BYTES + 100);
            let found: Vec<_> = Points(&batch.bytes[begin + HEADER..*end]).map(|p| p.name.to_vec()).collect();
            assert_eq!(found.len(), *points as usize);
            read.extend(found);
            begin = *end;
        }
        assert_eq!(read, names);
        assert!(matches!(inlet.take(batch, Duration::ZERO), Taken::Nothing));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let inlet = Inlet::default();
        let name = vec![b'a'; 1 << 20];
        let (taken, refused) = inlet.add((0..20).map(|_| point(&name)));
        assert_eq!((taken, refused), (15, 5));
        inlet.close();
        assert_eq!(inlet.add(std::iter::once(point(b"late"))), (0, 1));
        assert!(matches!(inlet.take(Batch::default(), Duration::ZERO), Taken::Frames(_)));
        assert!(matches!(inlet.take(Batch::default(), Duration::ZERO), Taken::Closed));
    }
}
