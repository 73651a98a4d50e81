//! Wildcards for one component: `*`, `?` and classes.

use super::braces::Symbol;

/// A pattern with at least one `*`, `?` or class, and without braces. The rules are those of Python's fnmatch,
/// which Graphite uses.
#[derive(Debug, Clone)]
pub struct Wildcard {
    prefix: String,
    middle: Vec<Token>,
    suffix: String,
}

#[derive(Debug, Clone)]
enum Token {
    Character(char),
    One,
    Run,
    Class(Box<Class>),
}

impl Wildcard {
    /// Compiles a pattern. If it has no wildcard, the error is its text.
    pub(super) fn new(text: &[Symbol]) -> Result<Self, String> {
        let mut tokens = tokens(text);
        let literal = |token: &Token| matches!(token, Token::Character(_));
        let Some(first) = tokens.iter().position(|token| !literal(token)) else {
            return Err(literals(&tokens));
        };
        let last = tokens.iter().rposition(|token| !literal(token)).unwrap_or(first);
        let suffix = literals(&tokens[last + 1..]);
        tokens.truncate(last + 1);
        let prefix = literals(&tokens[..first]);
        tokens.drain(..first);
        Ok(Self { prefix, middle: tokens, suffix })
    }

    /// The wildcard `*`.
    pub(super) fn any() -> Self {
        Self { prefix: String::new(), middle: vec![Token::Run], suffix: String::new() }
    }

    /// Whether this is the wildcard `*`.
    pub fn is_any(&self) -> bool {
        self.prefix.is_empty() && self.suffix.is_empty() && matches!(self.middle.as_slice(), [Token::Run])
    }

    /// The text before the first `*`, `?` or class.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether the whole text matches. Takes at most pattern length × text length steps.
    pub fn matches(&self, text: &str) -> bool {
        let inner = text.strip_prefix(self.prefix.as_str());
        let Some(inner) = inner.and_then(|inner| inner.strip_suffix(self.suffix.as_str())) else {
            return false;
        };
        matches!(self.middle.as_slice(), [Token::Run]) || run(&self.middle, inner)
    }

    /// An estimate of the characters that a match compares at worst.
    pub(super) fn cost(&self, text_bytes: usize) -> usize {
        self.prefix.len() + self.suffix.len() + self.middle.len() * text_bytes
    }
}

/// Matches greedily. On a mismatch only the last `*` takes another character: the text between two earlier ones
/// has already matched as early as possible.
fn run(tokens: &[Token], text: &str) -> bool {
    let mut token = 0;
    let mut rest = text.chars();
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let before = rest.clone();
        let matched = match (tokens.get(token), rest.next()) {
            (None, None) => return true,
            (Some(Token::Run), _) if token + 1 == tokens.len() => return true,
            (Some(Token::Run), _) => {
                rest = before;
                retry = Some((token + 1, rest.clone()));
                true
            }
            (Some(token), Some(character)) => token.matches(character),
            (Some(_), None) => return false,
            (None, Some(_)) => false,
        };
        if matched {
            token += 1;
            continue;
        }
        let Some((behind, from)) = retry.as_mut() else { return false };
        from.next();
        token = *behind;
        rest = from.clone();
    }
}

impl Token {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Character(own) => *own == character,
            Self::One => true,
            Self::Class(class) => class.matches(character),
            Self::Run => false,
        }
    }
}

fn literals(tokens: &[Token]) -> String {
    let character = |token: &Token| if let Token::Character(own) = token { Some(*own) } else { None };
    tokens.iter().filter_map(character).collect()
}

fn tokens(text: &[Symbol]) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    let mut rest = text;
    // If one `[` is not closed, no later `[` is closed either.
    let mut classes = true;
    while let Some((symbol, behind)) = rest.split_first() {
        rest = behind;
        if symbol.is('*') {
            if !matches!(tokens.last(), Some(Token::Run)) {
                tokens.push(Token::Run);
            }
        } else if symbol.is('?') {
            tokens.push(Token::One);
        } else if symbol.is('[') && classes {
            match class_end(behind) {
                Some(end) => {
                    tokens.push(Token::Class(Box::new(Class::new(&behind[..end]))));
                    rest = &behind[end + 1..];
                }
                None => {
                    classes = false;
                    tokens.push(Token::Character('['));
                }
            }
        } else {
            tokens.push(Token::Character(symbol.character));
        }
    }
    tokens
}

/// The end of the class that starts here. A `]` in the first position is a member.
fn class_end(text: &[Symbol]) -> Option<usize> {
    let mut from = usize::from(text.first().is_some_and(|symbol| symbol.is('!')));
    from += usize::from(text.get(from).is_some_and(|symbol| symbol.is(']')));
    let end = text.get(from..)?.iter().position(|symbol| symbol.is(']'))?;
    Some(from + end)
}

/// A class such as `[a-z]`.
#[derive(Debug, Clone, Default)]
struct Class {
    negated: bool,
    /// One bit for each member below 128.
    ascii: u128,
    /// All members.
    ranges: Vec<(char, char)>,
}

impl Class {
    /// Reads the text between the brackets.
    ///
    /// A `-` makes a range of its neighbours, unless it is the first or the last character. The two characters
    /// after it cannot be the `-` of another range. A range that runs backwards is ignored, with both of its
    /// ends.
    fn new(text: &[Symbol]) -> Self {
        let negated = text.first().is_some_and(|symbol| symbol.is('!'));
        let text = &text[usize::from(negated)..];
        let mut class = Self { negated, ..Self::default() };
        let mut chunks = chunks(text);
        for at in (1..chunks.len()).rev() {
            let (left, right) = chunks.split_at_mut(at);
            let (Some(left), Some(right)) = (left.last_mut(), right.first_mut()) else { continue };
            if let (Some(&start), Some(&end)) = (left.last(), right.first())
                && start > end
            {
                left.pop();
                left.extend(right.drain(1..));
                chunks.remove(at);
            }
        }
        let mut start = None;
        for chunk in &chunks {
            if let (Some(start), Some(&end)) = (start, chunk.first()) {
                class.add(start, end);
            }
            for &character in chunk {
                class.add(character, character);
            }
            start = chunk.last().copied();
        }
        class
    }

    fn add(&mut self, first: char, last: char) {
        for code in u32::from(first)..=u32::from(last).min(127) {
            self.ascii |= 1 << code;
        }
        self.ranges.push((first, last));
    }

    fn matches(&self, character: char) -> bool {
        let code = u32::from(character);
        let member = if code < 128 {
            self.ascii >> code & 1 == 1
        } else {
            self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character))
        };
        member != self.negated
    }
}

/// Splits a class at the `-` of its ranges: the last character of a piece and the first one of the next piece
/// are the ends of a range.
fn chunks(text: &[Symbol]) -> Vec<Vec<char>> {
    let characters = |part: &[Symbol]| part.iter().map(|symbol| symbol.character).collect::<Vec<_>>();
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut from = 1;
    while let Some(found) = text.get(from..).and_then(|rest| rest.iter().position(|s| s.is('-'))) {
        let hyphen = from + found;
        chunks.push(characters(&text[start..hyphen]));
        start = hyphen + 1;
        from = hyphen + 3;
    }
    let tail = characters(&text[start..]);
    match chunks.last_mut() {
        Some(last) if tail.is_empty() => last.push('-'),
        _ => chunks.push(tail),
    }
    chunks
}
