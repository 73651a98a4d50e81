//! The text of a pattern: escapes, dots, and braces replaced by their alternatives.

use super::{ALTERNATIVES_MAX, GlobError};

/// Most symbols that the alternatives of one part may have together.
pub(super) const SYMBOLS_MAX: usize = 4 << 20;

/// A character of a pattern, and whether a backslash took its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) character: char,
    pub(super) escaped: bool,
}

impl Symbol {
    /// True when this is the character with its meaning.
    pub(super) fn is(self, character: char) -> bool {
        self.character == character && !self.escaped
    }
}

/// Resolves backslashes. One before a letter, a digit or the end is a character of its own, so
/// that names with backslashes can still be written; an escaped dot is a dot, as in Graphite.
pub(super) fn symbols(text: &str) -> Vec<Symbol> {
    let mut symbols = Vec::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let symbol = match characters.peek() {
            Some(&next) if character == '\\' && next.is_ascii_punctuation() => {
                characters.next();
                Symbol { character: next, escaped: next != '.' }
            }
            _ => Symbol { character, escaped: character == '\\' },
        };
        symbols.push(symbol);
    }
    symbols
}

/// Cuts a pattern at the dots outside of braces.
pub(super) fn split(symbols: &[Symbol]) -> Vec<&[Symbol]> {
    let mut parts = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, (symbol, role)) in symbols.iter().zip(roles(symbols)).enumerate() {
        match role {
            Role::Open => depth += 1,
            Role::Close => depth -= 1,
            Role::Text if depth == 0 && symbol.is('.') => {
                parts.push(&symbols[start..at]);
                start = at + 1;
            }
            Role::Text | Role::Comma => {}
        }
    }
    parts.push(&symbols[start..]);
    parts
}

/// All texts that a part stands for, each once. Inner braces are replaced first; those without a
/// partner stay as they are.
pub(super) fn expand(symbols: &[Symbol]) -> Result<Vec<Vec<Symbol>>, GlobError> {
    let mut groups = vec![Group::new()];
    let mut spent = 0;
    for (symbol, role) in symbols.iter().zip(roles(symbols)) {
        let Some(group) = groups.last_mut() else { break };
        match role {
            Role::Open => groups.push(Group::new()),
            Role::Comma => group.end_alternative()?,
            Role::Text => group.push(*symbol, &mut spent)?,
            Role::Close => {
                group.end_alternative()?;
                let inner = groups.pop().map(|group| group.done).unwrap_or_default();
                if let Some(outer) = groups.last_mut() {
                    outer.append(&inner, &mut spent)?;
                }
            }
        }
    }
    let mut texts = groups.pop().map(|group| group.open).unwrap_or_default();
    if texts.len() > 1 {
        texts.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        texts.dedup();
    }
    Ok(texts)
}

fn key(text: &[Symbol]) -> impl Iterator<Item = (char, bool)> {
    text.iter().map(|symbol| (symbol.character, symbol.escaped))
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Open,
    Comma,
    Close,
    Text,
}

/// Finds the braces that have a partner, and the commas inside of those.
fn roles(symbols: &[Symbol]) -> Vec<Role> {
    let mut roles = vec![Role::Text; symbols.len()];
    // The open braces so far, each with the commas that belong to it.
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, symbol) in symbols.iter().enumerate() {
        if symbol.is('{') {
            open.push((at, Vec::new()));
        } else if symbol.is(',') {
            if let Some((_, commas)) = open.last_mut() {
                commas.push(at);
            }
        } else if symbol.is('}')
            && let Some((start, commas)) = open.pop()
        {
            roles[start] = Role::Open;
            roles[at] = Role::Close;
            for comma in commas {
                roles[comma] = Role::Comma;
            }
        }
    }
    roles
}

/// A pair of braces (or the whole part) while it is read.
struct Group {
    /// The texts of the alternatives behind us.
    done: Vec<Vec<Symbol>>,
    /// The texts of the alternative we are in.
    open: Vec<Vec<Symbol>>,
}

impl Group {
    fn new() -> Self {
        Self { done: Vec::new(), open: vec![Vec::new()] }
    }

    fn push(&mut self, symbol: Symbol, spent: &mut usize) -> Result<(), GlobError> {
        spend(spent, self.open.len())?;
        for text in &mut self.open {
            text.push(symbol);
        }
        Ok(())
    }

    fn end_alternative(&mut self) -> Result<(), GlobError> {
        self.done.append(&mut self.open);
        self.open.push(Vec::new());
        bound(self.done.len())
    }

    /// Every text goes on with every one of `tails`.
    fn append(&mut self, tails: &[Vec<Symbol>], spent: &mut usize) -> Result<(), GlobError> {
        bound(self.open.len().saturating_mul(tails.len()))?;
        let mut longer = Vec::with_capacity(self.open.len() * tails.len());
        for head in &self.open {
            for tail in tails {
                spend(spent, head.len() + tail.len())?;
                longer.push([head.as_slice(), tail].concat());
            }
        }
        self.open = longer;
        Ok(())
    }
}

fn bound(alternatives: usize) -> Result<(), GlobError> {
    if alternatives > ALTERNATIVES_MAX { Err(GlobError::TooManyAlternatives) } else { Ok(()) }
}

fn spend(spent: &mut usize, symbols: usize) -> Result<(), GlobError> {
    *spent += symbols;
    if *spent > SYMBOLS_MAX { Err(GlobError::TooMuchText) } else { Ok(()) }
}
