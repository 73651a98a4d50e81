//! The stack machine that turns opcodes into a tree of nodes.

use std::fmt;

/// A value of the pickle. The two upper bits hold its kind, the others an index whose meaning depends on
/// the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(u32);

const PLACE_BITS: u32 = 30;
const PLACE_MAX: u32 = (1 << PLACE_BITS) - 1;
const ATOM: u32 = 0;
const TUPLE: u32 = 1;
const LIST: u32 = 2;
const DICT: u32 = 3;

/// Index that stands for "no segment", and for a memo entry that was never set.
const NONE: u32 = u32::MAX;

/// The kinds of nodes.
pub(crate) enum Kind<'t> {
    /// A list or a tuple.
    Sequence(Sequence<'t>),
    /// A dictionary: its keys and values in turn, in the order in which they were set. Of equal keys, the
    /// last one counts.
    Dict(Sequence<'t>),
    /// Text, bytes, a number, a boolean or None.
    Atom,
}

/// The result of a run: all values of a pickle, and the outermost of them.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    pub(super) frame: &'a [u8],
    heap: Heap,
    root: Node,
}

/// Why a frame is not an acceptable pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The opcode (first field) at this byte (second field) is unknown, or is refused because it refers to
    /// classes, calls or copies.
    Opcode(u8, usize),
    /// The frame ends in the middle of the pickle.
    Short,
    /// The stack does not hold what the opcode at this byte needs.
    Stack(usize),
    /// The opcode at this byte reads a memo entry that was never set, or sets one with an absurd index.
    Memo(usize),
    /// The opcode at this byte has an impossible length or number.
    Number(usize),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opcode(code, at) => write!(f, "opcode {code:#04x} at byte {at} is not allowed"),
            Self::Short => f.write_str("the frame ends in the middle of the pickle"),
            Self::Stack(at) => write!(f, "the opcode at byte {at} does not fit the stack"),
            Self::Memo(at) => write!(f, "the opcode at byte {at} uses a memo entry that does not exist"),
            Self::Number(at) => write!(f, "the opcode at byte {at} has a wrong length or number"),
        }
    }
}

/// Runs the pickle to its STOP opcode. As in Python, bytes after that are ignored.
///
/// # Errors
/// [`Broken`] if the bytes are not a pickle of plain data.
pub(crate) fn run(frame: &[u8]) -> Result<Tree<'_>, Broken> {
    let mut machine = Machine::new(frame);
    let root = machine.run()?;
    Ok(Tree { frame, heap: machine.heap, root })
}

/// The largest amount of memory that the machine held for a frame.
#[cfg(test)]
pub(super) fn held_bytes(frame: &[u8]) -> usize {
    let mut machine = Machine::new(frame);
    let _ = machine.run();
    let words = machine.stack.capacity() + machine.marks.capacity() + machine.memo.capacity();
    let heap = &machine.heap;
    4 * (words + heap.segments.capacity() + 2 * heap.lists.capacity())
}

/// Tuples, lists and dictionaries as chains of segments, each stored as `[next segment, length, node, …]`.
#[derive(Debug, Default)]
struct Heap {
    segments: Vec<u32>,
    /// Indices of the first and last segment of each list and dictionary.
    lists: Vec<(u32, u32)>,
}

impl Heap {
    fn segment(&mut self, nodes: &[Node]) -> u32 {
        if nodes.is_empty() {
            return NONE;
        }
        let at = self.segments.len() as u32;
        self.segments.extend([NONE, nodes.len() as u32]);
        self.segments.extend(nodes.iter().map(|node| node.0));
        at
    }

    /// Appends to a container of this kind. Returns false if the node is something else.
    fn append(&mut self, kind: u32, list: Node, nodes: &[Node]) -> bool {
        let segment = self.segment(nodes);
        let Some((first, last)) = self.lists.get_mut(list.place()).filter(|_| list.kind() == kind) else {
            return false;
        };
        match (*first, segment) {
            (_, NONE) => {}
            (NONE, _) => (*first, *last) = (segment, segment),
            _ => {
                if let Some(next) = self.segments.get_mut(*last as usize) {
                    *next = segment;
                }
                *last = segment;
            }
        }
        true
    }
}

impl Node {
    fn new(kind: u32, place: usize) -> Self {
        Self(kind << PLACE_BITS | (place as u32).min(PLACE_MAX))
    }

    fn kind(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    pub(crate) fn place(self) -> usize {
        (self.0 & PLACE_MAX) as usize
    }

    pub(crate) fn is_atom(self) -> bool {
        self.kind() == ATOM
    }
}

/// Iterates over the nodes of a container.
pub(crate) struct Sequence<'t> {
    segments: &'t [u32],
    next: u32,
    nodes: &'t [u32],
}

impl Iterator for Sequence<'_> {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        loop {
            if let Some((first, rest)) = self.nodes.split_first() {
                self.nodes = rest;
                return Some(Node(*first));
            }
            let (header, rest) = self.segments.get(self.next as usize..)?.split_first_chunk::<2>()?;
            self.next = header[0];
            self.nodes = rest.get(..header[1] as usize)?;
        }
    }
}

impl Tree<'_> {
    pub(crate) fn root(&self) -> Node {
        self.root
    }

    pub(crate) fn kind(&self, node: Node) -> Kind<'_> {
        let first = match node.kind() {
            ATOM => return Kind::Atom,
            LIST | DICT => self.heap.lists.get(node.place()).map_or(NONE, |list| list.0),
            _ => node.place() as u32,
        };
        let nodes = Sequence { segments: &self.heap.segments, next: first, nodes: &[] };
        if node.kind() == DICT { Kind::Dict(nodes) } else { Kind::Sequence(nodes) }
    }
}

struct Machine<'a> {
    frame: &'a [u8],
    at: usize,
    opcode_at: usize,
    stack: Vec<Node>,
    /// Height of the stack at each MARK.
    marks: Vec<u32>,
    memo: Vec<Node>,
    heap: Heap,
}

impl<'a> Machine<'a> {
    fn new(frame: &'a [u8]) -> Self {
        Self {
            frame,
            at: 0,
            opcode_at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            heap: Heap::default(),
        }
    }

    fn run(&mut self) -> Result<Node, Broken> {
        loop {
            self.opcode_at = self.at;
            match self.byte()? {
                b'.' => return self.pop(),
                opcode => self.step(opcode)?,
            }
        }
    }

    fn step(&mut self, opcode: u8) -> Result<(), Broken> {
        match opcode {
            b'(' => self.marks.push(self.stack.len() as u32),
            b'0' => self.discard()?,
            b'1' => {
                let mark = self.pop_mark()?;
                self.stack.truncate(mark);
            }
            b'N' | 0x88 | 0x89 => self.atom(0)?,
            b'K' => self.atom(1)?,
            b'M' => self.atom(2)?,
            b'J' => self.atom(4)?,
            b'G' => self.atom(8)?,
            b'I' | b'L' | b'F' | b'S' | b'V' => {
                let end = self.line()?.len();
                self.at -= end + 1;
                self.atom(end + 1)?;
            }
            b'U' | b'C' | 0x8a | 0x8c => self.counted::<1>()?,
            b'T' | b'X' | b'B' | 0x8b => self.counted::<4>()?,
            0x8d | 0x8e | 0x96 => self.counted::<8>()?,
            b')' | b't' | 0x85..=0x87 => self.tuple(opcode)?,
            b']' | b'l' => self.list(opcode)?,
            b'a' | b'e' => self.append(opcode)?,
            b'}' | b'd' => self.dict(opcode)?,
            b's' | b'u' => self.set_items(opcode)?,
            b'p' | b'q' | b'r' | 0x94 => self.put(opcode)?,
            b'g' | b'h' | b'j' => self.get(opcode)?,
            0x80 => self.protocol()?,
            0x95 => self.frame_length()?,
            _ => return Err(Broken::Opcode(opcode, self.opcode_at)),
        }
        Ok(())
    }

    // The opcodes, in the order of the match above.

    /// POP removes the topmost value, or the topmost mark if no value is above it.
    fn discard(&mut self) -> Result<(), Broken> {
        if self.stack.len() > self.floor() {
            self.stack.pop();
            return Ok(());
        }
        self.pop_mark().map(drop)
    }

    /// Pushes a value of `length` bytes after the opcode. They are decoded when the value is needed.
    fn atom(&mut self, length: usize) -> Result<(), Broken> {
        self.skip(length)?;
        self.stack.push(Node::new(ATOM, self.opcode_at));
        Ok(())
    }

    /// Pushes a value that is preceded by its length.
    fn counted<const N: usize>(&mut self) -> Result<(), Broken> {
        let length = self.little_endian::<N>()?;
        self.atom(length)
    }

    fn tuple(&mut self, opcode: u8) -> Result<(), Broken> {
        let from = match opcode {
            b')' => self.stack.len(),
            b't' => self.pop_mark()?,
            _ => self.below(usize::from(opcode - 0x84))?,
        };
        let segment = self.heap.segment(&self.stack[from..]);
        self.stack.truncate(from);
        self.push_new(TUPLE, (segment as usize).min(PLACE_MAX as usize))
    }

    fn list(&mut self, opcode: u8) -> Result<(), Broken> {
        let from = if opcode == b']' { self.stack.len() } else { self.pop_mark()? };
        self.container(LIST, from)
    }

    /// Replaces the values from this height on by a container that holds them.
    fn container(&mut self, kind: u32, from: usize) -> Result<(), Broken> {
        let segment = self.heap.segment(&self.stack[from..]);
        self.stack.truncate(from);
        self.heap.lists.push((segment, segment));
        self.push_new(kind, self.heap.lists.len() - 1)
    }

    fn append(&mut self, opcode: u8) -> Result<(), Broken> {
        let from = if opcode == b'a' { self.below(1)? } else { self.pop_mark()? };
        self.add(LIST, from)
    }

    fn dict(&mut self, opcode: u8) -> Result<(), Broken> {
        let from = if opcode == b'}' { self.stack.len() } else { self.pop_mark()? };
        self.check_pairs(from)?;
        self.container(DICT, from)
    }

    fn set_items(&mut self, opcode: u8) -> Result<(), Broken> {
        let from = if opcode == b's' { self.below(2)? } else { self.pop_mark()? };
        self.check_pairs(from)?;
        self.add(DICT, from)
    }

    /// Moves the values from this height on into the container below them.
    fn add(&mut self, kind: u32, from: usize) -> Result<(), Broken> {
        if from <= self.floor() || !self.heap.append(kind, self.stack[from - 1], &self.stack[from..]) {
            return Err(Broken::Stack(self.opcode_at));
        }
        self.stack.truncate(from);
        Ok(())
    }

    /// Fails if the stack above this height has a key without a value.
    fn check_pairs(&self, from: usize) -> Result<(), Broken> {
        if (self.stack.len() - from).is_multiple_of(2) { Ok(()) } else { Err(Broken::Stack(self.opcode_at)) }
    }

    fn put(&mut self, opcode: u8) -> Result<(), Broken> {
        let index = match opcode {
            b'p' => self.decimal()?,
            b'q' => self.little_endian::<1>()?,
            b'r' => self.little_endian::<4>()?,
            _ => self.memo.len(),
        };
        // Senders number memo entries consecutively, so an index beyond the length of the frame is an attack.
        if index > self.frame.len() {
            return Err(Broken::Memo(self.opcode_at));
        }
        let top = self.stack.get(self.below(1)?).copied().ok_or(Broken::Stack(self.opcode_at))?;
        if index >= self.memo.len() {
            self.memo.resize(index + 1, Node(NONE));
        }
        self.memo[index] = top;
        Ok(())
    }

    fn get(&mut self, opcode: u8) -> Result<(), Broken> {
        let index = match opcode {
            b'g' => self.decimal()?,
            b'h' => self.little_endian::<1>()?,
            _ => self.little_endian::<4>()?,
        };
        let node = self.memo.get(index).copied().filter(|node| node.0 != NONE);
        self.stack.push(node.ok_or(Broken::Memo(self.opcode_at))?);
        Ok(())
    }

    fn protocol(&mut self) -> Result<(), Broken> {
        match self.byte()? {
            ..=5 => Ok(()),
            _ => Err(Broken::Number(self.opcode_at)),
        }
    }

    fn frame_length(&mut self) -> Result<(), Broken> {
        let length = self.little_endian::<8>()?;
        if length > self.frame.len() - self.at { Err(Broken::Short) } else { Ok(()) }
    }

    // The stack.

    fn push_new(&mut self, kind: u32, place: usize) -> Result<(), Broken> {
        if place > PLACE_MAX as usize {
            return Err(Broken::Number(self.opcode_at));
        }
        self.stack.push(Node::new(kind, place));
        Ok(())
    }

    fn floor(&self) -> usize {
        self.marks.last().map_or(0, |mark| *mark as usize)
    }

    /// Height of the stack without its `count` topmost values. Fails if one of them lies below a mark.
    fn below(&self, count: usize) -> Result<usize, Broken> {
        let height = self.stack.len().checked_sub(count);
        height.filter(|height| *height >= self.floor()).ok_or(Broken::Stack(self.opcode_at))
    }

    fn pop(&mut self) -> Result<Node, Broken> {
        let top = self.below(1)?;
        self.stack.truncate(top + 1);
        self.stack.pop().ok_or(Broken::Stack(self.opcode_at))
    }

    fn pop_mark(&mut self) -> Result<usize, Broken> {
        self.marks.pop().map(|mark| mark as usize).ok_or(Broken::Stack(self.opcode_at))
    }

    // The bytes.

    fn byte(&mut self) -> Result<u8, Broken> {
        let byte = self.frame.get(self.at).copied().ok_or(Broken::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, length: usize) -> Result<(), Broken> {
        if length > self.frame.len() - self.at {
            return Err(Broken::Short);
        }
        self.at += length;
        Ok(())
    }

    fn little_endian<const N: usize>(&mut self) -> Result<usize, Broken> {
        let bytes = self.frame[self.at..].first_chunk::<N>().ok_or(Broken::Short)?;
        self.at += N;
        let number = bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|_| Broken::Short)
    }

    /// The rest of the line without its LF.
    fn line(&mut self) -> Result<&[u8], Broken> {
        let rest = &self.frame[self.at..];
        let end = memchr::memchr(b'\n', rest).ok_or(Broken::Short)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn decimal(&mut self) -> Result<usize, Broken> {
        let at = self.opcode_at;
        let text = str::from_utf8(self.line()?).map_err(|_| Broken::Number(at))?;
        text.trim().parse().map_err(|_| Broken::Number(at))
    }
}
