//! Translation of Python's regular expressions into the dialect of `regex` and `fancy-regex`.

use std::iter::Peekable;
use std::str::Chars;

/// The members of the classes `\w`, `\d` and `\s` under Python's flag `a`.
const ASCII_WORD: &str = "0-9A-Za-z_";
const ASCII_DIGIT: &str = "0-9";
const ASCII_SPACE: &str = r" \t\n\r\x0b\x0c";

/// A pattern in the dialect of the engines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) text: String,
    /// The plain engine would compile the text too, but with another meaning.
    pub(super) needs_backtracking: bool,
}

/// Rewrites syntax that differs in Python. Text that neither dialect accepts is copied, so that the engine
/// reports it.
pub(super) fn translate(python: &str) -> Translation {
    let rest = python.chars().peekable();
    let mut translator =
        Translator { rest, out: String::new(), ascii_scopes: vec![false], needs_backtracking: false };
    while let Some(c) = translator.rest.next() {
        translator.one(c);
    }
    Translation { text: translator.out, needs_backtracking: translator.needs_backtracking }
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    /// Whether the flag `a` holds: for the pattern, and for each group that is open here.
    ascii_scopes: Vec<bool>,
    needs_backtracking: bool,
}

impl Translator<'_> {
    fn one(&mut self, c: char) {
        match c {
            '\\' => self.escape(),
            '[' => self.class(),
            '{' => self.repetition(),
            '(' if self.ahead("?#") => self.comment(),
            '(' => self.group(),
            ')' => {
                if self.ascii_scopes.len() > 1 {
                    self.ascii_scopes.pop();
                }
                self.out.push(')');
            }
            '*' | '+' | '?' => {
                self.out.push(c);
                self.possessive();
            }
            _ => self.out.push(c),
        }
    }

    fn ahead(&self, text: &str) -> bool {
        let mut rest = self.rest.clone();
        text.chars().all(|c| rest.next() == Some(c))
    }

    fn is_ascii(&self) -> bool {
        self.ascii_scopes.last().copied().unwrap_or_default()
    }

    /// A `+` right after a quantifier forbids backtracking into it. The plain engine would read it as a
    /// second quantifier.
    fn possessive(&mut self) {
        if self.rest.next_if_eq(&'+').is_some() {
            self.out.push('+');
            self.needs_backtracking = true;
        }
    }

    /// The opening bracket of a group, with the flags `(?flags)` and `(?flags:`.
    fn group(&mut self) {
        let scope = self.is_ascii();
        if self.rest.next_if_eq(&'?').is_none() {
            self.out.push('(');
            self.ascii_scopes.push(scope);
            return;
        }
        let flags: String = self.rest.clone().take_while(|c| c.is_ascii_alphabetic() || *c == '-').collect();
        let end = self.rest.clone().nth(flags.len());
        if flags.is_empty() || flags.starts_with('P') || !matches!(end, Some(':' | ')')) {
            self.out.push_str("(?");
            self.ascii_scopes.push(scope);
            return;
        }
        self.rest.nth(flags.len());
        let is_ascii = (scope || flags.contains('a')) && !flags.contains('u');
        let other: String = flags.chars().filter(|flag| !matches!(flag, 'a' | 'u')).collect();
        if end == Some(':') {
            self.out.push_str(&format!("(?{other}:"));
            self.ascii_scopes.push(is_ascii);
        } else {
            if let Some(scope) = self.ascii_scopes.last_mut() {
                *scope = is_ascii;
            }
            if !other.is_empty() {
                self.out.push_str(&format!("(?{other})"));
            }
        }
    }

    fn escape(&mut self) {
        match self.rest.next() {
            Some('Z') => self.out.push_str(r"\z"),
            Some('b') if self.is_ascii() => self.ascii_boundary(true),
            Some('B') if self.is_ascii() => self.ascii_boundary(false),
            Some(digit @ ('1'..='3')) if self.is_long_octal() => self.octal(digit, 2),
            Some(c) => self.escaped(c),
            None => self.out.push('\\'),
        }
    }

    /// An escape that means the same in a class and outside of one.
    fn escaped(&mut self, c: char) {
        match c {
            '0' => self.octal('0', 2),
            'w' | 'W' | 'd' | 'D' | 's' | 'S' if self.is_ascii() => {
                let members = match c.to_ascii_lowercase() {
                    'w' => ASCII_WORD,
                    'd' => ASCII_DIGIT,
                    _ => ASCII_SPACE,
                };
                let negation = if c.is_ascii_uppercase() { "^" } else { "" };
                self.out.push_str(&format!("[{negation}{members}]"));
            }
            // The engines read these two as word boundaries, Python as the characters themselves.
            '<' | '>' => self.out.push(c),
            _ if !c.is_ascii() => self.out.push(c),
            _ => self.out.extend(['\\', c]),
        }
    }

    /// `\b` or `\B` between ASCII letters. The plain engine has no such boundary inside of UTF-8 text.
    fn ascii_boundary(&mut self, is_boundary: bool) {
        let (same, other) = if is_boundary { ("(?!", "(?=") } else { ("(?=", "(?!") };
        let word = ASCII_WORD;
        self.out.push_str(&format!("(?:(?<=[{word}]){same}[{word}])|(?<![{word}]){other}[{word}]))"));
    }

    /// Whether two octal digits follow. If so, the three digits together are a character, not the number of a
    /// group.
    fn is_long_octal(&self) -> bool {
        let mut rest = self.rest.clone();
        (0..2).all(|_| rest.next().is_some_and(|c| c.is_digit(8)))
    }

    /// The character of an octal digit and up to `more` that follow.
    fn octal(&mut self, first: char, more: usize) {
        let mut code = first.to_digit(8).unwrap_or_default();
        for _ in 0..more {
            match self.rest.peek().and_then(|c| c.to_digit(8)) {
                Some(digit) => code = code * 8 + digit,
                None => break,
            }
            self.rest.next();
        }
        self.out.push_str(&format!("\\x{{{code:x}}}"));
    }

    fn comment(&mut self) {
        while self.rest.next().is_some_and(|c| c != ')') {}
    }

    /// `{m}`, `{m,}`, `{,n}` and `{m,n}` repeat. Python reads any other brace as text.
    fn repetition(&mut self) {
        let inner: String = self.rest.clone().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        let closed = self.rest.clone().nth(inner.len()) == Some('}');
        let bounds = inner.split(',').count();
        if !closed || inner.is_empty() || bounds > 2 {
            self.out.push_str(r"\{");
            return;
        }
        let from_zero = if inner.starts_with(',') { "0" } else { "" };
        self.out.push_str(&format!("{{{from_zero}{inner}}}"));
        self.rest.nth(inner.len());
        self.possessive();
    }

    /// A set of characters. Python has neither nested sets nor the operators `&&`, `--` and `~~`.
    fn class(&mut self) {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        while let Some(c) = self.rest.next() {
            if c == ']' && !first {
                self.out.push(']');
                return;
            }
            first = false;
            self.member(c);
            if self.rest.peek() == Some(&'-') && self.rest.clone().nth(1).is_some_and(|c| c != ']') {
                self.rest.next();
                self.out.push('-');
                if let Some(end) = self.rest.next() {
                    self.member(end);
                }
            }
        }
    }

    fn member(&mut self, c: char) {
        match c {
            '\\' => match self.rest.next() {
                Some('b') => self.out.push_str(r"\x08"),
                Some(digit @ ('0'..='7')) => self.octal(digit, 2),
                Some(c) => self.escaped(c),
                None => self.out.push('\\'),
            },
            '[' | ']' | '&' | '~' | '-' | '^' => self.out.extend(['\\', c]),
            _ => self.out.push(c),
        }
    }
}
