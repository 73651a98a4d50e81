//! Recursive descent over the bytes of a target.

use super::ast::{Expr, ExprKind, Literal, Target};

/// How deep calls may be nested, pipes counted.
pub const TARGET_DEPTH_MAX: usize = 64;

/// The longest target that is read.
pub const TARGET_BYTES_MAX: usize = 1 << 18;

/// Why a text is no target, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at character {position}")]
pub struct ParseError {
    /// What is wrong.
    pub reason: String,
    /// Characters before the place, plus one.
    pub position: usize,
}

/// Reads a target.
pub fn parse(text: &str) -> Result<Target, ParseError> {
    let mut parser = Parser { text, at: 0 };
    if text.len() > TARGET_BYTES_MAX {
        return Err(parser.error(format!("target is longer than {TARGET_BYTES_MAX} bytes")));
    }
    let (expr, _) = parser.expression(0)?;
    parser.end()?;
    Ok(Target { text: text.to_owned(), expr })
}

/// The expression at the beginning of a text, whatever follows; as Graphite looks into names. A call
/// that is not closed is read as a path.
pub(crate) fn parse_beginning(text: &str) -> Option<Expr> {
    if text.len() > TARGET_BYTES_MAX {
        return None;
    }
    let expression = Parser { text, at: 0 }.expression(0).map(|(expr, _)| expr);
    expression.or_else(|_| Parser { text, at: 0 }.path()).ok()
}

/// An expression and the height of its tree.
type Tall<T> = (T, usize);

type Parsed<T> = Result<T, ParseError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    /// `(template | call | path) { "|" call }`
    fn expression(&mut self, depth: usize) -> Parsed<Tall<Expr>> {
        self.blanks();
        if matches!(self.peek(), Some(b'"' | b'\'')) {
            return Err(self.error("a target cannot be a string; expected a path or a function"));
        }
        let start = self.at;
        let first = match self.call_head() {
            Some(name) => self.call(name, start, depth)?,
            None => (self.path()?, 1),
        };
        self.pipes(first, depth)
    }

    fn pipes(&mut self, first: Tall<Expr>, depth: usize) -> Parsed<Tall<Expr>> {
        let (mut left, mut height) = first;
        loop {
            let before = self.at;
            self.blanks();
            if !self.take(b'|') {
                self.at = before;
                return Ok((left, height));
            }
            self.blanks();
            let start = self.at;
            let Some(name) = self.call_head() else {
                return Err(self.error("expected a function call after |"));
            };
            let (call, call_height) = self.call(name, start, depth)?;
            height = call_height.max(height + 1);
            self.check_depth(depth + height)?;
            left = self.with_first_argument(call, left)?;
        }
    }

    fn with_first_argument(&self, call: Expr, first: Expr) -> Parsed<Expr> {
        let span = first.span.start..call.span.end;
        match call.kind {
            ExprKind::Call { name, mut args, kwargs } => {
                args.insert(0, first);
                Ok(Expr { span, kind: ExprKind::Call { name, args, kwargs } })
            }
            _ => Err(self.error_at("template() cannot stand after |", call.span.start)),
        }
    }

    /// A function's name, when an opening bracket follows; both are consumed.
    fn call_head(&mut self) -> Option<String> {
        let start = self.at;
        let name = self.identifier()?.to_owned();
        self.blanks();
        if self.take(b'(') {
            return Some(name);
        }
        self.at = start;
        None
    }

    fn call(&mut self, name: String, start: usize, depth: usize) -> Parsed<Tall<Expr>> {
        self.check_depth(depth + 1)?;
        let (mut args, mut kwargs, mut tallest) = (Vec::new(), Vec::new(), 0);
        self.blanks();
        if !self.take(b')') {
            loop {
                self.blanks();
                let key_at = self.at;
                let key = self.keyword();
                let ((value, height), at) = (self.argument(depth + 1)?, key_at);
                tallest = tallest.max(height);
                match key {
                    Some(key) => kwargs.push((key, value)),
                    None if kwargs.is_empty() => args.push(value),
                    None => return Err(self.error_at("a positional argument after a keyword argument", at)),
                }
                self.blanks();
                if self.take(b')') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.error(format!("expected , or ) in the arguments of {name}")));
                }
            }
        }
        let span = start..self.at;
        let kind = if name == "template" {
            self.template(args, kwargs, start)?
        } else {
            ExprKind::Call { name, args, kwargs }
        };
        Ok((Expr { span, kind }, tallest + 1))
    }

    /// `template(body, "v")` or `template(body, x="v")`.
    fn template(&self, args: Vec<Expr>, kwargs: Vec<(String, Expr)>, start: usize) -> Parsed<ExprKind> {
        let mixed = args.len() > 1 && !kwargs.is_empty();
        let mut args = args.into_iter();
        let Some(body) = args.next().filter(|body| !mixed && !matches!(body.kind, ExprKind::Literal(_)))
        else {
            return Err(self.error_at(
                "template() takes a path or a call, then either positional or keyword parameters",
                start,
            ));
        };
        let positional = args.enumerate().map(|(i, value)| ((i + 1).to_string(), value));
        let mut params = Vec::new();
        for (name, value) in positional.chain(kwargs) {
            match value.kind {
                ExprKind::Literal(
                    literal @ (Literal::Integer(_) | Literal::Float(_) | Literal::String(_)),
                ) => params.push((name, literal)),
                _ => {
                    let place = value.span.start;
                    return Err(self.error_at("template() parameters are strings or numbers", place));
                }
            }
        }
        Ok(ExprKind::Template { body: Box::new(body), params })
    }

    /// A string, a word that stands for a constant, or an expression.
    fn argument(&mut self, depth: usize) -> Parsed<Tall<Expr>> {
        self.blanks();
        let start = self.at;
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            let text = self.string(quote)?;
            let kind = ExprKind::Literal(Literal::String(text));
            return Ok((Expr { span: start..self.at, kind }, 1));
        }
        if let Some(literal) = self.constant() {
            return Ok((Expr { span: start..self.at, kind: ExprKind::Literal(literal) }, 1));
        }
        self.expression(depth)
    }

    /// A number, boolean, none or inf; only when the argument ends behind it, so that `1min.cpu` and
    /// `true.a` stay paths.
    fn constant(&mut self) -> Option<Literal> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-')))?;
        let behind = rest[length..].trim_start();
        if !behind.starts_with([',', ')']) {
            return None;
        }
        let literal = constant(&rest[..length])?;
        self.at += length;
        Some(literal)
    }

    /// The raw text up to the same quote. A backslash keeps a quote from ending it, and so does a second one
    /// right behind it; all of them stay.
    fn string(&mut self, quote: u8) -> Parsed<String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        while at < bytes.len() {
            match bytes[at] {
                b'\\' => at += 1,
                byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 1,
                byte if byte == quote => {
                    self.at = at + 1;
                    return Ok(self.text[start + 1..at].to_owned());
                }
                _ => {}
            }
            at += 1;
        }
        Err(self.error_at("this string is not closed", start))
    }

    /// `name =`, consumed, when it is the start of a keyword argument.
    fn keyword(&mut self) -> Option<String> {
        let start = self.at;
        let name = self.identifier()?.to_owned();
        self.blanks();
        if self.take(b'=') {
            return Some(name);
        }
        self.at = start;
        None
    }

    fn identifier(&mut self) -> Option<&str> {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let start = self.at;
        self.at += length;
        Some(&self.text[start..self.at])
    }

    /// Components between dots, each of path characters, escapes and groups in braces.
    fn path(&mut self) -> Parsed<Expr> {
        let start = self.at;
        let mut path = String::new();
        loop {
            let before = path.len();
            self.component(&mut path)?;
            if path.len() == before {
                return Err(self.empty_component(start));
            }
            let dot = self.at;
            if !self.take(b'.') {
                break;
            }
            if self.is_at_end() {
                self.at = dot;
                break;
            }
            path.push('.');
        }
        Ok(Expr { span: start..self.at, kind: ExprKind::Path(path) })
    }

    fn component(&mut self, path: &mut String) -> Parsed<()> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '{' => self.group(path)?,
                '\\' => path.push(self.escaped()?),
                _ if is_path_char(c) => {
                    path.push(c);
                    self.at += c.len_utf8();
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// `{a,b{c,d}}`, copied without its blanks; what it means is the glob's business.
    fn group(&mut self, path: &mut String) -> Parsed<()> {
        let start = self.at;
        let mut open = 0usize;
        while let Some(c) = self.rest().chars().next() {
            match c {
                '\\' => {
                    path.push(self.escaped()?);
                    continue;
                }
                '{' => open += 1,
                '}' => open -= 1,
                ',' | '.' => {}
                _ if c.is_ascii_whitespace() => {
                    self.at += 1;
                    continue;
                }
                _ if is_path_char(c) => {}
                _ => return Err(self.error(format!("{c:?} cannot stand between braces"))),
            }
            path.push(c);
            self.at += c.len_utf8();
            if open == 0 {
                return Ok(());
            }
        }
        Err(self.error_at("this brace is not closed", start))
    }

    fn escaped(&mut self) -> Parsed<char> {
        match self.rest().chars().nth(1) {
            Some(c) if is_symbol(c) || c == '=' => {
                self.at += 2;
                Ok(c)
            }
            _ => Err(self.error("a backslash escapes one of ( ) { } , . ' \" \\ | =")),
        }
    }

    fn empty_component(&self, start: usize) -> ParseError {
        if self.at > start {
            return self.error("empty path component");
        }
        match self.rest().chars().next() {
            Some('.') => self.error("empty path component"),
            Some(c) => self.error(format!("unexpected {c:?}, expected a path or a function")),
            None => self.error("the text ends where a path or a function was expected"),
        }
    }

    /// Blanks may follow a target, and what people leave behind without meaning anything by it: a
    /// last dot, one bracket too many.
    fn end(&mut self) -> Parsed<()> {
        self.take(b'.');
        self.blanks();
        self.take(b')');
        self.blanks();
        match self.rest().chars().next() {
            None => Ok(()),
            Some(c) => Err(self.error(format!("unexpected {c:?} after the end of the expression"))),
        }
    }

    fn check_depth(&self, depth: usize) -> Parsed<()> {
        if depth > TARGET_DEPTH_MAX {
            return Err(self.error(format!("calls are nested deeper than {TARGET_DEPTH_MAX}")));
        }
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.rest().trim_ascii_start().is_empty()
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn error(&self, reason: impl Into<String>) -> ParseError {
        self.error_at(reason, self.at)
    }

    fn error_at(&self, reason: impl Into<String>, at: usize) -> ParseError {
        let position = self.text[..at].chars().count() + 1;
        ParseError { reason: reason.into(), position }
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '(' | ')' | '{' | '}' | ',' | '.' | '\'' | '"' | '\\' | '|')
}

fn is_path_char(c: char) -> bool {
    !is_symbol(c) && !c.is_whitespace() && !c.is_control()
}

fn constant(text: &str) -> Option<Literal> {
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return number(text);
    }
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(Literal::Boolean(true)),
        "false" => Some(Literal::Boolean(false)),
        "none" => Some(Literal::None),
        "inf" => Some(Literal::Float(f64::INFINITY)),
        _ => None,
    }
}

/// `-?digits`, `-?digits.digits`, either with an exponent `e-?digits`.
fn number(text: &str) -> Option<Literal> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_whole = |part: &str| is_digits(part.strip_prefix('-').unwrap_or(part));
    if !is_whole(whole) || !fraction.is_none_or(is_digits) || !exponent.is_none_or(is_whole) {
        return None;
    }
    if fraction.is_none()
        && exponent.is_none()
        && let Ok(integer) = text.parse()
    {
        return Some(Literal::Integer(integer));
    }
    text.parse().ok().map(Literal::Float)
}
