//! Which retained slices are sent again, and for which servers.
//!
//! All servers share one read position, the *place*, which moves in circles over the retained segments. Each
//! server has a *lap*: it begins where the place is when the server returns, and ends when the place arrives
//! there again. So a server that returns repeatedly does not delay any slice forever, and slices that several
//! servers need are read and sent only once.

use uuid::Uuid;

use super::cursor::{Chunk, Position};
use super::lock;
use super::segment::{ARRIVED, Segments};
use super::shared::Shared;
use crate::SpoolError;

/// The mark's version.
const VERSION: u8 = 1;
const LAP_BYTES: usize = 16 + 4 + 4 + 1 + 4 + 17;

/// The pass of one server over the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lap {
    /// The server; nil means all servers.
    server: Uuid,
    /// The first segment that the server may have lost, and the segment after the last one.
    from: u32,
    until: u32,
    start: Position,
    /// Whether the place has passed the end of the segments since the lap began.
    has_wrapped: bool,
    /// Whether the lap was added after the last slices were read, which may therefore have been sent before
    /// the server returned. Not saved.
    is_new: bool,
}

impl Lap {
    fn covers(&self, segment: u32) -> bool {
        (self.from..self.until).contains(&segment) || ARRIVED.contains(&segment)
    }

    /// Whether slices of the segment still have to be sent while the place is `at`.
    fn needs(&self, segment: u32, at: Position) -> bool {
        let ahead = segment >= at.segment;
        let to_start =
            self.start.segment > segment || self.start.segment == segment && self.start.id.is_some();
        self.covers(segment) && if self.has_wrapped { ahead && to_start } else { ahead || to_start }
    }
}

/// The laps in progress. No I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resend {
    at: Position,
    laps: Vec<Lap>,
}

impl Resend {
    /// Begins a lap. If the same server has a lap in progress, it is replaced, because it has to begin again.
    pub(super) fn add(&mut self, server: Uuid, from: u32, until: u32) {
        if self.laps.is_empty() {
            self.at = Position { segment: from, id: None };
        }
        let mut lap = Lap { server, from, until, start: self.at, has_wrapped: false, is_new: true };
        self.laps.retain(|old| {
            let is_same = old.server == server;
            if is_same {
                (lap.from, lap.until) = (lap.from.min(old.from), lap.until.max(old.until));
            }
            !is_same
        });
        self.laps.push(lap);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.laps.is_empty()
    }

    /// Moves the place to the next slices that a lap needs, and ends laps that are complete. `live` returns
    /// the first segment, from the given number on, that is not empty. `None` when no lap is left.
    pub(super) fn next(&mut self, live: &dyn Fn(u32) -> Option<u32>) -> Option<Position> {
        while !self.laps.is_empty() {
            let Some(segment) = self.next_covered(live) else {
                // A lap that reaches the end for the second time is over, because it began after the last
                // segment that is left.
                self.laps.retain(|lap| !lap.has_wrapped);
                self.laps.iter_mut().for_each(|lap| lap.has_wrapped = true);
                self.at = Position::default();
                continue;
            };
            if segment != self.at.segment {
                self.at = Position { segment, id: None };
            }
            let (at, laps) = (self.at, self.laps.len());
            self.laps.retain(|lap| !lap.has_wrapped || at < lap.start);
            if self.laps.len() == laps {
                self.laps.iter_mut().for_each(|lap| lap.is_new = false);
                return Some(at);
            }
        }
        None
    }

    fn next_covered(&self, live: &dyn Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut segment = live(self.at.segment)?;
        while !self.laps.iter().any(|lap| lap.covers(segment)) {
            segment = live(segment + 1)?;
        }
        Some(segment)
    }

    /// The servers that need a segment. Empty means all.
    pub(super) fn servers(&self, segment: u32) -> Vec<Uuid> {
        let wanted = self.laps.iter().filter(|lap| lap.covers(segment)).map(|lap| lap.server);
        let servers: Vec<Uuid> = wanted.collect();
        if servers.contains(&Uuid::nil()) { Vec::new() } else { servers }
    }

    /// Moves the place to `end`, which is after the slices that were sent. If some of them failed, all laps
    /// begin again at `end`, so that these slices come last.
    pub(super) fn advance(&mut self, end: Position, is_complete: bool) {
        for lap in &mut self.laps {
            if lap.is_new || !is_complete {
                (lap.start, lap.has_wrapped) = (end, false);
            }
        }
        self.at = end;
    }

    /// The first segment that may still have slices to be sent.
    pub(super) fn first_needed(&self) -> Option<u32> {
        let first = |lap: &Lap| if lap.has_wrapped { self.at.segment } else { self.at.segment.min(lap.from) };
        self.laps.iter().map(first).min()
    }

    /// Whether slices of a segment are still to be sent.
    pub(super) fn needs(&self, segment: u32) -> bool {
        self.laps.iter().any(|lap| lap.needs(segment, self.at))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put_position(&mut bytes, self.at);
        for lap in &self.laps {
            bytes.extend_from_slice(lap.server.as_bytes());
            bytes.extend_from_slice(&lap.from.to_le_bytes());
            bytes.extend_from_slice(&lap.until.to_le_bytes());
            bytes.push(u8::from(lap.has_wrapped));
            put_position(&mut bytes, lap.start);
        }
        bytes
    }

    /// `None` if the bytes are not those of a mark.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[VERSION])?;
        let (at, rest) = take_position(rest)?;
        let laps = rest.chunks(LAP_BYTES).map(|lap| {
            let (server, lap) = lap.split_first_chunk()?;
            let (from, lap) = lap.split_first_chunk()?;
            let (until, lap) = lap.split_first_chunk()?;
            let (has_wrapped, lap) = lap.split_first()?;
            let (start, rest) = take_position(lap)?;
            rest.is_empty().then_some(Lap {
                server: Uuid::from_bytes(*server),
                from: u32::from_le_bytes(*from),
                until: u32::from_le_bytes(*until),
                start,
                has_wrapped: *has_wrapped != 0,
                is_new: false,
            })
        });
        Some(Self { at, laps: laps.collect::<Option<_>>()? })
    }
}

fn put_position(bytes: &mut Vec<u8>, position: Position) {
    bytes.extend_from_slice(&position.segment.to_le_bytes());
    bytes.push(u8::from(position.id.is_some()));
    bytes.extend_from_slice(&position.id.unwrap_or_default());
}

fn take_position(bytes: &[u8]) -> Option<(Position, &[u8])> {
    let (segment, rest) = bytes.split_first_chunk()?;
    let (has_id, rest) = rest.split_first()?;
    let (id, rest) = rest.split_first_chunk()?;
    let id = (*has_id != 0).then_some(*id);
    Some((Position { segment: u32::from_le_bytes(*segment), id }, rest))
}

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
        self.with("note what is sent again", |database| database.mark_resend(mark))
    }
}

fn left(resend: &Resend, segments: &Segments) -> u64 {
    let numbered = segments.all.iter().map(|(number, segment)| (*number, segment));
    let all = numbered.chain(ARRIVED.into_iter().zip(&segments.arrived));
    all.filter(|(number, _)| resend.needs(*number)).map(|(_, segment)| segment.sums.bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    /// Segments 1 to 9 and one of arrived slices, two chunks each.
    struct World {
        live: BTreeSet<u32>,
        resend: Resend,
        visited: Vec<(u32, Vec<Uuid>)>,
    }

    impl World {
        fn new() -> Self {
            let live = (1..10).chain([ARRIVED[0]]).collect();
            Self { live, resend: Resend::default(), visited: Vec::new() }
        }

        fn step(&mut self, is_complete: bool) -> bool {
            let live = &self.live;
            let Some(at) = self.resend.next(&|number| live.range(number..).next().copied()) else {
                return false;
            };
            assert!(self.resend.needs(at.segment));
            if at.id.is_none() {
                self.visited.push((at.segment, self.resend.servers(at.segment)));
            }
            let end = match at.id {
                None => Position { id: Some([7; 16]), ..at },
                Some(_) => Position { segment: at.segment + 1, id: None },
            };
            self.resend.advance(end, is_complete);
            assert_eq!(Resend::read(&self.resend.bytes()), Some(self.resend.clone()));
            true
        }

        fn finish(&mut self) -> Vec<u32> {
            while self.step(true) {}
            assert!(self.live.iter().all(|segment| !self.resend.needs(*segment)));
            std::mem::take(&mut self.visited).into_iter().map(|(segment, _)| segment).collect()
        }
    }

    #[test]
    fn a_lap_visits_each_segment_once() {
        let mut world = World::new();
        world.resend.add(A, 3, 7);
        assert_eq!(world.finish(), [3, 4, 5, 6, ARRIVED[0]]);
        assert!(world.resend.is_idle());
    }

    #[test]
    fn servers_share_the_way() {
        let mut world = World::new();
        world.resend.add(A, 1, 7);
        for _ in 0..6 {
            world.step(true);
        }
        // B returns while A is at segment 4.
        world.resend.add(B, 1, 9);
        while world.step(true) {}
        let of = |server: Uuid| -> Vec<u32> {
            let its = world.visited.iter().filter(|(_, servers)| servers.contains(&server));
            its.map(|(segment, _)| *segment).collect()
        };
        assert_eq!(of(A), [1, 2, 3, 4, 5, 6, ARRIVED[0]]);
        assert_eq!(of(B), [4, 5, 6, 7, 8, ARRIVED[0], 1, 2, 3]);
        let segments: Vec<u32> = world.visited.iter().map(|(segment, _)| *segment).collect();
        assert_eq!(segments, [1, 2, 3, 4, 5, 6, 7, 8, ARRIVED[0], 1, 2, 3]);
    }

    #[test]
    fn a_server_that_keeps_returning_starves_no_segment() {
        let mut world = World::new();
        for _ in 0..20 {
            world.resend.add(A, 1, 10);
            for _ in 0..4 {
                world.step(true);
            }
        }
        for segment in world.live.clone() {
            assert!(world.visited.iter().filter(|(visited, _)| *visited == segment).count() >= 3);
        }
        // After the last return all slices are visited once more.
        world.visited.clear();
        world.resend.add(A, 1, 10);
        let mut rest = world.finish();
        rest.sort_unstable();
        assert_eq!(rest, Vec::from_iter(world.live.clone()));
    }

    #[test]
    fn slices_in_flight_at_a_return_are_sent_once_more() {
        let mut world = World::new();
        world.resend.add(A, 1, 4);
        let first = world.resend.next(&|number| Some(number)).unwrap();
        assert_eq!(first, Position { segment: 1, id: None });
        world.resend.add(A, 1, 4);
        world.resend.advance(Position { segment: 2, id: None }, true);
        assert_eq!(world.finish(), [2, 3, ARRIVED[0], 1]);
    }

    #[test]
    fn what_failed_is_visited_again_after_the_rest() {
        let mut world = World::new();
        world.resend.add(A, 1, 5);
        world.step(true);
        world.step(true);
        world.step(false);
        assert_eq!(world.finish(), [1, 2, 3, 4, ARRIVED[0], 1, 2]);
    }

    #[test]
    fn dropped_segments_end_no_lap_early_and_none_late() {
        let mut world = World::new();
        world.resend.add(A, 1, 10);
        for _ in 0..8 {
            world.step(true);
        }
        world.resend.add(B, 1, 10);
        world.live.retain(|segment| *segment > 7);
        assert_eq!(world.finish(), [1, 2, 3, 4, 8, 9, ARRIVED[0]]);
        world.resend.add(A, 1, 5);
        world.live.clear();
        assert!(world.finish().is_empty());
    }

    #[test]
    fn a_damaged_mark_is_refused() {
        let mut resend = Resend::default();
        resend.add(A, 1, 5);
        resend.add(B, 2, 6);
        resend.next(&|number| Some(number));
        let bytes = resend.bytes();
        assert_eq!(Resend::read(&bytes), Some(resend));
        assert_eq!(Resend::read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Resend::read(&bytes[1..]), None);
        assert_eq!(Resend::read(&[]), None);
    }
}
