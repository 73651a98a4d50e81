//! One file of a queue, and the writer that begins a new one when it is full.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Queue;

/// The data of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) id: u64,
    /// Number of bytes that can be read.
    pub(super) bytes: u64,
    /// Number of points in these bytes.
    pub(super) points: u64,
    /// Number of points that were sent or given up.
    pub(super) sent: u64,
}

impl Segment {
    /// Number of points that were not sent yet.
    pub(super) fn waiting(&self) -> u64 {
        self.points.saturating_sub(self.sent)
    }
}

/// Appends frames to a queue. There is one for each queue.
#[derive(Debug, Default)]
pub(crate) struct SegmentWriter {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    is_synced: bool,
}

impl SegmentWriter {
    /// Appends frames, and begins a new segment before them if the last one is full.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or written. In that case none of the frames is readable, and they can be
    /// appended again.
    pub(crate) fn append(&mut self, queue: &Queue, frames: &[u8], points: u64) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= queue.segment_bytes()) {
            // The unsynced data of the old segment reaches the disk before the new one is used.
            self.sync()?;
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open { file: queue.create_segment()?, bytes: 0, is_synced: true }),
        };
        if let Err(error) = open.file.write_all_at(frames, open.bytes) {
            // A part of a frame may have been written. If it cannot be cut off, the next frame begins in a
            // new segment. Without the cut, a full disk would get a new file with each try, and older files
            // would be removed without freeing enough space.
            if open.file.set_len(open.bytes).is_err() {
                self.open = None;
            }
            return Err(error);
        }
        open.bytes += frames.len() as u64;
        open.is_synced = false;
        queue.appended(frames.len() as u64, points);
        Ok(())
    }

    /// Makes the appended frames survive a power cut.
    ///
    /// # Errors
    ///
    /// The error of the operating system. The appended frames can still be read, but a power cut may lose
    /// them.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match &mut self.open {
            Some(open) if !open.is_synced => {
                // After a failure, the kernel may treat the data as written, so another sync would prove
                // nothing.
                open.is_synced = true;
                open.file.sync_data()
            }
            _ => Ok(()),
        }
    }
}
