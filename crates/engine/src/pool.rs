//! Byte chains in 32-byte cells of one pool: all heads share one size class, so memory that one
//! metric frees serves the next, whatever phase the metrics are in.

use crate::chunked::Chunked;

const PAYLOAD: usize = 28;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Cell {
    bytes: [u8; PAYLOAD],
    next: u32,
}

/// A chain of bytes in a [`Pool`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    first: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, len: 0 }
    }
}

impl Chain {
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The cells of one shard.
#[derive(Debug)]
pub(crate) struct Pool {
    cells: Chunked<Cell>,
    free: u32,
    used: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self { cells: Chunked::default(), free: NONE, used: 0 }
    }
}

impl Pool {
    /// Appends to a chain.
    pub(crate) fn append(&mut self, chain: &mut Chain, mut bytes: &[u8]) {
        let mut last = self.last_cell(*chain);
        let mut fill = chain.len as usize % PAYLOAD;
        if fill == 0 && chain.len > 0 {
            fill = PAYLOAD;
        }
        chain.len += bytes.len() as u32;
        while !bytes.is_empty() {
            if last == NONE || fill == PAYLOAD {
                let cell = self.take();
                if last == NONE {
                    chain.first = cell;
                } else {
                    self.cells[last].next = cell;
                }
                (last, fill) = (cell, 0);
            }
            let n = bytes.len().min(PAYLOAD - fill);
            self.cells[last].bytes[fill..fill + n].copy_from_slice(&bytes[..n]);
            fill += n;
            bytes = &bytes[n..];
        }
    }

    /// Copies a chain's bytes to the end of `out`.
    pub(crate) fn read(&self, chain: Chain, out: &mut Vec<u8>) {
        let mut left = chain.len as usize;
        let mut at = chain.first;
        while left > 0 && at != NONE {
            let cell = &self.cells[at];
            let n = left.min(PAYLOAD);
            out.extend_from_slice(&cell.bytes[..n]);
            left -= n;
            at = cell.next;
        }
    }

    /// Gives a chain's cells back and leaves it empty.
    pub(crate) fn release(&mut self, chain: &mut Chain) {
        let last = self.last_cell(*chain);
        if last != NONE {
            self.used -= (chain.len as usize).div_ceil(PAYLOAD);
            self.cells[last].next = self.free;
            self.free = chain.first;
        }
        *chain = Chain::default();
    }

    /// Bytes of memory, free cells included.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.bytes()
    }

    /// Cells in use, to find leaks in tests.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    fn take(&mut self) -> u32 {
        self.used += 1;
        if self.free == NONE {
            return self.cells.push(Cell { bytes: [0; PAYLOAD], next: NONE });
        }
        let cell = self.free;
        self.free = self.cells[cell].next;
        self.cells[cell].next = NONE;
        cell
    }

    fn last_cell(&self, chain: Chain) -> u32 {
        let mut at = chain.first;
        while at != NONE && self.cells[at].next != NONE {
            at = self.cells[at].next;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_keep_their_bytes_and_give_cells_back() {
        let mut pool = Pool::default();
        let (mut a, mut b) = (Chain::default(), Chain::default());
        let text: Vec<u8> = (0..200u8).collect();
        for part in text.chunks(7) {
            pool.append(&mut a, part);
            pool.append(&mut b, &part[..1]);
        }
        let mut out = Vec::new();
        pool.read(a, &mut out);
        assert_eq!(out, text);
        out.clear();
        pool.read(b, &mut out);
        assert_eq!(out, text.chunks(7).map(|c| c[0]).collect::<Vec<_>>());
        let used = pool.used();
        pool.release(&mut a);
        pool.release(&mut b);
        assert_eq!(pool.used(), 0);
        pool.append(&mut a, &text);
        assert!(pool.used() < used);
        assert!(!a.is_empty());
    }
}
