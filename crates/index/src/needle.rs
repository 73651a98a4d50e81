//! Finds one text in many short ones.

use memchr::memmem::Finder;

/// The longest text that is searched as a single number, in bytes.
const SHORT: usize = 16;
const HIGH: u128 = u128::from_ne_bytes([0x80; SHORT]);

/// A text to find. Most components have no more than 16 bytes, and fit into one number. All their bytes are
/// then compared at once, which is faster than starting a search that is made for long texts.
#[derive(Debug)]
pub(crate) struct Needle {
    finder: Finder<'static>,
    /// The text, if it has 2 to 16 bytes, as a number whose lowest byte is the first one.
    short: Option<Short>,
}

#[derive(Debug, Clone, Copy)]
struct Short {
    text: u128,
    length: usize,
    /// The mask with the bits of all its bytes.
    mask: u128,
    /// The first byte of the text, in every position.
    first: u128,
    /// The last byte of the text, in every position.
    last: u128,
}

impl Needle {
    /// Prepares a search. `text` must not be empty.
    pub(crate) fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let short = (2..=SHORT).contains(&bytes.len()).then(|| Short {
            text: number(bytes),
            length: bytes.len(),
            mask: u128::MAX >> (8 * (SHORT - bytes.len())),
            first: u128::from_ne_bytes([bytes[0]; SHORT]),
            last: u128::from_ne_bytes([bytes[bytes.len() - 1]; SHORT]),
        });
        Self { finder: Finder::new(text).into_owned(), short }
    }

    pub(crate) fn length(&self) -> usize {
        self.finder.needle().len()
    }

    /// The first position of the needle in a text.
    #[inline]
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        match &self.short {
            Some(short) if text.len() <= SHORT => short.find(text),
            _ => self.finder.find(text),
        }
    }
}

impl Short {
    #[inline]
    fn find(&self, text: &[u8]) -> Option<usize> {
        let places = (text.len() + 1).checked_sub(self.length).filter(|places| *places > 0)?;
        let text = number(text);
        let ends = equal(text, self.last) >> (8 * (self.length - 1));
        // There are at most 15 positions.
        let mut candidates = equal(text, self.first) & ends & ((1 << (8 * places)) - 1);
        while candidates != 0 {
            let place = candidates.trailing_zeros() as usize / 8;
            if text >> (8 * place) & self.mask == self.text {
                return Some(place);
            }
            candidates &= candidates - 1;
        }
        None
    }
}

/// Whether a text is ASCII without upper-case letters.
#[inline]
pub(crate) fn is_plain(text: &[u8]) -> bool {
    text.chunks(SHORT).all(|part| {
        let bytes = number(part);
        // For an ASCII byte, the first sum has its highest bit set from `A` on, the second one after `Z`.
        let from_a = bytes.wrapping_add(u128::from_ne_bytes([0x80 - b'A'; SHORT]));
        let behind_z = bytes.wrapping_add(u128::from_ne_bytes([0x7f - b'Z'; SHORT]));
        (bytes | from_a & !behind_z) & HIGH == 0
    })
}

/// The highest bit of each byte that is equal in both numbers.
#[inline]
fn equal(a: u128, b: u128) -> u128 {
    let different = a ^ b;
    !((different & !HIGH).wrapping_add(!HIGH) | different) & HIGH
}

/// A text of at most 16 bytes as a number whose lowest byte is the first one. The remaining bytes are 0.
#[inline]
fn number(text: &[u8]) -> u128 {
    let length = text.len();
    // Read as two parts that overlap, because copying a variable number of bytes takes longer.
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        return u128::from(u64::from_le_bytes(*first))
            | u128::from(u64::from_le_bytes(*last)) << (8 * (length - 8));
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u128::from(u32::from_le_bytes(*first))
            | u128::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
    }
    text.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_needle_is_found_at_both_ends() {
        for length in 1..=20 {
            let needle = Needle::new(&"x".repeat(length));
            for room in 0..20 {
                let text = format!("{}{}", "y".repeat(room), "x".repeat(length));
                assert_eq!(needle.find(text.as_bytes()), Some(room));
                assert_eq!(needle.find(&text.as_bytes()[..text.len() - 1]), None);
            }
        }
    }

    #[test]
    fn every_byte_is_plain_or_not() {
        for byte in 0..=u8::MAX {
            for at in [0, 3, 15, 16, 30] {
                let mut text = [b'~'; 31];
                text[at] = byte;
                let expected = byte.is_ascii() && !byte.is_ascii_uppercase();
                assert_eq!(is_plain(&text), expected, "{byte} at {at}");
                assert_eq!(is_plain(&text[..=at]), expected, "{byte} at {at}, the end");
            }
        }
        assert!(is_plain(b""));
    }

    proptest! {
        #[test]
        fn the_first_place_is_found(needle in "[ab\u{80}\u{ff}]{1,18}", text in prop::collection::vec(prop::sample::select(&b"ab\0\x7f\x80\xc2\xc3\xbf\xff"[..]), 0..20), at in 0..20_usize) {
            let searched = Needle::new(&needle);
            prop_assert_eq!(searched.length(), needle.len());
            let plain = |text: &[u8]| text.windows(needle.len()).position(|window| window == needle.as_bytes());
            prop_assert_eq!(searched.find(&text), plain(&text));
            let mut with = text;
            let at = at.min(with.len());
            with.splice(at..at, needle.bytes());
            prop_assert_eq!(searched.find(&with), plain(&with));
        }
    }
}
