//! A recursive descent parser for targets.

use super::ast::{Expr, ExprKind, Literal, Target};

/// The deepest nesting of calls. Pipes count.
pub const TARGET_DEPTH_MAX: usize = 64;

/// The longest target, in bytes.
pub const TARGET_BYTES_MAX: usize = 1 << 18;

/// Why a text is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at character {position}")]
pub struct ParseError {
    /// What is wrong.
    pub reason: String,
    /// The position of the error, counted in characters from 1.
    pub position: usize,
    /// What could stand there instead, if that is known.
    pub expected: Option<&'static str>,
}

/// What an expression begins with.
pub(crate) const EXPRESSION: &str = "a path or a function";

/// Parses a target.
///
/// # Errors
///
/// Returns [`ParseError`] if the text is not a target, if it is too long, or if its calls are nested too
/// deeply.
pub fn parse(text: &str) -> Result<Target, ParseError> {
    let mut parser = Parser { text, at: 0, is_lenient: false };
    if text.len() > TARGET_BYTES_MAX {
        return Err(parser.error(format!("target is longer than {TARGET_BYTES_MAX} bytes")));
    }
    let (expr, _) = parser.expression(0)?;
    parser.end()?;
    Ok(Target { text: text.to_owned(), expr })
}

/// Parses the beginning of a text and ignores the rest. graphite-web does so with names, and with targets that
/// its functions make from names. An unclosed call is read as a path. A path ends before a component that
/// cannot be read.
///
/// # Errors
///
/// Returns [`ParseError`] if the text does not begin with a path.
pub(crate) fn parse_beginning(text: &str) -> Result<Target, ParseError> {
    let parser = || Parser { text, at: 0, is_lenient: true };
    if text.len() > TARGET_BYTES_MAX {
        return Err(parser().error(format!("target is longer than {TARGET_BYTES_MAX} bytes")));
    }
    let expression = parser().expression(0).map(|(expr, _)| expr);
    let expr = expression.or_else(|error| parser().path().map_err(|_| error))?;
    Ok(Target { text: text.to_owned(), expr })
}

/// An expression and the height of its tree.
type Tall<T> = (T, usize);

type Parsed<T> = Result<T, ParseError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Whether a path ends before a component that cannot be read. If not, such a component is an error.
    is_lenient: bool,
}

impl Parser<'_> {
    /// `(template | call | path) { "|" call }`
    fn expression(&mut self, depth: usize) -> Parsed<Tall<Expr>> {
        self.blanks();
        if matches!(self.peek(), Some(b'"' | b'\'')) {
            let reason = "a target cannot be a string; expected a path or a function";
            return Err(self.error(reason).expecting(EXPRESSION));
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
                return Err(self.error("expected a function call after |").expecting("a function call"));
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
            _ => {
                let error = self.error_at("template() cannot stand after |", call.span.start);
                Err(error.expecting("a function call"))
            }
        }
    }

    /// Reads the name of a function and its opening bracket, if both are there.
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
                    None => {
                        let error = self.error_at("a positional argument after a keyword argument", at);
                        return Err(error.expecting("a keyword argument (name=value)"));
                    }
                }
                self.blanks();
                if self.take(b')') {
                    break;
                }
                if !self.take(b',') {
                    let error = self.error(format!("expected , or ) in the arguments of {name}"));
                    return Err(error.expecting(", or )"));
                }
            }
        }
        if self.is_lenient && args.is_empty() && !kwargs.is_empty() {
            // graphite-web's grammar has no such call.
            return Err(self.error("expected a positional argument").expecting("a positional argument"));
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
            let reason = "template() takes a path or a call, then either positional or keyword parameters";
            let error = self.error_at(reason, start);
            return Err(error.expecting("a path or a call, then either positional or keyword parameters"));
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
                    let error = self.error_at("template() parameters are strings or numbers", place);
                    return Err(error.expecting("a string or a number"));
                }
            }
        }
        Ok(ExprKind::Template { body: Box::new(body), params })
    }

    /// A string, a constant, or an expression.
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

    /// Reads a number, boolean, none or inf. It must end the argument, so that `1min.cpu` and `true.a` are
    /// paths.
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

    /// Reads a string up to the same quote. A backslash, or a second quote right after it, keeps a quote from
    /// ending the string. All these characters stay in the text.
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
        let closing = if quote == b'"' { "a closing \"" } else { "a closing '" };
        Err(self.error_at("this string is not closed", start).expecting(closing))
    }

    /// Reads `name =` if it begins a keyword argument.
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

    /// Reads components between dots. A component has path characters, escapes and groups in braces.
    fn path(&mut self) -> Parsed<Expr> {
        let start = self.at;
        let (mut path, mut last_dot) = (String::new(), start);
        loop {
            let before = path.len();
            self.component(&mut path)?;
            if path.len() == before {
                if self.is_lenient && before > 0 {
                    path.pop();
                    self.at = last_dot;
                    break;
                }
                return Err(self.empty_component(start));
            }
            last_dot = self.at;
            if !self.take(b'.') {
                break;
            }
            if self.is_at_end() {
                self.at = last_dot;
                break;
            }
            path.push('.');
        }
        Ok(Expr { span: start..self.at, kind: ExprKind::Path(path) })
    }

    fn component(&mut self, path: &mut String) -> Parsed<()> {
        while let Some(c) = self.rest().chars().next() {
            let (at, length) = (self.at, path.len());
            let read = match c {
                '{' => self.group(path),
                '\\' => self.escaped().map(|c| path.push(c)),
                _ if is_path_char(c) => {
                    path.push(c);
                    self.at += c.len_utf8();
                    Ok(())
                }
                _ => break,
            };
            if read.is_err() && self.is_lenient {
                self.at = at;
                path.truncate(length);
                break;
            }
            read?;
        }
        Ok(())
    }

    /// Copies a group such as `{a,b{c,d}}` without blanks. Its meaning is that of the glob.
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
                _ => {
                    let error = self.error(format!("{c:?} is not allowed between braces"));
                    return Err(error.expecting("a part of a name, a comma or }"));
                }
            }
            path.push(c);
            self.at += c.len_utf8();
            if open == 0 {
                return Ok(());
            }
        }
        Err(self.error_at("this brace is not closed", start).expecting("a closing }"))
    }

    fn escaped(&mut self) -> Parsed<char> {
        match self.rest().chars().nth(1) {
            Some(c) if is_symbol(c) || c == '=' => {
                self.at += 2;
                Ok(c)
            }
            _ => {
                let error = self.error("a backslash escapes one of ( ) { } , . ' \" \\ | =");
                Err(error.expecting("one of ( ) { } , . ' \" \\ | = after the backslash"))
            }
        }
    }

    fn empty_component(&self, start: usize) -> ParseError {
        let next = self.rest().chars().next();
        if self.at > start || next == Some('.') {
            return self.error("empty path component").expecting("a component of a path");
        }
        let error = match next {
            Some(c) => self.error(format!("unexpected {c:?}, expected a path or a function")),
            None => self.error("the text ends where a path or a function was expected"),
        };
        error.expecting(EXPRESSION)
    }

    /// A target may be followed by blanks, and by common leftovers: one dot at the end, or one bracket too
    /// many.
    fn end(&mut self) -> Parsed<()> {
        self.take(b'.');
        self.blanks();
        self.take(b')');
        self.blanks();
        match self.rest().chars().next() {
            None => Ok(()),
            Some(c) => {
                let error = self.error(format!("unexpected {c:?} after the end of the expression"));
                Err(error.expecting("| or the end of the target"))
            }
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
        ParseError { reason: reason.into(), position, expected: None }
    }
}

impl ParseError {
    fn expecting(self, expected: &'static str) -> Self {
        Self { expected: Some(expected), ..self }
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

/// Parses `-?digits` or `-?digits.digits`, with or without an exponent `e-?digits`.
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
