//! Escapes, dots and braces of a pattern.

use super::{ALTERNATIVES_MAX, GlobError};

/// Maximum number of symbols of all alternatives of one part.
pub(super) const SYMBOLS_MAX: usize = 4 << 20;

/// A character of a pattern, and whether a backslash makes it plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) character: char,
    pub(super) escaped: bool,
}

impl Symbol {
    /// Whether this is the given character, and not escaped.
    pub(super) fn is(self, character: char) -> bool {
        self.character == character && !self.escaped
    }
}

/// Resolves backslashes. A backslash before a letter, a digit or the end of the text is a plain character, so
/// that names with backslashes can be written. As in Graphite, an escaped dot is a dot.
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

/// Splits a pattern at the dots outside of braces.
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

/// All alternatives of a part, without duplicates. Inner braces are expanded first. A brace without a partner
/// is plain text.
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

/// Finds the braces that have a partner, and the commas inside them.
fn roles(symbols: &[Symbol]) -> Vec<Role> {
    let mut roles = vec![Role::Text; symbols.len()];
    // The open braces so far, each with its commas.
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

/// A pair of braces, or the whole part, while it is being read.
struct Group {
    /// The texts of the alternatives that are complete.
    done: Vec<Vec<Symbol>>,
    /// The texts of the alternative that is being read.
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

    /// Appends each text of `tails` to each text that is not complete yet.
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
