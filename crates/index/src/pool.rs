//! Many short arrays in a few large chunks.

/// Number of elements of a chunk. Memory grows in whole chunks and nothing is moved, so growing takes no
/// longer than allocating one chunk.
const CHUNK: usize = 1 << 15;
/// The number of array sizes: 1, 2, 3, 4, 6, 8, 12, 16, … up to [`LENGTH_MAX`].
const CLASSES: usize = 23;
/// The longest array.
pub(crate) const LENGTH_MAX: usize = 3072;

/// A pool of arrays of at most [`LENGTH_MAX`] elements. An array is identified by its start; the caller keeps
/// its length. Freed arrays are reused.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    chunks: Vec<Box<[T]>>,
    /// The start of the unused rest of the newest chunk.
    next: usize,
    free: [Vec<u32>; CLASSES],
}

impl<T: Copy + Default> Pool<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), next: 0, free: std::array::from_fn(|_| Vec::new()) }
    }

    /// Allocates an array of `length` elements. Its contents are those of an earlier use.
    pub(crate) fn allocate(&mut self, length: usize) -> u32 {
        let class = class(length);
        if let Some(start) = self.free[class].pop() {
            return start;
        }
        let size = size(class);
        if self.next + size > self.chunks.len() * CHUNK {
            self.next = self.chunks.len() * CHUNK;
            self.chunks.push(vec![T::default(); CHUNK].into_boxed_slice());
        }
        let start = self.next as u32;
        self.next += size;
        start
    }

    /// Frees an array.
    pub(crate) fn release(&mut self, start: u32, length: usize) {
        self.free[class(length)].push(start);
    }

    #[inline]
    pub(crate) fn get(&self, start: u32, length: usize) -> &[T] {
        let at = start as usize % CHUNK;
        &self.chunks[start as usize / CHUNK][at..at + length]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, start: u32, length: usize) -> &mut [T] {
        let at = start as usize % CHUNK;
        &mut self.chunks[start as usize / CHUNK][at..at + length]
    }

    /// Inserts an element into an array. Returns the array's new start.
    pub(crate) fn insert(&mut self, start: u32, length: usize, at: usize, element: T) -> u32 {
        let start = self.resize(start, length, length + 1);
        let array = self.get_mut(start, length + 1);
        array.copy_within(at..length, at + 1);
        array[at] = element;
        start
    }

    /// Removes an element from an array that has at least two. Returns the array's new start.
    pub(crate) fn remove(&mut self, start: u32, length: usize, at: usize) -> u32 {
        self.get_mut(start, length).copy_within(at + 1..length, at);
        self.resize(start, length, length - 1)
    }

    /// Changes the length of an array and keeps the elements that fit. Returns the array's new start.
    pub(crate) fn resize(&mut self, start: u32, length: usize, wanted: usize) -> u32 {
        if class(length) == class(wanted) {
            return start;
        }
        let moved = self.allocate(wanted);
        let keep = length.min(wanted);
        let (from, to) = (start as usize, moved as usize);
        let (at, into) = (from % CHUNK, to % CHUNK);
        if from / CHUNK == to / CHUNK {
            self.chunks[from / CHUNK].copy_within(at..at + keep, into);
        } else if let Ok([old, new]) = self.chunks.get_disjoint_mut([from / CHUNK, to / CHUNK]) {
            new[into..into + keep].copy_from_slice(&old[at..at + keep]);
        }
        self.release(start, length);
        moved
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|list| list.capacity() * size_of::<u32>()).sum();
        self.chunks.len() * CHUNK * size_of::<T>() + free
    }
}

/// The class of the smallest size that holds `length` elements.
#[inline]
fn class(length: usize) -> usize {
    if length <= 2 {
        return length.saturating_sub(1);
    }
    let half = (length - 1).ilog2() as usize;
    2 * half + usize::from(length > 3 << half >> 1)
}

/// The size of a class.
#[inline]
fn size(class: usize) -> usize {
    match class {
        0 => 1,
        odd if odd % 2 == 1 => 1 << odd.div_ceil(2),
        even => 3 << (even / 2) >> 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fit_and_are_not_too_large() {
        assert_eq!((0..9).map(size).collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        for length in 1..=LENGTH_MAX {
            let class = class(length);
            assert!(class < CLASSES && size(class) >= length, "{length}");
            assert!(class == 0 || size(class - 1) < length, "{length}");
        }
    }

    #[test]
    fn arrays_keep_what_is_put_into_them() {
        let mut pool = Pool::new();
        let mut arrays: Vec<(u32, Vec<u64>)> = Vec::new();
        for round in 0..40_000_u64 {
            let pick = (round.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
            if round % 7 == 0 || arrays.is_empty() {
                let start = pool.allocate(1);
                pool.get_mut(start, 1)[0] = round;
                arrays.push((start, vec![round]));
                continue;
            }
            let chosen = pick % arrays.len();
            let (start, own) = &mut arrays[chosen];
            let at = pick % own.len();
            if round % 3 != 0 && own.len() < 300 {
                *start = pool.insert(*start, own.len(), at, round);
                own.insert(at, round);
            } else if own.len() > 1 {
                *start = pool.remove(*start, own.len(), at);
                own.remove(at);
            } else {
                pool.release(*start, 1);
                arrays.swap_remove(chosen);
            }
        }
        for (start, own) in &arrays {
            assert_eq!(pool.get(*start, own.len()), own);
        }
        assert!(pool.memory_bytes() > 0);
    }
}
