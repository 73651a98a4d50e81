//! Streams of snappy: the framing format, which go-carbon accepts, and the bare blocks that carbon-c-relay
//! sends.

use snap::raw::{Decoder, decompress_len, max_compress_len};

use super::crc32c::crc32c;
use super::{Damage, Progress, Unpack, room};

/// The first bytes of a framed stream: the chunk that identifies it.
pub(super) const MAGIC: &[u8] = b"\xff\x06\x00\x00sNaPpY";

const COMPRESSED: u8 = 0x00;
const STORED: u8 = 0x01;
const IDENTIFIER: u8 = 0xff;
/// The first of the chunk types that a decoder may skip.
const SKIPPABLE: u8 = 0x80;

/// Maximum size of a chunk's content, in bytes.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Maximum size of a bare block's content, in bytes. The blocks of carbon-c-relay have 32 KiB.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// A framed stream. It keeps nothing between chunks.
#[derive(Default)]
struct Framed {
    decoder: Decoder,
    /// Number of bytes of a skipped chunk that have not arrived yet.
    skip: usize,
}

/// Bare blocks, each preceded by the length of its content. Where a block ends follows from its elements.
#[derive(Default)]
struct Raw {
    decoder: Decoder,
    /// How much of an incomplete block has been examined, and how much content these elements make.
    at: usize,
    made: usize,
}

pub(super) fn boxed() -> Box<dyn Unpack> {
    Box::new(Framed::default())
}

pub(super) fn raw() -> Box<dyn Unpack> {
    Box::new(Raw::default())
}

impl Unpack for Framed {
    fn unpack(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Progress, Damage> {
        if self.skip > 0 {
            let taken = self.skip.min(input.len());
            self.skip -= taken;
            return Ok(Progress::taken(taken));
        }
        let Some(([kind, length @ ..], rest)) = input.split_first_chunk::<4>() else {
            return Ok(Progress::NONE);
        };
        let [a, b, c] = *length;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        let most = match *kind {
            COMPRESSED => 4 + max_compress_len(CHUNK_BYTES_MAX),
            STORED => 4 + CHUNK_BYTES_MAX,
            IDENTIFIER => MAGIC.len() - 4,
            kind if kind >= SKIPPABLE => {
                self.skip = length;
                return Ok(Progress::taken(4));
            }
            _ => return Err("a snappy chunk of an unknown type".into()),
        };
        if length > most {
            return Err("a snappy chunk that is too large".into());
        }
        let Some(chunk) = rest.get(..length) else { return Ok(Progress::NONE) };
        let made = match *kind {
            IDENTIFIER if chunk == &MAGIC[4..] => 0,
            IDENTIFIER => return Err("a snappy stream with another identifier".into()),
            kind => self.content(kind == COMPRESSED, chunk, output)?,
        };
        Ok(Progress { taken: 4 + length, made })
    }

    fn is_cut(&self) -> bool {
        self.skip > 0
    }
}

impl Framed {
    /// Decodes the content of a chunk, after its checksum.
    fn content(&mut self, is_compressed: bool, chunk: &[u8], output: &mut Vec<u8>) -> Result<usize, Damage> {
        let Some((checksum, bytes)) = chunk.split_first_chunk() else {
            return Err("a snappy chunk without a checksum".into());
        };
        let length = if is_compressed { decompress_len(bytes).map_err(damaged)? } else { bytes.len() };
        if length > CHUNK_BYTES_MAX {
            return Err("a snappy chunk that is too large".into());
        }
        let output = room(output, length);
        if is_compressed {
            self.decoder.decompress(bytes, output).map_err(damaged)?;
        } else {
            output.copy_from_slice(bytes);
        }
        if masked(crc32c(output)) != u32::from_le_bytes(*checksum) {
            return Err("a snappy chunk with a wrong checksum".into());
        }
        Ok(length)
    }
}

/// The checksum in the form in which a chunk contains it.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn damaged(error: snap::Error) -> Damage {
    Damage::from(format!("damaged snappy: {error}"))
}

impl Unpack for Raw {
    fn unpack(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Progress, Damage> {
        let Some((length, start)) = preamble(input)? else { return Ok(Progress::NONE) };
        self.at = self.at.max(start);
        while self.made < length {
            let Some(element) = Element::of(&input[self.at..]) else { return Ok(Progress::NONE) };
            if element.makes > length - self.made {
                return Err("a snappy block that is larger than it says".into());
            }
            if element.takes > input.len() - self.at {
                return Ok(Progress::NONE);
            }
            self.at += element.takes;
            self.made += element.makes;
        }
        let taken = std::mem::take(&mut self.at);
        self.made = 0;
        self.decoder.decompress(&input[..taken], room(output, length)).map_err(damaged)?;
        Ok(Progress { taken, made: length })
    }
}

/// The length of the content of a block, and the number of bytes that encode this length. `None` if more
/// bytes are needed.
fn preamble(input: &[u8]) -> Result<Option<(usize, usize)>, Damage> {
    let mut length = 0;
    for (at, byte) in input.iter().take(3).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return if length > BLOCK_BYTES_MAX { Err(too_large()) } else { Ok(Some((length, at + 1))) };
        }
    }
    // A length that takes four bytes means at least 2 MiB.
    if input.len() < 3 { Ok(None) } else { Err(too_large()) }
}

fn too_large() -> Damage {
    "a snappy block that is too large, or no snappy block".into()
}

/// An element of a block: bytes, or a reference to earlier ones.
struct Element {
    /// The length of the element, including the bytes that it contains.
    takes: usize,
    /// The length of the content that the element makes.
    makes: usize,
}

impl Element {
    /// The element at the start of these bytes. `None` if more bytes are needed to determine it.
    fn of(input: &[u8]) -> Option<Self> {
        let tag = *input.first()?;
        let upper = usize::from(tag >> 2);
        Some(match tag & 3 {
            0 if upper < 60 => Self { takes: 2 + upper, makes: 1 + upper },
            0 => {
                let bytes = upper - 59;
                let length =
                    input.get(1..=bytes)?.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                Self { takes: 2 + bytes + length, makes: 1 + length }
            }
            1 => Self { takes: 2, makes: 4 + (upper & 7) },
            2 => Self { takes: 3, makes: 1 + upper },
            _ => Self { takes: 5, makes: 1 + upper },
        })
    }
}
