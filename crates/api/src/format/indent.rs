//! `pretty=1`: JSON with one value per line, indented by two blanks as Python does.

use crate::stream::Pieces;

/// Wraps the pieces of another format and indents their JSON.
pub(crate) struct Indented<P> {
    inner: P,
    /// Buffer for the pieces of `inner`, reused to avoid allocations.
    compact: Vec<u8>,
    /// Number of open brackets.
    depth: usize,
    is_in_string: bool,
    /// Whether the last byte was a backslash that escapes the next one.
    is_escaped: bool,
    /// Whether the last byte opened a bracket. An empty list or object stays on one line.
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
