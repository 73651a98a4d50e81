//! Patterns in Python's regular expression dialect, searched in names.
//!
//! Most patterns mean the same to the `regex` crate, which is fast and cannot blow up. What Python
//! spells differently is translated; look-around and back-references go to `fancy-regex`, which
//! backtracks, under a limit.

use std::borrow::Cow;
use std::iter::Peekable;
use std::ops::Range;
use std::str::Chars;
use std::sync::atomic::{AtomicU64, Ordering};

use regex::{RegexSet, RegexSetBuilder};
use regex_syntax::hir::Look;
use regex_syntax::hir::literal::Extractor;

/// Steps of backtracking allowed for one name; past that it counts as not matched.
const BACKTRACK_LIMIT: usize = 100_000;

/// Most beginnings of a pattern; one with more has none.
const BEGINNINGS_MAX: usize = 4096;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As `regex` and `fancy-regex` spell it.
    translated: String,
    engine: Engine,
}

#[derive(Debug, Clone)]
enum Engine {
    Plain(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// What the groups of one match found.
enum Groups<'t> {
    Plain(regex::Captures<'t>),
    Backtracking(fancy_regex::Captures<'t, str>),
}

impl Groups<'_> {
    fn range(&self, group: usize) -> Option<Range<usize>> {
        match self {
            Self::Plain(found) => found.get(group).map(|found| found.range()),
            Self::Backtracking(found) => found.get(group).map(|found| found.range()),
        }
    }
}

/// A pattern that no engine takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// Compiles a pattern in Python's dialect.
    pub fn new(python: &str) -> Result<Self, PatternError> {
        let translated = translate(python);
        if let Ok(regex) = regex::Regex::new(&translated) {
            return Ok(Self { translated, engine: Engine::Plain(regex) });
        }
        match fancy_regex::RegexBuilder::new(&translated).backtrack_limit(BACKTRACK_LIMIT).build() {
            Ok(regex) => Ok(Self { translated, engine: Engine::Backtracking(Box::new(regex)) }),
            Err(error) => Err(PatternError(first_line(&error.to_string()))),
        }
    }

    /// True when the pattern is found anywhere in the text; `None` when that could not be decided
    /// within the limit.
    pub fn is_match(&self, text: &str) -> Option<bool> {
        match &self.engine {
            Engine::Plain(regex) => Some(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).ok(),
        }
    }

    /// Texts of which every match has one at its beginning, when the pattern asks for a match at the
    /// start and there are not too many of them.
    pub fn beginnings(&self) -> Option<Vec<String>> {
        if !matches!(self.engine, Engine::Plain(_)) {
            return None;
        }
        let pattern = regex_syntax::parse(&self.translated).ok()?;
        if !pattern.properties().look_set_prefix().contains(Look::Start) {
            return None;
        }
        let found = Extractor::new().limit_total(BEGINNINGS_MAX).extract(&pattern);
        let texts = found.literals()?.iter().map(|text| String::from_utf8(text.as_bytes().to_vec()).ok());
        texts.collect()
    }

    /// How many groups it has, the whole match included.
    pub fn groups(&self) -> usize {
        match &self.engine {
            Engine::Plain(regex) => regex.captures_len(),
            Engine::Backtracking(regex) => regex.captures_len(),
        }
    }

    /// The number of a group that has a name.
    pub fn group(&self, name: &str) -> Option<usize> {
        match &self.engine {
            Engine::Plain(regex) => regex.capture_names().position(|group| group == Some(name)),
            Engine::Backtracking(regex) => regex.capture_names().position(|group| group == Some(name)),
        }
    }

    /// The text with every match replaced, as Python's `re.sub` does it, by what `with` appends; it is given the text of each group,
    /// empty when the group took no part. `None` when that could not be decided within the limit.
    pub fn replace_all<'t>(
        &self,
        text: &'t str,
        mut with: impl FnMut(&mut String, &dyn Fn(usize) -> &'t str),
    ) -> Option<Cow<'t, str>> {
        let (mut out, mut copied, mut at) = (String::new(), 0, 0);
        while at <= text.len() {
            let found = match &self.engine {
                Engine::Plain(regex) => regex.captures_at(text, at).map(Groups::Plain),
                Engine::Backtracking(regex) => {
                    regex.captures_from_pos(text, at).ok()?.map(Groups::Backtracking)
                }
            };
            let Some(found) = found else { break };
            let whole = found.range(0)?;
            out.push_str(&text[copied..whole.start]);
            with(&mut out, &|group| found.range(group).map_or("", |range| &text[range]));
            (copied, at) = (whole.end, whole.end);
            if whole.is_empty() {
                // The next match is behind the next character; an empty one right behind another counts.
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        if out.is_empty() && copied == 0 {
            return Some(Cow::Borrowed(text));
        }
        out.push_str(&text[copied..]);
        Some(Cow::Owned(out))
    }

    /// True when it is found in every text.
    fn matches_all(&self) -> bool {
        matches!(self.translated.as_str(), ".*" | "^.*" | ".*$" | "^.*$" | "^" | "$")
    }
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

/// Patterns in order, of which the first that matches counts. One pass over the name serves all
/// plain ones.
#[derive(Debug, Default)]
pub(super) struct FirstMatch {
    plain: RegexSet,
    /// The place of each pattern of `plain`.
    plain_places: Vec<usize>,
    backtracking: Vec<(usize, Pattern)>,
    /// The place of the first pattern that matches everything; those after it are never asked.
    catch_all: Option<usize>,
    gave_up: AtomicU64,
}

impl FirstMatch {
    pub(super) fn new(patterns: Vec<Pattern>) -> Result<Self, PatternError> {
        let catch_all = patterns.iter().position(Pattern::matches_all);
        let (mut plain, mut plain_places, mut backtracking) = (Vec::new(), Vec::new(), Vec::new());
        for (place, pattern) in patterns.into_iter().enumerate().take(catch_all.unwrap_or(usize::MAX)) {
            match pattern.engine {
                Engine::Plain(_) => {
                    plain_places.push(place);
                    plain.push(pattern.translated);
                }
                Engine::Backtracking(_) => backtracking.push((place, pattern)),
            }
        }
        // Each pattern alone passed the crate's limit; together they may be larger.
        let plain = RegexSetBuilder::new(plain)
            .size_limit(512 << 20)
            .dfa_size_limit(16 << 20)
            .build()
            .map_err(|error| PatternError(first_line(&error.to_string())))?;
        Ok(Self { plain, plain_places, backtracking, catch_all, gave_up: AtomicU64::new(0) })
    }

    /// The place of the first pattern that matches.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let mut best = self.catch_all;
        if !self.plain.is_empty() {
            best = self.plain.matches(name).iter().next().map(|i| self.plain_places[i]).or(best);
        }
        for (place, pattern) in &self.backtracking {
            if best.is_some_and(|best| best < *place) {
                break;
            }
            match pattern.is_match(name) {
                Some(true) => return Some(*place),
                Some(false) => {}
                None => {
                    self.gave_up.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        best
    }

    pub(super) fn gave_up(&self) -> u64 {
        self.gave_up.load(Ordering::Relaxed)
    }
}

/// Rewrites what Python spells differently. Text that neither understands is passed on, so that the
/// engine complains of it.
fn translate(python: &str) -> String {
    let mut translator = Translator { rest: python.chars().peekable(), out: String::new() };
    while let Some(c) = translator.rest.next() {
        translator.one(c);
    }
    translator.out
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
}

impl Translator<'_> {
    fn one(&mut self, c: char) {
        match c {
            '\\' => self.escape(false),
            '[' => self.class(),
            '{' => self.repetition(),
            '(' if self.ahead("?#") => self.comment(),
            _ => self.out.push(c),
        }
    }

    fn ahead(&self, text: &str) -> bool {
        let mut rest = self.rest.clone();
        text.chars().all(|c| rest.next() == Some(c))
    }

    fn escape(&mut self, in_class: bool) {
        match self.rest.next() {
            Some('Z') if !in_class => self.out.push_str(r"\z"),
            Some('b') if in_class => self.out.push_str(r"\x08"),
            Some('0') => self.octal(),
            // To Rust these two are word boundaries, to Python themselves.
            Some(c @ ('<' | '>')) => self.out.push(c),
            Some(c) if !c.is_ascii() => self.out.push(c),
            Some(c) => self.out.extend(['\\', c]),
            None => self.out.push('\\'),
        }
    }

    /// `\0` and up to two more octal digits.
    fn octal(&mut self) {
        let mut code = 0;
        for _ in 0..2 {
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

    /// `{m}`, `{m,}`, `{,n}`, `{m,n}` repeat; any other brace is text to Python.
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
    }

    /// A set. Python knows neither nested sets nor `&&`, `--` and `~~`.
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
            '\\' => self.escape(true),
            '[' | ']' | '&' | '~' | '-' | '^' => self.out.extend(['\\', c]),
            _ => self.out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::new(pattern).unwrap();
        for text in matching {
            assert_eq!(compiled.is_match(text), Some(true), "{pattern} in {text}");
        }
        for text in others {
            assert_eq!(compiled.is_match(text), Some(false), "{pattern} in {text}");
        }
    }

    #[test]
    fn beginnings() {
        let of = |pattern: &str| Pattern::new(pattern).unwrap().beginnings();
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(of("^(a.*)"), texts(&["a"]));
        assert_eq!(of("^((web|db)-[12]$)"), texts(&["web-1", "web-2", "db-1", "db-2"]));
        assert_eq!(of("^(\u{e4}|x?y)"), texts(&["\u{e4}", "xy", "y"]));
        for unknown in ["a", "^a|b", "^(.*b)", "^(?=a)", "(?:^a|)b"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    /// As `re.sub` since Python 3.7.
    #[test]
    fn replacing() {
        for (pattern, text, replaced) in [
            ("a", "banana", "b<a>n<a>n<a>"),
            (".*", "abc", "<abc><>"),
            ("x*", "abxd", "<>a<>b<x><>d<>"),
            ("^", "ab", "<>ab"),
            ("$", "ab", "ab<>"),
            ("(?<=b)", "\u{e4}b\u{e4}", "\u{e4}b<>\u{e4}"),
            ("z", "ab", "ab"),
            ("x*", "", "<>"),
        ] {
            let with = |out: &mut String, group: &dyn Fn(usize) -> &'static str| {
                out.push('<');
                out.push_str(group(0));
                out.push('>');
            };
            let compiled = Pattern::new(pattern).unwrap();
            assert_eq!(compiled.replace_all(text, with).as_deref(), Some(replaced), "{pattern} in {text}");
        }
    }

    #[test]
    fn python_spellings() {
        check(r"\Aa\Z", &["a"], &["ab", "ba"]);
        check(r"a{,2}b", &["b", "aab"], &["a"]);
        check(r"^a{2}$", &["aa"], &["a", "a{2}"]);
        check(r"x{a}", &["x{a}"], &["xa"]);
        check(r"[[]", &["["], &["a"]);
        check(r"[]a]", &["]", "a"], &["b"]);
        check(r"[^]a]", &["b"], &["]a"]);
        check(r"^[a&&b]$", &["a", "&", "b"], &["c"]);
        check(r"^[+--]$", &["+", ",", "-"], &["."]);
        check(r"^[\w-]+$", &["a-b"], &["a.b"]);
        check(r"\<a\>", &["<a>"], &["a"]);
        check(r"a(?#no, really)b", &["ab"], &["a"]);
        check(r"(?i)CPU", &["cpu"], &["cup"]);
        check(r"(?P<x>a)(?P=x)", &["aa"], &["ab"]);
    }

    #[test]
    fn look_around_and_back_references() {
        check(r"^(?!carbon\.)", &["servers.a"], &["carbon.a"]);
        check(r"(?<!\.5)\.max$", &["a.max"], &["a.5.max"]);
        check(r"^(\w+)\.\1\.", &["a.a.b"], &["a.b.b"]);
    }

    #[test]
    fn replacing_what_was_found() {
        for (pattern, text, expected) in [
            (r"(\w+)\.(\w+)", "a.b.c.d", "<b><a>.<d><c>"),
            (r"(?P<x>a)(b)?", "a.c", "<><a>.c"),
            (r"(?<=\.)(a)(b)", "ab.ab", "ab.<b><a>"),
            (r"x(y)(z)", "a.b", "a.b"),
            (r"^()()", "a", "<><>a"),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            let replaced = pattern.replace_all(text, |out, group| {
                out.push_str(&format!("<{}><{}>", group(2), group(1)));
            });
            assert_eq!(replaced.as_deref(), Some(expected), "{text}");
            assert_eq!(pattern.groups(), 3);
        }
        assert_eq!(Pattern::new(r"(a)(?P<x>b)").unwrap().group("x"), Some(2));
        let slow = Pattern::new(r"^((a|aa)*)*\1b$").unwrap();
        assert_eq!(slow.replace_all(&("a".repeat(40) + "c"), |_, _| {}), None);
    }

    #[test]
    fn what_python_refuses() {
        for pattern in ["*.cpu", "(", "[a", "a)", r"(?P=x)", r"\"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_explodes_gives_up() {
        let pattern = Pattern::new(r"^((a|aa)*)*\1b$").unwrap();
        assert_eq!(pattern.is_match(&("a".repeat(40) + "c")), None);
    }

    proptest! {
        #[test]
        fn any_text_compiles_or_is_refused(pattern in "[\\[\\]\\\\(){}^$.*+?|&~a-c0-9,#:!<=P-]{0,24}", name in "[a-c.]{0,8}") {
            if let Ok(compiled) = Pattern::new(&pattern) {
                compiled.is_match(&name);
            }
        }

        #[test]
        fn the_first_match_is_what_a_loop_finds(picks in prop::collection::vec(0usize..8, 0..8), name in "[a-c.]{0,8}") {
            let all = ["a", "^b", "c$", ".*", r"(?!a)b", r"(\w)\1", r"\.", "[^a]"];
            let patterns: Vec<Pattern> = picks.iter().map(|i| Pattern::new(all[*i]).unwrap()).collect();
            let expected = patterns.iter().position(|p| p.is_match(&name) == Some(true));
            prop_assert_eq!(FirstMatch::new(patterns).unwrap().find(&name), expected);
        }
    }
}
