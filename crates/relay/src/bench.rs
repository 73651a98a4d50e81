//! The steps of a point that the benchmarks time. Not part of the crate's interface.

use std::time::Duration;

use plumbago_model::PointBatch;

use crate::destination::Protocol;
use crate::frame::{self, HEADER, Point, Points};
use crate::inlet::{Batch, Inlet, Taken};
use crate::wire;

/// The memory of one destination.
#[derive(Debug, Default)]
pub struct Lane {
    inlet: Inlet,
    batch: Batch,
}

impl Lane {
    /// Adds the points of a batch.
    pub fn add(&self, batch: &PointBatch) {
        self.inlet.add(batch.points().iter().map(|point| Point {
            name: batch.name_bytes(point),
            timestamp: point.timestamp,
            value: point.value,
        }));
    }

    /// Turns the added points into frames, as the writer does. Returns the size of the frames in bytes.
    pub fn seal(&mut self) -> usize {
        let empty = std::mem::take(&mut self.batch);
        if let Taken::Frames(batch) = self.inlet.take(empty, Duration::ZERO) {
            self.batch = batch;
        }
        let mut begin = 0;
        for (end, points) in &self.batch.frames {
            frame::seal(&mut self.batch.bytes[begin..*end], *points, 0);
            begin = *end;
        }
        self.batch.bytes.len()
    }

    /// Writes the frames that were last sealed, in the form that a connection gets.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let mut begin = 0;
        for (end, _) in &self.batch.frames {
            wire::write(protocol, Points(&self.batch.bytes[begin + HEADER..*end]), out);
            begin = *end;
        }
    }
}
