//! What the captures of both formats share: how numbers are written, and where the network packet begins.

/// Largest packet of a capture, in bytes.
pub(super) const PACKET_BYTES_MAX: usize = 1 << 20;

/// The first bytes of a file, if it is a capture that is read.
pub(super) type Magic = [u8; 4];

/// How numbers are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    is_big: bool,
    /// How many units of time a second has.
    pub(super) parts: f64,
}

impl Order {
    pub(super) fn of(magic: Magic) -> Option<Self> {
        let (is_big, parts) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1e6),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1e6),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1e9),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1e9),
            _ => return None,
        };
        Some(Self { is_big, parts })
    }

    /// The order of numbers in a file that states the units of its times separately.
    pub(super) fn microseconds(is_big: bool) -> Self {
        Self { is_big, parts: 1e6 }
    }

    pub(super) fn short(self, bytes: &[u8]) -> u16 {
        let bytes: [u8; 2] = bytes.try_into().unwrap_or_default();
        if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// A number with a sign; `None` if it has not eight bytes.
    pub(super) fn long(self, bytes: &[u8]) -> Option<i64> {
        let bytes: [u8; 8] = bytes.try_into().ok()?;
        Some(if self.is_big { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) })
    }

    pub(super) fn number(self, bytes: &[u8]) -> u32 {
        let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
        if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// Where the network packet begins in a packet of the capture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Link {
    /// The type of the network packet is at the first offset, the network packet begins at the second.
    Typed(usize, usize),
    /// The network packet begins at this offset, and its type is not stated.
    Untyped(usize),
}

impl Link {
    pub(super) fn of(kind: u32) -> Option<Self> {
        match kind & 0x0fff_ffff {
            // BSD loopback.
            0 | 108 => Some(Self::Untyped(4)),
            // Ethernet.
            1 => Some(Self::Typed(12, 14)),
            // IP without anything before it.
            12 | 14 | 101 | 228 | 229 => Some(Self::Untyped(0)),
            // `tcpdump -i any`, and its second version.
            113 => Some(Self::Typed(14, 16)),
            276 => Some(Self::Typed(0, 20)),
            _ => None,
        }
    }

    /// The network packet, if it is IP.
    pub(super) fn network(self, packet: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Untyped(begin) => packet.get(begin..),
            Self::Typed(mut kind, mut begin) => loop {
                match (u16_at(packet, kind)?, begin) {
                    (0x0800 | 0x86dd, _) => return packet.get(begin..),
                    // A VLAN tag.
                    (0x8100 | 0x88a8, 14..=26) => {
                        kind += 4;
                        begin += 4;
                    }
                    _ => return None,
                }
            },
        }
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
