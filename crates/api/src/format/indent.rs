//! `pretty=1`: JSON with a line per value, indented by two blanks as Python does it.

use crate::stream::Pieces;

/// Indents the JSON that other pieces write.
pub(crate) struct Indented<P> {
    inner: P,
    compact: Vec<u8>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// A bracket was opened and nothing written behind it yet.
    is_open: bool,
}

impl<P> Indented<P> {
    pub(crate) fn new(inner: P) -> Self {
        Self { inner, compact: Vec::new(), depth: 0, is_in_string: false, is_escaped: false, is_open: false }
    }

    fn push(&mut self, out: &mut Vec<u8>, byte: u8) {
        if self.is_in_string {
            out.push(byte);
            self.is_in_string = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            return;
        }
        let closes = matches!(byte, b']' | b'}');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.is_open != closes {
            self.new_line(out);
        }
        self.is_open = matches!(byte, b'[' | b'{');
        self.is_in_string = byte == b'"';
        out.push(byte);
        match byte {
            b'[' | b'{' => self.depth += 1,
            b',' => self.new_line(out),
            b':' => out.push(b' '),
            _ => {}
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

impl<P: Pieces> Pieces for Indented<P> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let mut compact = std::mem::take(&mut self.compact);
        let more = self.inner.next(&mut compact);
        for byte in compact.drain(..) {
            self.push(out, byte);
        }
        self.compact = compact;
        more
    }
}
