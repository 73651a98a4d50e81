//! Byte chains in 32-byte cells of one pool. All heads use cells of the same size, so memory freed by one
//! metric can be used by any other.
//!
//! A chain is linked from its last cell back to its first. Most operations append, and so access only one
//! cell.

use std::hint::black_box;

use crate::shard::chunked::Chunked;

const PAYLOAD: usize = 28;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Cell {
    bytes: [u8; PAYLOAD],
    /// The previous cell of the chain. In a free cell, this is the next free cell.
    before: u32,
}

/// A chain of bytes in a [`Pool`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    last: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { last: NONE, len: 0 }
    }
}

impl Chain {
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The number of bytes.
    pub(crate) fn len(self) -> u32 {
        self.len
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
        let mut fill = fill_of_last(chain.len as usize);
        chain.len += bytes.len() as u32;
        while !bytes.is_empty() {
            if chain.last == NONE || fill == PAYLOAD {
                chain.last = self.take(chain.last);
                fill = 0;
            }
            let n = bytes.len().min(PAYLOAD - fill);
            self.cells[chain.last].bytes[fill..fill + n].copy_from_slice(&bytes[..n]);
            fill += n;
            bytes = &bytes[n..];
        }
    }

    /// Copies a chain's bytes to the end of `out`.
    pub(crate) fn read(&self, chain: Chain, out: &mut Vec<u8>) {
        let start = out.len();
        let mut end = start + chain.len as usize;
        out.resize(end, 0);
        let mut n = fill_of_last(chain.len as usize);
        let mut at = chain.last;
        while end > start && at != NONE {
            let cell = &self.cells[at];
            out[end - n..end].copy_from_slice(&cell.bytes[..n]);
            end -= n;
            n = PAYLOAD;
            at = cell.before;
        }
    }

    /// Frees the cells of a chain and leaves it empty.
    pub(crate) fn release(&mut self, chain: &mut Chain) {
        let mut at = chain.last;
        while at != NONE {
            let before = std::mem::replace(&mut self.cells[at].before, self.free);
            self.free = at;
            self.used -= 1;
            at = before;
        }
        *chain = Chain::default();
    }

    /// Loads the last cells of many chains into the cache before they are appended to.
    pub(crate) fn warm_ends(&self, chains: impl Iterator<Item = Chain>) {
        let ends = chains.filter(|c| c.last != NONE).map(|c| self.cells[c.last].before);
        black_box(ends.fold(0, |a, b| a ^ b));
    }

    /// Loads many chains into the cache before they are read: all of them at the same time, so that their
    /// cache misses overlap.
    pub(crate) fn warm<const N: usize>(&self, chains: impl Iterator<Item = Chain>) {
        let mut front = [NONE; N];
        for (at, chain) in front.iter_mut().zip(chains) {
            *at = chain.last;
        }
        while front.iter().any(|at| *at != NONE) {
            for at in front.iter_mut().filter(|at| **at != NONE) {
                *at = self.cells[*at].before;
            }
        }
    }

    /// Memory of all cells, including free ones, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.bytes()
    }

    /// The number of cells in use. Tests use it to find leaks.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    fn take(&mut self, before: u32) -> u32 {
        self.used += 1;
        if self.free == NONE {
            return self.cells.push(Cell { bytes: [0; PAYLOAD], before });
        }
        let at = self.free;
        let cell = &mut self.cells[at];
        self.free = cell.before;
        cell.before = before;
        at
    }
}

/// Number of bytes in the last cell of a chain.
fn fill_of_last(len: usize) -> usize {
    match len % PAYLOAD {
        0 if len > 0 => PAYLOAD,
        rest => rest,
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
