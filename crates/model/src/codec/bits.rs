//! Varints and packed bits.

/// Maps signed numbers to unsigned ones, so that numbers near zero become small.
#[inline]
pub(super) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

#[inline]
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Writes seven bits per byte, the low ones first.
#[inline]
pub(super) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
pub(super) fn varint_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

#[inline]
pub(super) fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (i, &byte) in input.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *input = &input[i + 1..];
            return Some(number);
        }
    }
    None
}

/// Appends numbers of any width to a vector of bytes.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u128,
    held_bits: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, held: 0, held_bits: 0 }
    }

    /// Appends the low `width` bits of `number`. Its other bits must be zero.
    #[inline]
    pub(super) fn write(&mut self, number: u64, width: u32) {
        self.held |= u128::from(number) << self.held_bits;
        self.held_bits += width;
        if self.held_bits >= 64 {
            self.out.extend_from_slice(&(self.held as u64).to_le_bytes());
            self.held >>= 64;
            self.held_bits -= 64;
        }
    }

    /// Writes the remaining bits, filled up to whole bytes.
    pub(super) fn finish(self) {
        let bytes = self.held_bits.div_ceil(8) as usize;
        self.out.extend_from_slice(&(self.held as u64).to_le_bytes()[..bytes]);
    }
}

/// Reads numbers of any width in order.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(super) fn read(&mut self, width: u32) -> Option<u64> {
        let end = self.at + width as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        let number = read_at(self.bytes, self.at, width);
        self.at = end;
        Some(number)
    }

    /// The bytes after the last one that was read, even in part.
    pub(super) fn rest(self) -> &'a [u8] {
        &self.bytes[self.at.div_ceil(8)..]
    }
}

/// Reads `count` numbers of `width` bits. The bytes must be long enough.
#[inline]
pub(super) fn unpack(bytes: &[u8], count: usize, width: u32) -> impl Iterator<Item = u64> {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    (0..count).map(move |i| {
        let at = i * width as usize;
        // A single load is enough if the number cannot reach into a ninth byte.
        match bytes.get(at / 8..).and_then(|b| b.first_chunk()) {
            Some(word) if width <= 57 => u64::from_le_bytes(*word) >> (at % 8) & mask,
            _ => read_at(bytes, at, width),
        }
    })
}

/// Reads a number of any width, even at the end of the bytes. Slower than a single load.
fn read_at(bytes: &[u8], at: usize, width: u32) -> u64 {
    let tail = bytes.get(at / 8..).unwrap_or_default();
    let mut word = [0; 16];
    let len = tail.len().min(9);
    word[..len].copy_from_slice(&tail[..len]);
    let number = (u128::from_le_bytes(word) >> (at % 8)) as u64;
    if width == 64 { number } else { number & ((1 << width) - 1) }
}
