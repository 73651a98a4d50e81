//! The texts of components, each stored once.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use plumbago_model::name::NAME_BYTES_MAX;

use crate::needle::is_plain;
use crate::pool::{LENGTH_MAX, Pool};

/// The number of hash tables. With many small tables, growing one of them (which moves its entries) is fast.
const TABLES: usize = 256;
/// Texts are stored in units of this many bytes.
const UNIT: usize = 8;
/// The longest text. One unit is used for the header.
const COMPONENT_BYTES_MAX: usize = UNIT * (LENGTH_MAX - 1);
const _: () = assert!(COMPONENT_BYTES_MAX >= NAME_BYTES_MAX);

/// Interned components with reference counts. A component is identified by its start in the pool: a header
/// with its reference count and length, then its text. In this way a comparison takes only one memory access.
#[derive(Debug)]
pub(crate) struct Components {
    texts: Pool<[u8; UNIT]>,
    /// The number and the hash of each text. The hash is stored so that growing a table does not read the
    /// texts.
    tables: Vec<HashTable<(u32, u32)>>,
    hasher: RandomState,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    uses: u32,
    /// The length, and the bit [`PLAIN`].
    bytes: u32,
}

/// A component.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Component<'a> {
    pub(crate) text: &'a [u8],
    /// Whether the text is ASCII without upper-case letters.
    pub(crate) is_plain: bool,
    /// Whether the component occurs in several places of the tree.
    pub(crate) is_shared: bool,
}

/// Marks a text that is ASCII without upper-case letters.
const PLAIN: u32 = 1 << 31;

impl Header {
    #[inline]
    fn length(self) -> usize {
        (self.bytes & !PLAIN) as usize
    }
}

impl Components {
    pub(crate) fn new() -> Self {
        Self {
            texts: Pool::new(),
            tables: (0..TABLES).map(|_| HashTable::new()).collect(),
            hasher: RandomState::default(),
            count: 0,
        }
    }

    /// The number of different texts.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The text of a component.
    #[inline]
    pub(crate) fn text(&self, component: u32) -> &[u8] {
        let bytes = self.header(component).length();
        &self.texts.get(component, units(bytes)).as_flattened()[UNIT..UNIT + bytes]
    }

    /// All data of a component, in one memory access.
    #[inline]
    pub(crate) fn get(&self, component: u32) -> Component<'_> {
        let header = self.header(component);
        let length = header.length();
        let text = &self.texts.get(component, units(length)).as_flattened()[UNIT..UNIT + length];
        Component { text, is_plain: header.bytes & PLAIN != 0, is_shared: header.uses > 1 }
    }

    /// The number of a text, if it is in use.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        let hash = self.hash(text);
        let table = &self.tables[table_of(hash)];
        table.find(spread(hash), |entry| self.is(*entry, hash, text)).map(|entry| entry.1)
    }

    /// The number of a text, with its reference count increased.
    pub(crate) fn acquire(&mut self, text: &[u8]) -> u32 {
        if let Some(component) = self.find(text) {
            let header = self.header(component);
            self.set_header(component, Header { uses: header.uses + 1, ..header });
            return component;
        }
        let units = units(text.len());
        let component = self.texts.allocate(units);
        let room = self.texts.get_mut(component, units).as_flattened_mut();
        room[UNIT..UNIT + text.len()].copy_from_slice(text);
        let is_plain = is_plain(text);
        self.set_header(
            component,
            Header { uses: 1, bytes: text.len() as u32 | if is_plain { PLAIN } else { 0 } },
        );
        let hash = self.hash(text);
        let table = &mut self.tables[table_of(hash)];
        table.insert_unique(spread(hash), (hash, component), |entry| spread(entry.0));
        self.count += 1;
        component
    }

    /// Decreases a reference count. A text without references is removed, and its number is reused.
    pub(crate) fn release(&mut self, component: u32) {
        let header = self.header(component);
        if header.uses > 1 {
            self.set_header(component, Header { uses: header.uses - 1, ..header });
            return;
        }
        let hash = self.hash(self.text(component));
        let table = &mut self.tables[table_of(hash)];
        if let Ok(entry) = table.find_entry(spread(hash), |entry| entry.1 == component) {
            entry.remove();
        }
        self.texts.release(component, units(header.length()));
        self.count -= 1;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(HashTable::allocation_size).sum();
        self.texts.memory_bytes() + tables
    }

    #[inline]
    fn header(&self, component: u32) -> Header {
        let [a, b, c, d, e, f, g, h] = self.texts.get(component, 1)[0];
        Header { uses: u32::from_ne_bytes([a, b, c, d]), bytes: u32::from_ne_bytes([e, f, g, h]) }
    }

    fn set_header(&mut self, component: u32, header: Header) {
        let ([a, b, c, d], [e, f, g, h]) = (header.uses.to_ne_bytes(), header.bytes.to_ne_bytes());
        self.texts.get_mut(component, 1)[0] = [a, b, c, d, e, f, g, h];
    }

    fn hash(&self, text: &[u8]) -> u32 {
        self.hasher.hash_one(text) as u32
    }

    fn is(&self, entry: (u32, u32), hash: u32, text: &[u8]) -> bool {
        entry.0 == hash && self.text(entry.1) == text
    }
}

/// How many units a text of this length and its header take.
#[inline]
fn units(bytes: usize) -> usize {
    1 + bytes.div_ceil(UNIT)
}

/// The table for a hash, chosen by its high bits, because hashbrown uses the low bits.
#[inline]
fn table_of(hash: u32) -> usize {
    (hash >> 24) as usize % TABLES
}

/// Makes a 64-bit hash for a table from the 32 bits that are stored.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_lives_as_long_as_it_is_used() {
        let mut components = Components::new();
        let a = components.acquire(b"cpu");
        assert_eq!(components.acquire(b"cpu"), a);
        let long = components.acquire(&[b'x'; COMPONENT_BYTES_MAX]);
        assert_eq!(components.text(long).len(), COMPONENT_BYTES_MAX);
        assert_eq!(components.len(), 2);
        components.release(a);
        assert_eq!(components.find(b"cpu"), Some(a));
        components.release(a);
        assert_eq!(components.find(b"cpu"), None);
        let b = components.acquire(b"memory");
        assert_eq!(b, a, "the number is used again");
        assert_eq!(components.text(b), b"memory");
        assert_eq!(components.len(), 2);
    }
}
