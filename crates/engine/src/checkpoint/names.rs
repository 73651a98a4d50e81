//! The names of a group of metrics. For each name, the file contains the number of bytes that it shares with
//! the previous name, and the rest of the name.

use std::ops::Range;

use crate::bytes::{put_varint, take_slice, take_varint};

/// Appends a name. `last` is the previous name; it is empty for the first name of a group.
pub(super) fn put(out: &mut Vec<u8>, last: &[u8], name: &[u8]) {
    let shared = last.iter().zip(name).take_while(|(a, b)| a == b).count();
    put_varint(out, shared as u32);
    put_varint(out, (name.len() - shared) as u32);
    out.extend_from_slice(&name[shared..]);
}

/// The decoded names of a group.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Names {
    /// Replaces the names by those of another group. `None` if the bytes are damaged.
    pub(super) fn read(&mut self, bytes: &[u8], count: usize) -> Option<()> {
        self.text.clear();
        self.places.clear();
        let mut rest = bytes;
        let mut last: Range<usize> = 0..0;
        for _ in 0..count {
            let shared = take_varint(&mut rest)? as usize;
            let own = take_varint(&mut rest)? as usize;
            let own = take_slice(&mut rest, own)?;
            let start = self.text.len();
            let end_shared = last.start.checked_add(shared).filter(|end| *end <= last.end)?;
            self.text.extend_from_within(last.start..end_shared);
            self.text.extend_from_slice(own);
            last = start..self.text.len();
            self.places.push(last.clone());
        }
        (rest.is_empty() && std::str::from_utf8(&self.text).is_ok()).then_some(())
    }

    /// The names of the group, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let text = std::str::from_utf8(&self.text).unwrap_or_default();
        self.places.iter().map(move |place| text.get(place.clone()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_their_round_trip() {
        let all = ["a.b", "a.b.c", "a.é", "a.è", "b", "", "x;tag=1"];
        let mut bytes = Vec::new();
        let mut last: &str = "";
        for name in all {
            put(&mut bytes, last.as_bytes(), name.as_bytes());
            last = name;
        }
        let mut names = Names::default();
        names.read(&bytes, all.len()).unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), all);
        for cut in 0..bytes.len() {
            assert!(names.read(&bytes[..cut], all.len()).is_none(), "{cut}");
        }
        assert!(names.read(&bytes, all.len() - 1).is_none());
        assert!(names.read(&[5, 1, b'a'], 1).is_none(), "more than the name before has");
        assert!(names.read(&[0, 1, 0xff], 1).is_none(), "no UTF-8");
    }
}
