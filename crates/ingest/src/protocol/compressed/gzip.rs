//! Streams of gzip (RFC 1952). A stream has one or more members, each with a header, deflated bytes and a
//! checksum.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{Damage, OUTPUT, Progress, Unpack, room};

/// The first bytes of a member.
pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

const DEFLATED: u8 = 8;
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Number of bytes that are decompressed at a time. They have room for deflate's window of 32 KiB, so that
/// the decoder holds nothing back.
const ROOM_BYTES: usize = 64 << 10;

/// The decoder of a stream. It takes about 45 KiB.
pub(crate) struct Gzip {
    inflate: Decompress,
    crc: Crc,
    part: Part,
    /// The flags of the header.
    flags: u8,
}

/// The position of the stream in a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first ten bytes of the header, and how many of them are read.
    Fixed(u8),
    /// The length of the extra field, and its first byte once that is read.
    ExtraLength(Option<u8>),
    /// The extra field, and how many bytes of it are left.
    Extra(u16),
    Name,
    Comment,
    /// The checksum of the header, which is not compared, and how many bytes of it are left.
    HeaderCrc(u8),
    Body,
    /// The checksum and the length of the body, and how many bytes of the two are read.
    Trailer([u8; 8], u8),
}

pub(super) fn boxed() -> Box<dyn Unpack> {
    Box::new(Gzip::new())
}

impl Gzip {
    pub(crate) fn new() -> Self {
        Self { inflate: Decompress::new(false), crc: Crc::new(), part: Part::Fixed(0), flags: 0 }
    }

    /// Whether the position is between two members or before the first.
    pub(crate) fn is_complete(&self) -> bool {
        self.part == Part::Fixed(0)
    }

    /// Decodes all of the input and passes the content to `take`, part by part, until that returns false.
    pub(crate) fn each(
        &mut self,
        mut input: &[u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Damage> {
        OUTPUT.with_borrow_mut(|output| {
            loop {
                let progress = self.unpack(input, output)?;
                input = &input[progress.taken..];
                if progress == Progress::NONE || !take(&output[..progress.made]) {
                    return Ok(());
                }
            }
        })
    }

    /// Reads a byte that is not part of the body.
    fn frame_byte(&mut self, byte: u8) -> Result<(), Damage> {
        self.part = match self.part {
            Part::Fixed(at) => self.fixed_byte(at, byte)?,
            Part::ExtraLength(None) => Part::ExtraLength(Some(byte)),
            Part::ExtraLength(Some(low)) => match u16::from_le_bytes([low, byte]) {
                0 => self.after(EXTRA),
                length => Part::Extra(length),
            },
            Part::Extra(1) => self.after(EXTRA),
            Part::Extra(left) => Part::Extra(left - 1),
            Part::Name if byte == 0 => self.after(NAME),
            Part::Comment if byte == 0 => self.after(COMMENT),
            Part::HeaderCrc(1) => Part::Body,
            Part::HeaderCrc(left) => Part::HeaderCrc(left - 1),
            Part::Trailer(read, at) => self.trailer_byte(read, at, byte)?,
            same => same,
        };
        Ok(())
    }

    fn fixed_byte(&mut self, at: u8, byte: u8) -> Result<Part, Damage> {
        match at {
            0 | 1 if byte != MAGIC[usize::from(at)] => Err("the next bytes are not gzip".into()),
            2 if byte != DEFLATED => Err("gzip with an unknown method".into()),
            3 if byte & RESERVED != 0 => Err("gzip with unknown flags".into()),
            3 => {
                self.flags = byte;
                Ok(Part::Fixed(4))
            }
            9 => Ok(self.after(0)),
            at => Ok(Part::Fixed(at + 1)),
        }
    }

    /// The next part of the header after that of `flag`.
    fn after(&self, flag: u8) -> Part {
        let follows = |next: u8| next > flag && self.flags & next != 0;
        match () {
            () if follows(EXTRA) => Part::ExtraLength(None),
            () if follows(NAME) => Part::Name,
            () if follows(COMMENT) => Part::Comment,
            // The flag of this part is lower than the others, but the part comes last.
            () if self.flags & HEADER_CRC != 0 => Part::HeaderCrc(2),
            () => Part::Body,
        }
    }

    fn trailer_byte(&mut self, mut read: [u8; 8], at: u8, byte: u8) -> Result<Part, Damage> {
        read[usize::from(at)] = byte;
        if at < 7 {
            return Ok(Part::Trailer(read, at + 1));
        }
        let expected = u64::from(self.crc.sum()) | u64::from(self.crc.amount()) << 32;
        if u64::from_le_bytes(read) != expected {
            return Err("gzip with a wrong checksum".into());
        }
        self.inflate.reset(false);
        self.crc.reset();
        Ok(Part::Fixed(0))
    }
}

impl Unpack for Gzip {
    fn unpack(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Progress, Damage> {
        let mut at = 0;
        while self.part != Part::Body {
            let Some(byte) = input.get(at) else { return Ok(Progress::taken(at)) };
            self.frame_byte(*byte)?;
            at += 1;
        }
        let output = room(output, ROOM_BYTES);
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(&input[at..], output, FlushDecompress::None);
        let taken = at + (self.inflate.total_in() - before.0) as usize;
        let made = (self.inflate.total_out() - before.1) as usize;
        self.crc.update(&output[..made]);
        match status {
            Ok(Status::StreamEnd) => self.part = Part::Trailer([0; 8], 0),
            Ok(_) => {}
            Err(error) => return Err(Damage { made, what: error.to_string().into() }),
        }
        Ok(Progress { taken, made })
    }

    /// The deflated bytes do not show whether they are complete, because carbon-c-relay only flushes them and
    /// never writes an end.
    fn is_cut(&self) -> bool {
        !matches!(self.part, Part::Body | Part::Fixed(0))
    }
}
