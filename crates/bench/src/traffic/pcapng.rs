//! Captures in the format pcapng, as Wireshark and newer versions of tcpdump write them. Such a file consists
//! of blocks. Blocks with packets and blocks that describe the interfaces are read; all others are skipped.

use std::io::{self, BufRead, Read};

use super::packet::{Link, Order, PACKET_BYTES_MAX};
use super::{Skipped, reason};

/// The type of the block that begins a section. It is the same in both byte orders.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// The options of an interface that say in which units its times are and what to add to them.
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

/// Largest block that is kept in memory: a packet, its header and its options.
const BLOCK_BYTES_MAX: usize = PACKET_BYTES_MAX + (64 << 10);
/// Largest number of interfaces in a section.
const INTERFACES_MAX: usize = 4096;

/// An interface of a section.
#[derive(Debug, Clone, Copy)]
struct Interface {
    /// `None` if the link type is not supported.
    link: Option<Link>,
    /// The largest part of a packet that was captured, in bytes; 0 for whole packets.
    snap: usize,
    /// The number of units of its times in a second.
    units: f64,
    /// Seconds to add to its times.
    offset: f64,
}

/// The packets of a capture.
pub(super) struct Blocks {
    reader: Box<dyn BufRead>,
    order: Order,
    interfaces: Vec<Interface>,
    /// The time of the last packet that had one. It is used for simple packets, which have no time.
    last: f64,
}

impl Blocks {
    /// Reads the header of the first section, whose type was already read.
    ///
    /// # Errors
    ///
    /// If the file ends within the header or is damaged.
    pub(super) fn new(mut reader: Box<dyn BufRead>) -> io::Result<Self> {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        let mut blocks =
            Self { reader, order: Order::microseconds(false), interfaces: Vec::new(), last: 0.0 };
        match blocks.begin_section(length)? {
            true => Ok(blocks),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }

    /// The next packet, with its time in seconds since the epoch and the type of its link; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is damaged.
    pub(super) fn next(&mut self, skipped: &mut Skipped) -> io::Result<Option<(f64, Link, Vec<u8>)>> {
        loop {
            let head = self.bytes(8)?;
            if head.is_empty() {
                return Ok(None);
            }
            let Some((kind, length)) = head.split_first_chunk::<4>() else { return Ok(cut(skipped)) };
            let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(cut(skipped)) };
            if *kind == SECTION {
                match self.begin_section(length)? {
                    true => continue,
                    false => return Ok(cut(skipped)),
                }
            }
            let rest = rest_of(self.order.number(&length))?;
            let kind = self.order.number(kind);
            if !matches!(kind, INTERFACE | SIMPLE_PACKET | ENHANCED_PACKET) {
                match self.pass(rest)? {
                    true => continue,
                    false => return Ok(cut(skipped)),
                }
            }
            if rest > BLOCK_BYTES_MAX {
                return Err(damaged(format!("a block of {rest} bytes")));
            }
            let mut body = self.bytes(rest)?;
            if body.len() < rest {
                return Ok(cut(skipped));
            }
            // The length is repeated at the end of the block.
            body.truncate(rest - 4);
            match kind {
                INTERFACE => self.add_interface(&body)?,
                _ => {
                    if let Some(packet) = self.packet(kind, &body, skipped)? {
                        return Ok(Some(packet));
                    }
                }
            }
        }
    }

    /// Reads the rest of a section's first block. Returns `false` if the file ends within the block.
    fn begin_section(&mut self, length: [u8; 4]) -> io::Result<bool> {
        let magic = self.bytes(4)?;
        self.order = match magic.as_slice() {
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::microseconds(true),
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::microseconds(false),
            short if short.len() < 4 => return Ok(false),
            _ => return Err(damaged("a section without the mark of its order of bytes".to_owned())),
        };
        self.interfaces.clear();
        let rest = rest_of(self.order.number(&length))?;
        let Some(rest) = rest.checked_sub(4) else {
            return Err(damaged("a section of too few bytes".to_owned()));
        };
        self.pass(rest)
    }

    fn add_interface(&mut self, body: &[u8]) -> io::Result<()> {
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err(damaged(format!("more than {INTERFACES_MAX} interfaces")));
        }
        let (Some(kind), Some(snap)) = (body.get(..2), body.get(4..8)) else {
            return Err(damaged("an interface of too few bytes".to_owned()));
        };
        let link = Link::of(u32::from(self.order.short(kind)));
        let snap = self.order.number(snap) as usize;
        let mut interface = Interface { link, snap, units: 1e6, offset: 0.0 };
        let mut options = body.get(8..).unwrap_or_default();
        while let Some((code, value, rest)) = self.option(options) {
            match (code, value) {
                (OPTION_RESOLUTION, [power]) => interface.units = units(*power),
                (OPTION_OFFSET, value) => {
                    interface.offset = self.order.long(value).map_or(0.0, |seconds| seconds as f64);
                }
                _ => {}
            }
            options = rest;
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// The first option: its code, its value and the bytes after it. `None` at the end, or if the rest is not
    /// an option.
    fn option<'a>(&self, bytes: &'a [u8]) -> Option<(u16, &'a [u8], &'a [u8])> {
        let code = self.order.short(bytes.get(..2)?);
        let length = usize::from(self.order.short(bytes.get(2..4)?));
        let value = bytes.get(4..4 + length)?;
        let rest = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value, rest))
    }

    /// The packet of a block; `None` if its link type is not supported.
    fn packet(
        &mut self,
        kind: u32,
        body: &[u8],
        skipped: &mut Skipped,
    ) -> io::Result<Option<(f64, Link, Vec<u8>)>> {
        let few = || damaged("a packet of too few bytes".to_owned());
        let number = |at: usize| body.get(at..at + 4).map(|bytes| self.order.number(bytes)).ok_or_else(few);
        let (interface, begin) = match kind {
            ENHANCED_PACKET => (number(0)? as usize, 20),
            _ => (0, 4),
        };
        let Some(Interface { link, snap, units, offset }) = self.interfaces.get(interface).copied() else {
            return Err(damaged(format!("a packet of the interface {interface}, which is not described")));
        };
        let (at, length) = if kind == ENHANCED_PACKET {
            let time = (u64::from(number(4)?) << 32) | u64::from(number(8)?);
            (time as f64 / units + offset, number(12)? as usize)
        } else {
            let snap = if snap == 0 { usize::MAX } else { snap };
            (self.last, (number(0)? as usize).min(snap))
        };
        self.last = at;
        let end = begin + length.min(BLOCK_BYTES_MAX);
        let packet = body.get(begin..end).ok_or_else(few)?;
        let Some(link) = link else {
            *skipped.entry(reason::NETWORK).or_default() += 1;
            return Ok(None);
        };
        Ok(Some((at, link, packet.to_vec())))
    }

    /// Reads `count` bytes, or fewer at the end of the file.
    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.reader).take(count as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Skips `count` bytes. Returns `false` if there are fewer.
    fn pass(&mut self, count: usize) -> io::Result<bool> {
        let passed = io::copy(&mut (&mut self.reader).take(count as u64), &mut io::sink())?;
        Ok(passed == count as u64)
    }
}

/// The number of bytes of a block after its type and its first length.
fn rest_of(length: u32) -> io::Result<usize> {
    match length {
        12.. if length.is_multiple_of(4) => Ok(length as usize - 8),
        _ => Err(damaged(format!("a block of {length} bytes"))),
    }
}

/// The number of units in a second: a power of 10, or of 2 if the highest bit is set.
fn units(power: u8) -> f64 {
    let exponent = i32::from(power & 0x7f);
    if power & 0x80 == 0 { 10_f64.powi(exponent) } else { 2_f64.powi(exponent) }
}

fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: the capture is damaged"))
}

fn cut<T>(skipped: &mut Skipped) -> Option<T> {
    *skipped.entry(reason::CUT).or_default() += 1;
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes blocks in one of the two byte orders.
    struct Writer {
        is_big: bool,
        file: Vec<u8>,
    }

    impl Writer {
        /// Starts a file with the header of a section, but without the type of its first block.
        fn begin(is_big: bool) -> Self {
            let mut writer = Self { is_big, file: Vec::new() };
            writer.section();
            writer.file.drain(..4);
            writer
        }

        fn section(&mut self) {
            let body = [self.long(0x1a2b_3c4d), self.short(1), self.short(0), vec![0xff; 8]].concat();
            self.block(u32::from_be_bytes(SECTION), &body);
        }

        fn short(&self, number: u16) -> Vec<u8> {
            if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() }.to_vec()
        }

        fn long(&self, number: u32) -> Vec<u8> {
            if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() }.to_vec()
        }

        fn block(&mut self, kind: u32, body: &[u8]) {
            let padded = body.len().next_multiple_of(4);
            let length = self.long(12 + padded as u32);
            let kind = self.long(kind);
            self.file.extend([kind, length.clone(), body.to_vec()].concat());
            self.file.resize(self.file.len() + padded - body.len(), 0);
            self.file.extend(length);
        }

        fn interface(&mut self, link: u16, snap: u32, options: &[(u16, Vec<u8>)]) {
            let mut body = [self.short(link), self.short(0), self.long(snap)].concat();
            for (code, value) in options {
                body.extend([self.short(*code), self.short(value.len() as u16), value.clone()].concat());
                body.resize(body.len().next_multiple_of(4), 0);
            }
            body.extend([0; 4]);
            self.block(INTERFACE, &body);
        }

        fn packet(&mut self, interface: u32, time: u64, bytes: &[u8]) {
            let numbers = [interface, (time >> 32) as u32, time as u32, bytes.len() as u32, 9999];
            let body: Vec<u8> = numbers.iter().flat_map(|number| self.long(*number)).collect();
            let comment = [self.short(1), self.short(3), b"odd\0".to_vec()].concat();
            let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
            self.block(ENHANCED_PACKET, &[body, bytes.to_vec(), padding, comment].concat());
        }

        fn simple(&mut self, length: u32, bytes: &[u8]) {
            let body = [self.long(length), bytes.to_vec()].concat();
            self.block(SIMPLE_PACKET, &body);
        }
    }

    type Packets = Vec<(f64, Vec<u8>)>;

    fn read(file: Vec<u8>) -> io::Result<(Packets, Skipped)> {
        let mut blocks = Blocks::new(Box::new(io::Cursor::new(file)))?;
        let (mut found, mut skipped) = (Vec::new(), Skipped::new());
        while let Some((at, _, packet)) = blocks.next(&mut skipped)? {
            found.push((at, packet));
        }
        Ok((found, skipped))
    }

    #[test]
    fn packets_of_both_orders_have_their_times() {
        for is_big in [false, true] {
            let mut writer = Writer::begin(is_big);
            let offset = if is_big { 100_i64.to_be_bytes() } else { 100_i64.to_le_bytes() };
            writer.interface(101, 4, &[]);
            writer.interface(101, 0, &[(2, b"eth0".to_vec()), (OPTION_RESOLUTION, vec![9])]);
            writer.interface(101, 0, &[(OPTION_RESOLUTION, vec![0x8a]), (OPTION_OFFSET, offset.to_vec())]);
            writer.interface(147, 0, &[]);
            writer.packet(0, 1_500_000, b"abcde");
            // A block of statistics, and one of an unknown type.
            writer.block(5, &[1; 40]);
            writer.block(0x0bad, &[]);
            writer.packet(1, 5_000_000_000 * 1_000_000_000, b"f");
            writer.packet(2, 2048, b"gh");
            writer.packet(3, 1, b"of a network that is not read");
            writer.simple(9, b"ijkl");
            // Each section has its own interfaces.
            writer.is_big = !is_big;
            writer.section();
            writer.interface(101, 0, &[]);
            writer.packet(0, 7_000_000, b"mn");
            let (found, skipped) = read(writer.file).unwrap();
            let expected: [(f64, &[u8]); 5] =
                [(1.5, b"abcde"), (5e9, b"f"), (102.0, b"gh"), (0.000_001, b"ijkl"), (7.0, b"mn")];
            let found: Vec<(f64, &[u8])> =
                found.iter().map(|(at, packet)| (*at, packet.as_slice())).collect();
            assert_eq!(found, expected);
            assert_eq!(skipped[reason::NETWORK], 1);
        }
    }

    #[test]
    fn requests_are_found() {
        const REQUEST: &[u8] = b"GET /render?target=a HTTP/1.1\r\n\r\n";
        // IPv4 and TCP, from 10.0.0.1:40000 to 10.0.0.2:80.
        let mut packet = vec![0x45, 0];
        packet.extend((40 + REQUEST.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 80]);
        packet.extend([0, 0, 0, 8, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
        packet.extend(REQUEST);
        let mut writer = Writer::begin(true);
        writer.interface(101, 0, &[(OPTION_RESOLUTION, vec![3])]);
        writer.packet(0, 101_500, &packet);
        let file: Box<dyn BufRead> = Box::new(io::Cursor::new(writer.file));
        let mut capture = super::super::pcap::Capture::new(SECTION, file).unwrap();
        let mut skipped = Skipped::new();
        let request = capture.next(&mut skipped).unwrap().unwrap();
        assert_eq!((request.at, request.path.as_str()), (101.5, "/render?target=a"));
        assert!(capture.next(&mut skipped).unwrap().is_none() && skipped.is_empty());
    }

    #[test]
    fn damaged_captures_are_named() {
        let whole = |change: &dyn Fn(&mut Writer)| {
            let mut writer = Writer::begin(false);
            writer.interface(101, 0, &[]);
            change(&mut writer);
            writer.file
        };
        let good = whole(&|writer| writer.packet(0, 1, b"abc"));
        let (found, skipped) = read(good[..good.len() - 3].to_vec()).unwrap();
        assert_eq!((found.len(), skipped[reason::CUT]), (0, 1));
        for (file, part) in [
            (whole(&|writer| writer.packet(5, 1, b"abc")), "interface 5"),
            (whole(&|writer| writer.simple(90, b"abc")), "too few bytes"),
            (whole(&|writer| writer.file.extend([6, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff])), "4294967284 bytes"),
            (whole(&|writer| writer.file.extend([6, 0, 0, 0, 7, 0, 0, 0])), "a block of 7 bytes"),
            (whole(&|writer| (0..=INTERFACES_MAX).for_each(|_| writer.interface(1, 0, &[]))), "interfaces"),
            (vec![28, 0, 0, 0, 1, 2, 3, 4], "order of bytes"),
        ] {
            let said = read(file).unwrap_err().to_string();
            assert!(said.contains(part) && said.contains("damaged"), "{said}");
        }
        assert!(read(vec![28, 0, 0]).is_err() && read(vec![28, 0, 0, 0, 0x1a]).is_err());
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut writer = Writer::begin(true);
        writer.interface(101, 0, &[(OPTION_RESOLUTION, vec![6])]);
        writer.packet(0, 1, b"abc");
        writer.simple(2, b"de");
        let good = writer.file;
        for at in 0..good.len() {
            for value in [0, 1, 0x0f, 0x7f, 0x80, 0xff] {
                let mut file = good.clone();
                file[at] = value;
                // Whether the file is refused does not matter here.
                let _ = read(file);
            }
            let _ = read(good[..at].to_vec());
        }
    }
}
