//! LZ4 frames, one after the other. carbon-c-relay sends a frame at each flush.

use std::hash::Hasher;

use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use twox_hash::XxHash32;

use super::{Damage, Progress, Unpack, room};

/// The first bytes of a frame.
pub(super) const MAGIC: &[u8] = &[0x04, 0x22, 0x4d, 0x18];

const MAGIC_NUMBER: u32 = 0x184d_2204;
/// The lowest of the 16 magic numbers of frames that must be skipped.
const SKIPPABLE: u32 = 0x184d_2a50;

const VERSION: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const RESERVED: u8 = 1 << 1;
const DICTIONARY: u8 = 1 << 0;

/// A block is not compressed.
const STORED: u32 = 1 << 31;

/// How far back linked blocks refer.
const WINDOW_BYTES: usize = 64 << 10;

/// The decoder of a stream. It keeps no bytes between frames, and 64 KiB between linked blocks.
#[derive(Default)]
pub(super) struct Lz4 {
    frame: Option<Frame>,
    /// The bytes before a linked block.
    window: Vec<u8>,
    /// Number of bytes of a skippable frame that have not arrived yet.
    skip: usize,
}

/// What the header of a frame says, and what has been decoded since.
struct Frame {
    block_bytes_max: usize,
    is_linked: bool,
    has_block_checksums: bool,
    checksum: Option<XxHash32>,
    /// Number of bytes of content that are still missing, if the header states the size.
    left: Option<u64>,
}

pub(super) fn boxed() -> Box<dyn Unpack> {
    Box::new(Lz4::default())
}

impl Unpack for Lz4 {
    fn unpack(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Progress, Damage> {
        if self.skip > 0 {
            let taken = self.skip.min(input.len());
            self.skip -= taken;
            return Ok(Progress::taken(taken));
        }
        let Some(number) = number(input) else { return Ok(Progress::NONE) };
        match (&mut self.frame, number) {
            (None, MAGIC_NUMBER) => self.header(input),
            (None, number) if number & !0xf == SKIPPABLE => {
                let Some(length) = self::number(&input[4..]) else { return Ok(Progress::NONE) };
                self.skip = length as usize;
                Ok(Progress::taken(8))
            }
            (None, _) => Err("the next bytes are not an LZ4 frame".into()),
            (Some(_), 0) => self.end(input),
            (Some(frame), size) => frame.block(size, &input[4..], output, &mut self.window),
        }
    }

    fn is_cut(&self) -> bool {
        self.skip > 0
    }
}

impl Lz4 {
    fn header(&mut self, input: &[u8]) -> Result<Progress, Damage> {
        let Some(flags) = input.get(4).copied() else { return Ok(Progress::NONE) };
        if flags & 0b1100_0000 != VERSION || flags & RESERVED != 0 {
            return Err("an LZ4 frame of an unknown version".into());
        }
        if flags & DICTIONARY != 0 {
            return Err("an LZ4 frame that needs a dictionary".into());
        }
        let has_size = flags & CONTENT_SIZE != 0;
        let end = if has_size { 14 } else { 6 };
        let Some(header) = input.get(4..=end) else { return Ok(Progress::NONE) };
        let (descriptor, checksum) = header.split_at(header.len() - 1);
        if (XxHash32::oneshot(0, descriptor) >> 8) as u8 != checksum[0] {
            return Err("an LZ4 frame with a wrong checksum of its header".into());
        }
        let block_bytes_max = match descriptor[1] {
            0x40 => 64 << 10,
            0x50 => 256 << 10,
            0x60 => 1 << 20,
            0x70 => 4 << 20,
            _ => return Err("an LZ4 frame with an unknown size of blocks".into()),
        };
        let size = descriptor.get(2..).and_then(|bytes| bytes.first_chunk());
        self.frame = Some(Frame {
            block_bytes_max,
            is_linked: flags & INDEPENDENT == 0,
            has_block_checksums: flags & BLOCK_CHECKSUM != 0,
            checksum: (flags & CONTENT_CHECKSUM != 0).then(|| XxHash32::with_seed(0)),
            left: size.map(|bytes| u64::from_le_bytes(*bytes)),
        });
        Ok(Progress::taken(end + 1))
    }

    /// Takes the end mark of a frame, and its checksum.
    fn end(&mut self, input: &[u8]) -> Result<Progress, Damage> {
        let Some(frame) = &self.frame else { return Ok(Progress::NONE) };
        let mut taken = 4;
        if let Some(checksum) = &frame.checksum {
            let Some(expected) = number(&input[taken..]) else { return Ok(Progress::NONE) };
            if checksum.finish_32() != expected {
                return Err("an LZ4 frame with a wrong checksum".into());
            }
            taken += 4;
        }
        if frame.left.is_some_and(|left| left > 0) {
            return Err("an LZ4 frame of another size than it says".into());
        }
        self.frame = None;
        self.window = Vec::new();
        Ok(Progress::taken(taken))
    }
}

impl Frame {
    /// Decodes a block. `size` is the number before the block, `input` are the bytes after that number.
    fn block(
        &mut self,
        size: u32,
        input: &[u8],
        output: &mut Vec<u8>,
        window: &mut Vec<u8>,
    ) -> Result<Progress, Damage> {
        let length = (size & !STORED) as usize;
        if length > self.block_bytes_max {
            return Err("an LZ4 block that is larger than its frame allows".into());
        }
        let Some((block, rest)) = input.split_at_checked(length) else { return Ok(Progress::NONE) };
        let mut taken = 4 + length;
        if self.has_block_checksums {
            let Some(expected) = number(rest) else { return Ok(Progress::NONE) };
            if XxHash32::oneshot(0, block) != expected {
                return Err("an LZ4 block with a wrong checksum".into());
            }
            taken += 4;
        }
        let output = room(output, self.block_bytes_max);
        let made = if size & STORED != 0 {
            output[..length].copy_from_slice(block);
            Ok(length)
        } else if self.is_linked {
            decompress_into_with_dict(block, output, window)
        } else {
            decompress_into(block, output)
        };
        let made = made.map_err(|error| Damage::from(format!("a damaged LZ4 block: {error}")))?;
        self.count(&output[..made])?;
        if self.is_linked {
            remember(window, &output[..made]);
        }
        Ok(Progress { taken, made })
    }

    fn count(&mut self, content: &[u8]) -> Result<(), Damage> {
        if let Some(checksum) = &mut self.checksum {
            checksum.write(content);
        }
        if let Some(left) = &mut self.left {
            let rest = left.checked_sub(content.len() as u64);
            *left = rest.ok_or(Damage::from("an LZ4 frame of another size than it says"))?;
        }
        Ok(())
    }
}

/// Keeps the last decoded bytes.
fn remember(window: &mut Vec<u8>, block: &[u8]) {
    let block = &block[block.len().saturating_sub(WINDOW_BYTES)..];
    let excess = (window.len() + block.len()).saturating_sub(WINDOW_BYTES);
    window.drain(..excess);
    window.extend_from_slice(block);
}

/// The number that the bytes start with.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
