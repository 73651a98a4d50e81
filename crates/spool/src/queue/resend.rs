//! Reads the retained slices that are sent again, as the `laps` ask for them.

use uuid::Uuid;

use super::chunk::{Chunk, Position};
use super::laps::Resend;
use super::lock;
use super::segment::{ARRIVED, Segments};
use super::shared::Shared;
use crate::SpoolError;

/// Slices that are sent again.
#[derive(Debug)]
pub struct ResendChunk {
    /// The slices.
    pub chunk: Chunk,
    /// The servers that may have lost the rows. Empty means all servers.
    pub servers: Vec<Uuid>,
    /// Whether each slice has to be sent with its own timestamp instead of the chunk's.
    pub own_timestamps: bool,
}

impl Shared {
    /// Begins laps for these servers over all retained slices. Nil means all servers.
    pub(super) fn resend(&self, servers: &[Uuid], since_us: i64) -> Result<u64, SpoolError> {
        let bytes = {
            let mut resend = lock(&self.resend);
            let (from, until) = lock(&self.segments).sent_since(self.steady_us(since_us));
            let mut next = resend.clone();
            servers.iter().for_each(|server| next.add(*server, from, until));
            let bytes = left(&next, &lock(&self.segments));
            if bytes == 0 {
                return Ok(0);
            }
            self.save_resend(&next)?;
            *resend = next;
            bytes
        };
        self.sync()?;
        self.show();
        tracing::info!(bytes, "rows that were acknowledged before will be sent again");
        Ok(bytes)
    }

    pub(super) fn next_resend(&self, most_bytes: usize) -> Result<Option<ResendChunk>, SpoolError> {
        loop {
            let (start, servers) = {
                let mut resend = lock(&self.resend);
                if resend.is_idle() {
                    return Ok(None);
                }
                let next = {
                    let segments = lock(&self.segments);
                    let next = resend.next(&|number| segments.first_from(number));
                    if next.is_some_and(|at| segments.is_pending(at.segment)) {
                        return Ok(None);
                    }
                    next
                };
                let Some(at) = next else {
                    self.save_resend(&resend)?;
                    tracing::info!("all retained rows that a server may have lost were sent again");
                    return Ok(None);
                };
                (at, resend.servers(at.segment))
            };
            let chunk = self.read_chunk(start, most_bytes)?;
            let own_timestamps = ARRIVED.contains(&start.segment);
            let chunk = ResendChunk { chunk, servers, own_timestamps };
            if !chunk.chunk.slices.is_empty() {
                return Ok(Some(chunk));
            }
            self.resent(&chunk, true)?;
        }
    }

    /// Reads the slices at or after `at` that [`Shared::resend`] would send again for all servers. Changes
    /// nothing.
    pub(super) fn look_again(
        &self,
        since_us: i64,
        mut at: Position,
        most_bytes: usize,
    ) -> Result<Option<ResendChunk>, SpoolError> {
        loop {
            let next = {
                let segments = lock(&self.segments);
                let (from, until) = segments.sent_since(self.steady_us(since_us));
                let next = segments.first_from(at.segment.max(from));
                let is_between = next.is_some_and(|number| (until..ARRIVED[0]).contains(&number));
                if is_between { segments.first_from(ARRIVED[0]) } else { next }
            };
            let Some(segment) = next else { return Ok(None) };
            if segment != at.segment {
                at = Position { segment, id: None };
            }
            let chunk = self.read_chunk(at, most_bytes)?;
            if !chunk.slices.is_empty() {
                let own_timestamps = ARRIVED.contains(&segment);
                return Ok(Some(ResendChunk { chunk, servers: Vec::new(), own_timestamps }));
            }
            at = chunk.end;
        }
    }

    pub(super) fn resent(&self, chunk: &ResendChunk, is_complete: bool) -> Result<(), SpoolError> {
        let mut resend = lock(&self.resend);
        resend.advance(chunk.chunk.end, is_complete);
        self.save_resend(&resend)
    }

    /// Size of the segments that are still to be sent again, in bytes.
    pub(super) fn resend_bytes(&self) -> u64 {
        let resend = lock(&self.resend);
        left(&resend, &lock(&self.segments))
    }

    fn save_resend(&self, resend: &Resend) -> Result<(), SpoolError> {
        let mark = (!resend.is_idle()).then(|| resend.bytes());
        self.with("record what is sent again", |database| database.mark_resend(mark))
    }
}

fn left(resend: &Resend, segments: &Segments) -> u64 {
    let numbered = segments.all.iter().map(|(number, segment)| (*number, segment));
    let all = numbered.chain(ARRIVED.into_iter().zip(&segments.arrived));
    all.filter(|(number, _)| resend.needs(*number)).map(|(_, segment)| segment.sums.bytes).sum()
}
