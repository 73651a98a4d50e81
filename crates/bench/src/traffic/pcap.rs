//! Reads captures of tcpdump in the format pcap, and finds the requests in captures of both formats.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Read};

use super::packet::{Link, Magic, Order, PACKET_BYTES_MAX, u16_at};
use super::pcapng::{Blocks, SECTION};
use super::stream::Stream;
use super::{Recorded, Skipped, reason};

/// Maximum number of connections that are followed at once.
const STREAMS_MAX: usize = 65_536;
/// Largest total size of incomplete requests, in bytes.
const BYTES_MAX: usize = 256 << 20;

/// Whether these are the first bytes of a capture in the format pcap or pcapng.
pub(super) fn is_capture(magic: Magic) -> bool {
    magic == SECTION || Order::of(magic).is_some()
}

/// The addresses and ports of the sender and the receiver.
type Way = ([u8; 16], [u8; 16], u16, u16);

/// A TCP packet.
struct Segment<'a> {
    way: Way,
    number: u32,
    begins: bool,
    ends: bool,
    bytes: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads an IP packet; `None` if it is not TCP or is a fragment.
    fn read(packet: &'a [u8]) -> Option<Self> {
        let (tcp, from, to) = match *packet.first()? >> 4 {
            4 => {
                let begin = usize::from(packet[0] & 0x0f) * 4;
                // In captures on the sending host the length may be missing, because the network card fills
                // it in later.
                let end = match usize::from(u16_at(packet, 2)?) {
                    0 => packet.len(),
                    length => length.min(packet.len()),
                };
                let is_fragment = u16_at(packet, 6)? & 0x3fff != 0;
                if begin < 20 || *packet.get(9)? != 6 || is_fragment {
                    return None;
                }
                let address = |at: usize| Some(padded(packet.get(at..at + 4)?));
                (packet.get(begin..end)?, address(12)?, address(16)?)
            }
            6 => {
                let end = match usize::from(u16_at(packet, 4)?) {
                    0 => packet.len(),
                    length => (40 + length).min(packet.len()),
                };
                if *packet.get(6)? != 6 {
                    return None;
                }
                let address = |at: usize| Some(padded(packet.get(at..at + 16)?));
                (packet.get(40..end)?, address(8)?, address(24)?)
            }
            _ => return None,
        };
        let begin = usize::from(*tcp.get(12)? >> 4) * 4;
        let flags = *tcp.get(13)?;
        let number: [u8; 4] = tcp.get(4..8)?.try_into().ok()?;
        Some(Self {
            way: (from, to, u16_at(tcp, 0)?, u16_at(tcp, 2)?),
            number: u32::from_be_bytes(number),
            begins: flags & 0x02 != 0,
            ends: flags & 0x05 != 0,
            bytes: tcp.get(begin.max(20)..)?,
        })
    }
}

fn padded(address: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all.iter_mut().zip(address).for_each(|(to, from)| *to = *from);
    all
}

/// The packets of a capture, for each format.
enum Packets {
    Pcap { reader: Box<dyn BufRead>, order: Order, link: Link },
    Pcapng(Blocks),
}

impl Packets {
    /// The next packet, with its time in seconds since the epoch and the type of its link.
    fn next(&mut self, skipped: &mut Skipped) -> io::Result<Option<(f64, Link, Vec<u8>)>> {
        let (reader, order, link) = match self {
            Self::Pcap { reader, order, link } => (reader, *order, *link),
            Self::Pcapng(blocks) => return blocks.next(skipped),
        };
        let mut head = Vec::new();
        (&mut *reader).take(16).read_to_end(&mut head)?;
        if head.is_empty() {
            return Ok(None);
        }
        let mut cut = || {
            *skipped.entry(reason::CUT).or_default() += 1;
            Ok(None)
        };
        if head.len() < 16 {
            return cut();
        }
        let number = |at: usize| order.number(&head[at..at + 4]);
        let at = f64::from(number(0)) + f64::from(number(4)) / order.parts;
        let bytes = number(8) as usize;
        if bytes > PACKET_BYTES_MAX {
            let why = format!("a packet of {bytes} bytes: the capture is damaged");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut packet = Vec::new();
        (&mut *reader).take(bytes as u64).read_to_end(&mut packet)?;
        if packet.len() < bytes { cut() } else { Ok(Some((at, link, packet))) }
    }
}

/// The requests of a capture, in the order in which their last packets were captured.
pub(super) struct Capture {
    packets: Packets,
    streams: HashMap<Way, Stream>,
    bytes: usize,
    ready: VecDeque<Recorded>,
}

impl Capture {
    /// Reads the header of a file whose first bytes were already read.
    ///
    /// # Errors
    ///
    /// If the file is not a capture, or its link type is not supported.
    pub(super) fn new(magic: Magic, mut reader: Box<dyn BufRead>) -> io::Result<Self> {
        let (streams, ready) = (HashMap::new(), VecDeque::new());
        if magic == SECTION {
            let packets = Packets::Pcapng(Blocks::new(reader)?);
            return Ok(Self { packets, streams, bytes: 0, ready });
        }
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let order = Order::of(magic).ok_or_else(|| wrong("it is not a capture".to_owned()))?;
        let mut head = [0; 20];
        reader.read_exact(&mut head)?;
        let kind = order.number(&head[16..]);
        let link = Link::of(kind).ok_or_else(|| {
            wrong(format!(
                "its packets are of kind {kind}, which is not supported; capture with 'tcpdump -i any -s 0'"
            ))
        })?;
        let packets = Packets::Pcap { reader, order, link };
        Ok(Self { packets, streams, bytes: 0, ready })
    }

    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub(super) fn next(&mut self, skipped: &mut Skipped) -> io::Result<Option<Recorded>> {
        loop {
            if let Some(request) = self.ready.pop_front() {
                return Ok(Some(request));
            }
            let Some((at, link, packet)) = self.packets.next(skipped)? else { return Ok(None) };
            if let Some(segment) = link.network(&packet).and_then(Segment::read) {
                self.add(&segment, at, skipped);
            }
        }
    }

    fn add(&mut self, segment: &Segment<'_>, at: f64, skipped: &mut Skipped) {
        let Segment { way, number, begins, ends, bytes } = *segment;
        if !self.streams.contains_key(&way) && self.streams.len() >= STREAMS_MAX {
            // A connection that is between two requests can be dropped, because it is found again when its
            // next request begins.
            self.streams.retain(|_, stream| stream.bytes() > 0);
            if self.streams.len() >= STREAMS_MAX {
                *skipped.entry(reason::MISSING).or_default() += 1;
                return;
            }
        }
        let stream = self.streams.entry(way).or_default();
        self.bytes -= stream.bytes();
        let number = if begins { number.wrapping_add(1) } else { number };
        if begins {
            stream.restart(number);
        }
        self.ready.extend(stream.add(number, bytes, at, skipped));
        let held = stream.bytes();
        if ends || self.bytes + held > BYTES_MAX {
            *skipped.entry(reason::MISSING).or_default() += u64::from(held > 0);
            self.streams.remove(&way);
        } else {
            self.bytes += held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"GET /render?target=a HTTP/1.1\r\n\r\n";

    /// A TCP packet over IPv4.
    fn segment(number: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend((40 + bytes.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(40_000_u16.to_be_bytes());
        packet.extend(80_u16.to_be_bytes());
        packet.extend(number.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        packet.extend(bytes);
        packet
    }

    fn capture(link: u32, before: &[u8], packets: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend([2, 0, 4, 0].into_iter().chain([0; 8]));
        file.extend(65_535_u32.to_le_bytes());
        file.extend(link.to_le_bytes());
        for (second, packet) in packets.iter().enumerate() {
            let length = (before.len() + packet.len()) as u32;
            file.extend((second as u32 + 100).to_le_bytes());
            file.extend(500_000_u32.to_le_bytes());
            file.extend(length.to_le_bytes());
            file.extend(length.to_le_bytes());
            file.extend(before);
            file.extend(packet);
        }
        file
    }

    fn read(file: Vec<u8>) -> io::Result<(Vec<Recorded>, Skipped)> {
        let mut capture = Capture::new([0xd4, 0xc3, 0xb2, 0xa1], Box::new(io::Cursor::new(file)))?;
        let (mut found, mut skipped) = (Vec::new(), Skipped::new());
        while let Some(request) = capture.next(&mut skipped)? {
            found.push(request);
        }
        Ok((found, skipped))
    }

    #[test]
    fn requests_of_all_kinds_of_networks_are_found() {
        let packets = [segment(7, 2, b""), segment(8, 0x18, &REQUEST[..9]), segment(17, 0x18, &REQUEST[9..])];
        let mut vlan = [0_u8; 18];
        (vlan[12], vlan[16]) = (0x81, 0x08);
        let (mut ethernet, mut any, mut any2) = ([0_u8; 14], [0_u8; 16], [0_u8; 20]);
        (ethernet[12], any[14], any2[0]) = (0x08, 0x08, 0x08);
        let kinds: [(u32, &[u8]); 6] = [
            (1, ethernet.as_slice()),
            (1, vlan.as_slice()),
            (113, any.as_slice()),
            (276, any2.as_slice()),
            (101, b"".as_slice()),
            (0, b"\x02\0\0\0".as_slice()),
        ];
        for (link, before) in kinds {
            let (found, skipped) = read(capture(link, before, &packets)).unwrap();
            assert_eq!(found.len(), 1, "{link}");
            assert_eq!((found[0].at, found[0].path.as_str()), (101.5, "/render?target=a"), "{link}");
            assert!(skipped.is_empty(), "{link} {skipped:?}");
        }
    }

    #[test]
    fn damaged_captures_are_named() {
        let good = capture(101, &[], &[segment(8, 0x18, REQUEST), segment(9, 0x18, REQUEST)]);
        let (found, skipped) = read(good[..good.len() - 3].to_vec()).unwrap();
        assert_eq!((found.len(), skipped[reason::CUT]), (1, 1));
        assert!(read(capture(147, &[], &[])).unwrap_err().to_string().contains("of kind 147"));
        assert!(read(vec![0; 5]).is_err());
        let mut huge = capture(101, &[], &[]);
        huge.extend([0xff; 16]);
        assert!(read(huge).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn any_bytes_are_survived() {
        let good = segment(8, 0x18, REQUEST);
        for at in 0..good.len() {
            for value in [0, 0x0f, 0x60, 0x7f, 0xff] {
                let mut packet = good.clone();
                packet[at] = value;
                read(capture(101, &[], &[packet, good[..at].to_vec()])).unwrap();
            }
        }
    }
}
