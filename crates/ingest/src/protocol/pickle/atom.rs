//! Reads texts and numbers of a pickle, starting at their opcode.

use std::borrow::Cow;

use super::machine::{Node, Tree};
use crate::protocol::number;

/// Longest number read from text, in bytes.
const NUMBER_BYTES_MAX: usize = 400;
/// Longest number read from text, including quotes and escapes, in bytes. Two bytes of a frame are enough to
/// refer to a text again, so a long text that is not a number must be recognised without reading it each
/// time.
const NUMBER_RAW_MAX: usize = 4 * NUMBER_BYTES_MAX + 2;

impl Tree<'_> {
    /// The bytes of a text. `None` if the node is something else or is not quoted correctly.
    pub(crate) fn text(&self, node: Node) -> Option<Cow<'_, [u8]>> {
        let (opcode, rest) = self.atom(node)?;
        Some(match opcode {
            b'U' | b'C' | 0x8c => Cow::Borrowed(counted::<1>(rest)?),
            b'T' | b'X' | b'B' => Cow::Borrowed(counted::<4>(rest)?),
            0x8d | 0x8e | 0x96 => Cow::Borrowed(counted::<8>(rest)?),
            b'S' => quoted(line(rest)?)?,
            b'V' => raw_unicode(line(rest)?)?,
            _ => return None,
        })
    }

    /// Whether the node is this short text. A pickle may refer to a long text very often, so no more of it is read
    /// than is needed.
    pub(crate) fn is_text(&self, node: Node, wanted: &[u8]) -> bool {
        let Some((opcode, rest)) = self.atom(node) else { return false };
        // The longest escape of a character has ten bytes.
        let longest = rest.len().min(10 * wanted.len() + 3);
        if matches!(opcode, b'S' | b'V') && line(&rest[..longest]).is_none() {
            return false;
        }
        self.text(node).is_some_and(|text| *text == *wanted)
    }

    /// The raw bytes of a text that is written as a line of the frame; empty for all other nodes.
    pub(super) fn raw(&self, node: Node) -> &[u8] {
        match self.atom(node) {
            Some((b'S' | b'V', rest)) => line(rest).unwrap_or_default(),
            _ => b"",
        }
    }

    /// The value of a number, or of a text that contains one.
    pub(crate) fn number(&self, node: Node) -> Option<f64> {
        let (opcode, rest) = self.atom(node)?;
        // The values of these opcodes extend to the end of their line.
        if matches!(opcode, b'I' | b'F' | b'L' | b'S' | b'V') {
            line(&rest[..rest.len().min(NUMBER_RAW_MAX + 1)])?;
        }
        Some(match opcode {
            b'K' => f64::from(*rest.first()?),
            b'M' => f64::from(u16::from_le_bytes(*rest.first_chunk()?)),
            b'J' => f64::from(i32::from_le_bytes(*rest.first_chunk()?)),
            b'G' => f64::from_be_bytes(*rest.first_chunk()?),
            b'I' | b'F' => spelled(line(rest)?)?,
            b'L' => spelled(line(rest)?.trim_ascii().trim_suffix_long())?,
            0x8a => long(counted::<1>(rest)?)?,
            0x8b => long(counted::<4>(rest)?)?,
            0x88 => 1.0,
            0x89 => 0.0,
            b'N' => return None,
            _ => spelled(&self.text(node)?)?,
        })
    }

    fn atom(&self, node: Node) -> Option<(u8, &[u8])> {
        let bytes = self.frame.get(node.place()..).filter(|_| node.is_atom())?;
        bytes.split_first().map(|(opcode, rest)| (*opcode, rest))
    }
}

trait LongSuffix {
    fn trim_suffix_long(&self) -> &Self;
}

impl LongSuffix for [u8] {
    /// Removes the `L` at the end of Python 2's long integers.
    fn trim_suffix_long(&self) -> &Self {
        self.strip_suffix(b"L").unwrap_or(self)
    }
}

fn spelled(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    if text.len() > NUMBER_BYTES_MAX { None } else { number::value(text) }
}

/// Two's complement, least significant byte first. Longer integers than a double can represent are refused.
fn long(bytes: &[u8]) -> Option<f64> {
    if bytes.len() > 16 {
        return None;
    }
    let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [sign; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide) as f64)
}

fn counted<const N: usize>(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<N>()?;
    let length = length.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    rest.get(..usize::try_from(length).ok()?)
}

fn line(bytes: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b'\n', bytes).map(|end| &bytes[..end])
}

/// Decodes a quoted string with Python's escapes.
fn quoted(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let text = text.trim_ascii();
    let (quote, rest) = text.split_first().filter(|(quote, _)| matches!(quote, b'\'' | b'"'))?;
    let inner = rest.strip_suffix(&[*quote])?;
    if !inner.contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'\\' {
            rest = escape(after, &mut out)?;
        } else {
            out.push(*byte);
        }
    }
    Some(Cow::Owned(out))
}

/// Decodes what follows a backslash. As in Python, an unknown escape stands for itself.
fn escape<'a>(text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (code, rest) = text.split_first()?;
    let plain = match code {
        b'\\' | b'\'' | b'"' => *code,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        b'x' => {
            let (byte, rest) = digits(rest, 2, 16)?;
            out.push(byte as u8);
            return Some(rest);
        }
        b'0'..=b'7' => {
            let length = text.iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            let (byte, rest) = digits(text, length, 8)?;
            out.push(byte as u8);
            return Some(rest);
        }
        _ => {
            out.extend([b'\\', *code]);
            return Some(rest);
        }
    };
    out.push(plain);
    Some(rest)
}

/// Decodes Latin-1 with `\uXXXX` and `\UXXXXXXXX`, the form in which protocol 0 writes Unicode.
fn raw_unicode(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if text.is_ascii() && !text.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let length = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.push(char::from(*byte));
                continue;
            }
        };
        let (code, after) = digits(after.get(1..)?, length, 16)?;
        rest = after;
        out.push(char::from_u32(code)?);
    }
    Some(Cow::Owned(out.into_bytes()))
}

fn digits(text: &[u8], length: usize, radix: u32) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(length)?;
    let mut number = 0;
    for digit in digits {
        number = number * radix + char::from(*digit).to_digit(radix)?;
    }
    Some((number, rest))
}
