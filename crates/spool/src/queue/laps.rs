//! The laps over the retained slices: which of them are still to be sent again, and for which servers. Pure.
//!
//! All servers share one read position, the *place*, which moves in circles over the retained segments. Each server has
//! a *lap*: it begins where the place is when the server returns, and ends when the place arrives there again. So a
//! server that returns again and again delays no slice for ever, and slices that several servers need are read and sent
//! only once.

use uuid::Uuid;

use super::chunk::Position;
use super::segment::ARRIVED;

/// The mark's version.
const VERSION: u8 = 1;
const LAP_BYTES: usize = 16 + 4 + 4 + 1 + 4 + 17;

/// One server's way over the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lap {
    /// Nil means all servers.
    server: Uuid,
    /// The first segment that the server may have lost, and the one after the last.
    from: u32,
    until: u32,
    start: Position,
    /// True once the place has passed the end of the segments since the lap began.
    has_wrapped: bool,
    /// The lap was added after the last slices were read, which may therefore have been sent before the server
    /// returned. Not saved.
    is_new: bool,
}

impl Lap {
    fn covers(&self, segment: u32) -> bool {
        (self.from..self.until).contains(&segment) || ARRIVED.contains(&segment)
    }

    /// Whether slices of the segment are still to be sent while the place is `at`.
    fn needs(&self, segment: u32, at: Position) -> bool {
        let ahead = segment >= at.segment;
        let to_start =
            self.start.segment > segment || self.start.segment == segment && self.start.id.is_some();
        self.covers(segment) && if self.has_wrapped { ahead && to_start } else { ahead || to_start }
    }
}

/// The laps in progress. Pure.
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

    /// Moves the place to the next slices that a lap needs, and ends laps that are complete. `live` returns the first
    /// segment, from the given number on, that is not empty. `None` when no lap is left.
    pub(super) fn next(&mut self, live: &dyn Fn(u32) -> Option<u32>) -> Option<Position> {
        while !self.laps.is_empty() {
            let Some(segment) = self.next_covered(live) else {
                // A lap that reaches the end for the second time is over: it began after the last segment that is left.
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

    /// Moves the place to `end`, after the slices that were sent. If some of them failed, all laps begin again at
    /// `end`, so that these slices come last.
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
