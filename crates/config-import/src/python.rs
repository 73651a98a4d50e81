//! Reads the assignments of a Python file whose values are literals. Nothing is executed.

use std::iter::Peekable;
use std::str::CharIndices;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    None,
    Flag(bool),
    Text(String),
    /// A number as it is written.
    Number(String),
    /// A list, a tuple or a set.
    List(Vec<Literal>),
    /// An expression, a dictionary, or anything else that only Python can evaluate.
    Computed,
}

/// `name = value` at the top level of a file, or in a block below a condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: Literal,
    /// Whether it is in a block that Python may not run.
    pub(crate) is_conditional: bool,
    /// The line, counted from 1.
    pub(crate) line: usize,
}

/// Deepest nesting of lists that is read.
const DEPTH_MAX: usize = 32;

/// How the lines begin whose blocks belong to the top level, but may not be run.
const CONDITIONS: [&str; 9] = ["if", "elif", "else", "try", "except", "finally", "for", "while", "with"];

/// All assignments to plain names that begin at the start of a line. Below a condition, only those to names in
/// capitals, as settings are written.
pub(crate) fn assignments(text: &str) -> Vec<Assignment> {
    let mut found = Vec::new();
    let mut offset = 0;
    let mut line = 1;
    let mut is_conditional = false;
    while offset < text.len() {
        let rest = &text[offset..];
        let mut next = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let statement = rest[..next].trim_start_matches([' ', '\t']);
        let is_indented = statement.len() < next;
        if !is_indented && !statement.starts_with(['#', '\r', '\n']) {
            is_conditional = CONDITIONS.contains(&word(statement));
        }
        let is_block = is_indented && is_conditional;
        let found_here = if is_block { assignment(statement) } else { assignment(&rest[..next]) };
        if let Some((name, value)) = found_here.filter(|(name, _)| !is_block || is_in_capitals(name)) {
            let start = next - value.len();
            let (value, used) = literal(&rest[start..]);
            found.push(Assignment { name: name.to_owned(), value, is_conditional: is_block, line });
            // A literal may span several lines.
            let end = start + used;
            next = rest[end..].find('\n').map_or(rest.len(), |more| end + more + 1).max(next);
        } else if let Some(skipped) = long_string(rest) {
            next = rest[skipped..].find('\n').map_or(rest.len(), |more| skipped + more + 1);
        }
        line += rest[..next].matches('\n').count();
        offset += next;
    }
    found
}

/// The word with which a text begins.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

fn is_in_capitals(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_lowercase())
}

/// The name, and the text after the `=`.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_at(word(line).len());
    let value = rest.trim_start_matches([' ', '\t']).strip_prefix('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_name && !value.starts_with('=')).then_some((name, value))
}

/// The length of a triple-quoted string that begins here.
fn long_string(text: &str) -> Option<usize> {
    let quotes = ["\"\"\"", "'''"].into_iter().find(|quotes| text.starts_with(quotes))?;
    Some(text[3..].find(quotes).map_or(text.len(), |end| end + 6))
}

/// Reads a value. Returns it with the number of bytes that were read.
fn literal(text: &str) -> (Literal, usize) {
    let mut reader = Reader { text, chars: text.char_indices().peekable() };
    let value = reader.value(0);
    // Any text after a literal on its line makes it part of an expression.
    reader.blanks(false);
    let is_whole = matches!(reader.peek(), None | Some('\n' | '\r' | ';'));
    let used = reader.offset();
    (if is_whole { value } else { Literal::Computed }, used)
}

struct Reader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    fn offset(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    /// Skips blanks and comments, and inside brackets also line ends.
    fn blanks(&mut self, is_inside: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => while self.chars.next_if(|(_, c)| *c != '\n').is_some() {},
                '\\' => {
                    self.chars.next();
                    self.chars.next_if(|(_, c)| *c == '\n');
                }
                '\n' | '\r' if !is_inside => return,
                c if c.is_whitespace() => _ = self.chars.next(),
                _ => return,
            }
        }
    }

    fn value(&mut self, depth: usize) -> Literal {
        self.blanks(depth > 0);
        match self.peek() {
            Some('\'' | '"') => self.texts(depth, false),
            Some('[') if depth < DEPTH_MAX => self.list(']', depth),
            Some('(') if depth < DEPTH_MAX => self.list(')', depth),
            Some(c) if c.is_ascii_digit() || "+-.".contains(c) => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.word(depth),
            _ => Literal::Computed,
        }
    }

    /// Reads adjacent strings as one string, as Python does.
    fn texts(&mut self, depth: usize, is_raw: bool) -> Literal {
        let mut all = String::new();
        let mut raw = is_raw;
        while let Some('\'' | '"') = self.peek() {
            match self.text(raw) {
                Some(text) => all.push_str(&text),
                None => return Literal::Computed,
            }
            raw = false;
            self.blanks(depth > 0);
        }
        Literal::Text(all)
    }

    fn text(&mut self, is_raw: bool) -> Option<String> {
        let start = self.offset();
        let quote = self.peek()?;
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let is_long = self.text[start..].starts_with(&triple);
        for _ in 0..if is_long { 3 } else { 1 } {
            self.chars.next();
        }
        let mut out = String::new();
        loop {
            let at = self.offset();
            if is_long && self.text[at..].starts_with(&triple) {
                self.chars.nth(2);
                return Some(out);
            }
            match self.chars.next()?.1 {
                c if c == quote && !is_long => return Some(out),
                '\n' if !is_long => return None,
                '\\' if !is_raw => out.extend(escaped(self.chars.next()?.1)?),
                '\\' => out.extend(['\\', self.chars.next()?.1]),
                c => out.push(c),
            }
        }
    }

    fn list(&mut self, end: char, depth: usize) -> Literal {
        self.chars.next();
        let mut items = Vec::new();
        let mut is_list = end == ']';
        let mut is_computed = false;
        loop {
            self.blanks(true);
            if self.chars.next_if(|(_, c)| *c == end).is_some() {
                break;
            }
            let item = self.value(depth + 1);
            is_computed |= item == Literal::Computed;
            items.push(item);
            self.blanks(true);
            if self.chars.next_if(|(_, c)| *c == ',').is_some() {
                is_list = true;
            } else if self.peek() != Some(end) {
                self.skip_to(end);
                return Literal::Computed;
            }
        }
        match items.len() {
            _ if is_computed => Literal::Computed,
            // Brackets around a single value do not make it a tuple.
            1 if !is_list => items.swap_remove(0),
            _ => Literal::List(items),
        }
    }

    /// Skips text that cannot be read, up to the bracket that closes it.
    fn skip_to(&mut self, end: char) {
        let mut open = 1;
        while let Some(c) = self.peek() {
            match c {
                '\'' | '"' => {
                    if self.text(false).is_none() {
                        return;
                    }
                    continue;
                }
                '[' | '(' | '{' => open += 1,
                ']' | ')' | '}' => open -= 1,
                _ => {}
            }
            self.chars.next();
            if open == 0 && c == end {
                return;
            }
        }
    }

    fn number(&mut self) -> Literal {
        let start = self.offset();
        while self.chars.next_if(|(_, c)| c.is_ascii_alphanumeric() || "+-._".contains(*c)).is_some() {}
        let end = self.offset();
        let number = self.text[start..end].replace('_', "");
        match number.parse::<f64>() {
            Ok(_) => Literal::Number(number),
            Err(_) => Literal::Computed,
        }
    }

    fn word(&mut self, depth: usize) -> Literal {
        let start = self.offset();
        while self.chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_').is_some() {}
        let end = self.offset();
        let word = &self.text[start..end];
        if let (Some('\'' | '"'), "r" | "R" | "u" | "U" | "b" | "B") = (self.peek(), word) {
            return self.texts(depth, word.eq_ignore_ascii_case("r"));
        }
        match word {
            "None" => Literal::None,
            "True" => Literal::Flag(true),
            "False" => Literal::Flag(false),
            _ => {
                if let Some(open @ ('(' | '[')) = self.peek() {
                    self.chars.next();
                    self.skip_to(if open == '(' { ')' } else { ']' });
                }
                Literal::Computed
            }
        }
    }
}

/// The character that a backslash followed by `c` stands for: `Some(None)` if it stands for no character, at
/// the end of a line; `None` for escapes that are not supported, such as character codes.
fn escaped(c: char) -> Option<Option<char>> {
    Some(Some(match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '\n' => return Some(None),
        'x' | 'u' | 'U' | 'N' | '0'..='7' => return None,
        '\\' | '\'' | '"' => c,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Literal {
        let mut found = assignments(&format!("A = {text}\nB = 1\n"));
        assert_eq!(found.len(), 2, "{text}: {found:?}");
        found.swap_remove(0).value
    }

    #[test]
    fn literals_are_read_and_nothing_else() {
        let text = |text: &str| Literal::Text(text.to_owned());
        for (source, value) in [
            ("'a'", text("a")),
            ("\"a # b\"  # c", text("a # b")),
            ("('a'\n     'b')", text("ab")),
            ("r'a\\d'", text("a\\d")),
            ("'a\\'b'", text("a'b")),
            ("\"\"\"a\nb\"\"\"", text("a\nb")),
            ("True", Literal::Flag(true)),
            ("None", Literal::None),
            ("-1.5e3", Literal::Number("-1.5e3".to_owned())),
            ("['a',  # first\n  'b',\n]", Literal::List(vec![text("a"), text("b")])),
            ("('a',)", Literal::List(vec![text("a")])),
            ("[]", Literal::List(vec![])),
            ("os.environ['A']", Literal::Computed),
            ("'a' + 'b'", Literal::Computed),
            ("60 * 60", Literal::Computed),
            ("[join(ROOT, 'a\\'b'), 'c']", Literal::Computed),
            ("{'default': {'ENGINE': 'x'}}", Literal::Computed),
            ("f'{x}'", Literal::Computed),
        ] {
            assert_eq!(one(source), value, "{source}");
        }
    }

    #[test]
    fn only_the_top_level_counts() {
        let text = "\"\"\"\nX = 1\n\"\"\"\nif y:\n    A = 1\n\n# B = 2\n    a = 3\nC == 3\nD += 4\nE=5\nclass F:\n  G = 1\n";
        let found = assignments(text);
        let found: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.line, one.is_conditional)).collect();
        assert_eq!(found, [("A", 5, true), ("E", 11, false)]);
    }

    #[test]
    fn hostile_text_ends() {
        for text in
            ["A = [", "A = 'x", "A = ((((((", "A = \\", "A = [[[[\n]", "A", "A =", "'''", "A = \u{e4}("]
        {
            assignments(text);
        }
        let deep = format!("A = {}", "[".repeat(100_000));
        assignments(&deep);
    }
}
