//! Divides long ranges of slots into pieces that are read one after another. Pure.

use std::ops::Range;

use plumbago_store::joined;

/// Approximate number of slots that are in memory at a time; each takes 8 to 16 bytes.
pub(crate) const SLOTS_AT_ONCE: u64 = 1 << 20;

/// Largest number of ranges in one read.
const RANGES_AT_ONCE: usize = 512;

/// The position of a range or of an answer, and a part of its slots.
pub(crate) type Piece = (usize, Range<u32>);

/// Joins parts that overlap or touch, keeps what lies within `slots`, and cuts it into pieces of at most
/// [`SLOTS_AT_ONCE`] slots.
pub(crate) fn cut(
    parts: impl IntoIterator<Item = Range<u32>>,
    slots: (u32, u32),
) -> impl Iterator<Item = Range<u32>> {
    let within = parts.into_iter().map(move |part| part.start.max(slots.0)..part.end.min(slots.1));
    joined(within.collect()).into_iter().flat_map(|part| {
        let end = part.end;
        let starts = part.step_by(SLOTS_AT_ONCE as usize);
        starts.map(move |start| start..end.min(start.saturating_add(SLOTS_AT_ONCE as u32)))
    })
}

/// Groups of consecutive pieces, each small enough for one read.
pub(crate) fn groups(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let (group, after) = rest.split_at_checked(group_len(rest)).filter(|(group, _)| !group.is_empty())?;
        rest = after;
        Some(group)
    })
}

/// How many of these pieces one read covers: at least one.
fn group_len(pieces: &[Piece]) -> usize {
    let mut slots = 0;
    let fits = |(_, piece): &&Piece| {
        slots += u64::from(piece.end - piece.start);
        slots <= SLOTS_AT_ONCE
    };
    pieces.iter().take(RANGES_AT_ONCE).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_cut() {
        let cut = |parts: &[(u32, u32)], slots| {
            cut(parts.iter().map(|(from, until)| *from..*until), slots).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[(5, 9), (0, 3), (8, 12), (12, 13), (20, 30)], (1, 25)), [1..3, 5..13, 20..25]);
        assert_eq!(cut(&[(0, 3)], (3, 9)), []);
        let (most, end) = (SLOTS_AT_ONCE as u32, u32::MAX);
        assert_eq!(cut(&[(end - most - 1, end)], (0, end)), [end - most - 1..end - 1, end - 1..end]);
    }

    #[test]
    fn groups_have_few_slots() {
        let most = SLOTS_AT_ONCE as u32;
        assert_eq!(group_len(&[(0, 0..most), (0, 5..6)]), 1);
        assert_eq!(group_len(&[(0, 0..most - 1), (1, 5..6), (2, 5..6)]), 2);
        assert_eq!(group_len(&[(0, 0..u32::MAX)]), 1);
        assert_eq!(group_len(&vec![(0, 5..6); 1000]), RANGES_AT_ONCE);
    }
}
