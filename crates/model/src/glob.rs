//! Globs over dotted names.
//!
//! The grammar is Graphite's. A pattern is split at its dots, and each part matches one component: `*`
//! matches any text, `?` one character, `[abc]`, `[a-z]` and `[!x]` one of a class. `{a,b}` is replaced by
//! each alternative before anything else. `**` alone matches any number of components. A bracket or brace
//! that is not closed is plain text. A backslash makes the punctuation character after it plain text.
//!
//! [`Pattern::matches`] defines what a pattern matches. The index walks its tree with the same [`Path`]s,
//! component by component.

mod braces;
mod wildcard;

use std::sync::Arc;

use braces::Symbol;
pub use wildcard::Wildcard;

/// The longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of alternatives of all braces of a pattern.
pub const ALTERNATIVES_MAX: usize = 10_000;
/// Maximum number of components of a pattern.
pub const STEPS_MAX: usize = 127;

/// Why a text cannot be used as a pattern. The only possible problem is its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// The pattern is longer than [`PATTERN_BYTES_MAX`].
    #[error("the glob is longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// The braces have more than [`ALTERNATIVES_MAX`] alternatives.
    #[error("the braces of the glob expand to more than {ALTERNATIVES_MAX} alternatives")]
    TooManyAlternatives,
    /// The alternatives are too long in total.
    #[error("the braces of the glob expand to more than {} characters", braces::SYMBOLS_MAX)]
    TooMuchText,
    /// The pattern has more than [`STEPS_MAX`] components.
    #[error("the glob has more than {STEPS_MAX} components")]
    TooDeep,
}

/// Whether a text has a glob character or a backslash. Without one it is an exact name.
pub fn has_glob(text: &str) -> bool {
    text.chars().any(is_special)
}

/// The glob that matches only this name: with a backslash before each character that has a meaning in a glob.
pub fn escaped(name: &str) -> String {
    let mut glob = String::with_capacity(name.len());
    for character in name.chars() {
        if is_special(character) {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

/// Whether a character can begin something other than plain text.
fn is_special(character: char) -> bool {
    matches!(character, '*' | '?' | '[' | '{' | '\\')
}

/// A parsed glob. It is one path, or several if alternatives have different numbers of components.
#[derive(Debug, Clone)]
pub struct Pattern {
    paths: Vec<Path>,
}

impl Pattern {
    /// Parses a glob.
    ///
    /// # Errors
    ///
    /// Returns [`GlobError`] if the pattern is too large.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(GlobError::TooLong);
        }
        let symbols = braces::symbols(text);
        let mut paths = vec![Path::default()];
        let mut alternatives = 0;
        for part in braces::split(&symbols) {
            let texts = braces::expand(part)?;
            alternatives += texts.len() - usize::from(texts.len() == 1);
            if alternatives > ALTERNATIVES_MAX {
                return Err(GlobError::TooManyAlternatives);
            }
            extend(&mut paths, texts)?;
        }
        for path in &mut paths {
            path.close()?;
        }
        paths.retain(|path| !path.steps.is_empty());
        Ok(Self { paths })
    }

    /// The pattern `**`, which matches every metric and directory.
    pub fn everything() -> Self {
        let steps = vec![Step::Levels, Step::Component(Arc::new(Component::any()))];
        Self { paths: vec![Path { steps }] }
    }

    /// The paths. A name matches the pattern if it matches one of them.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The only name that the pattern can match, if there is just one.
    pub fn literal(&self) -> Option<String> {
        let [path] = self.paths.as_slice() else { return None };
        let mut name = String::new();
        for step in &path.steps {
            let Step::Component(component) = step else { return None };
            let [text] = component.literals() else { return None };
            if !component.wildcards().is_empty() {
                return None;
            }
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(text);
        }
        Some(name)
    }

    /// Whether the pattern matches a whole name, of a metric or of a directory.
    pub fn matches(&self, name: &str) -> bool {
        self.paths.iter().any(|path| path.matches(name))
    }
}

/// Appends a part of the pattern to every path. `texts` are its alternatives.
fn extend(paths: &mut Vec<Path>, texts: Vec<Vec<Symbol>>) -> Result<(), GlobError> {
    if texts.len() == 1 || texts.iter().all(|text| is_component(text)) {
        let step = match texts.as_slice() {
            [text] if text.is_empty() => return Ok(()),
            [text] if is_levels(text) => Step::Levels,
            _ => Step::Component(Arc::new(Component::new(&texts))),
        };
        for path in paths {
            path.push(step.clone())?;
        }
        return Ok(());
    }
    // Alternatives with dots, empty ones, and `**` make separate paths.
    if paths.len().saturating_mul(texts.len()) > ALTERNATIVES_MAX {
        return Err(GlobError::TooManyAlternatives);
    }
    let mut longer = Vec::with_capacity(paths.len() * texts.len());
    for path in paths.iter() {
        for text in &texts {
            let mut path = path.clone();
            for part in text.split(|symbol| symbol.is('.')).filter(|part| !part.is_empty()) {
                path.push(if is_levels(part) {
                    Step::Levels
                } else {
                    Step::Component(Arc::new(Component::new(&[part.to_vec()])))
                })?;
            }
            longer.push(path);
        }
    }
    *paths = longer;
    Ok(())
}

fn is_levels(text: &[Symbol]) -> bool {
    matches!(text, [a, b] if a.is('*') && b.is('*'))
}

fn is_component(text: &[Symbol]) -> bool {
    !text.is_empty() && !is_levels(text) && !text.iter().any(|symbol| symbol.is('.'))
}

/// A part of a pattern between two dots.
#[derive(Debug, Clone)]
pub enum Step {
    /// `**`: any number of components, or none.
    Levels,
    /// A part that matches exactly one component.
    Component(Arc<Component>),
}

/// The position in a [`Path`] after some components of a name. It is a set of steps, because `**` can make
/// several steps possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct States(u128);

impl States {
    /// Whether no step can match the next component, so that the name does not match.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the steps that the next component may match.
    pub fn steps(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let step = (left != 0).then(|| left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            step
        })
    }

    /// The step, if there is only one.
    pub fn single(self) -> Option<usize> {
        self.0.is_power_of_two().then(|| self.0.trailing_zeros() as usize)
    }
}

/// A sequence of steps that match a name from its first to its last component.
#[derive(Debug, Clone, Default)]
pub struct Path {
    steps: Vec<Step>,
}

impl Path {
    /// The steps. The last one is never `**`.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The states before the first component.
    pub fn start(&self) -> States {
        let mut states = States::default();
        self.enter(&mut states, 0);
        states
    }

    /// The states after one more component. `matches` decides whether a step matches it.
    #[inline]
    pub fn next(&self, states: States, mut matches: impl FnMut(usize, &Component) -> bool) -> States {
        let mut next = States::default();
        for number in states.steps() {
            match self.steps.get(number) {
                Some(Step::Levels) => self.enter(&mut next, number),
                Some(Step::Component(component)) if matches(number, component) => {
                    self.enter(&mut next, number + 1);
                }
                _ => {}
            }
        }
        next
    }

    /// Whether a name that ends here matches.
    #[inline]
    pub fn accepts(&self, states: States) -> bool {
        states.0 >> self.steps.len() & 1 == 1
    }

    /// The states except the end: those in which longer names can still match.
    #[inline]
    pub fn unfinished(&self, states: States) -> States {
        States(states.0 & !(1 << self.steps.len()))
    }

    /// Whether the path matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        let mut states = self.start();
        for text in name.split('.') {
            states = self.next(states, |_, component| component.matches(text));
            if states.is_empty() {
                return false;
            }
        }
        self.accepts(states)
    }

    /// Adds a step. Because a `**` may match nothing, the step after it is added too.
    #[inline]
    fn enter(&self, states: &mut States, mut number: usize) {
        states.0 |= 1 << number;
        while matches!(self.steps.get(number), Some(Step::Levels)) {
            number += 1;
            states.0 |= 1 << number;
        }
    }

    fn push(&mut self, step: Step) -> Result<(), GlobError> {
        if self.steps.len() >= STEPS_MAX {
            return Err(GlobError::TooDeep);
        }
        let repeated = matches!((self.steps.last(), &step), (Some(Step::Levels), Step::Levels));
        if !repeated {
            self.steps.push(step);
        }
        Ok(())
    }

    /// A `**` at the end matches everything below a directory, but not the directory itself.
    fn close(&mut self) -> Result<(), GlobError> {
        if matches!(self.steps.last(), Some(Step::Levels)) {
            self.push(Step::Component(Arc::new(Component::any())))?;
        }
        Ok(())
    }
}

/// A part of a pattern that matches one component: a set of exact texts and wildcards.
#[derive(Debug, Clone, Default)]
pub struct Component {
    literals: Vec<String>,
    wildcards: Vec<Wildcard>,
}

impl Component {
    fn new(texts: &[Vec<Symbol>]) -> Self {
        let mut component = Self::default();
        for text in texts {
            match Wildcard::new(text) {
                Ok(wildcard) if wildcard.is_any() => return Self::any(),
                Ok(wildcard) => component.wildcards.push(wildcard),
                Err(literal) => component.literals.push(literal),
            }
        }
        component.literals.sort_unstable();
        component.literals.dedup();
        component
    }

    fn any() -> Self {
        Self { literals: Vec::new(), wildcards: vec![Wildcard::any()] }
    }

    /// The exact texts, sorted by their bytes, without duplicates.
    pub fn literals(&self) -> &[String] {
        &self.literals
    }

    /// The alternatives that are not exact texts.
    pub fn wildcards(&self) -> &[Wildcard] {
        &self.wildcards
    }

    /// Whether every component matches.
    pub fn is_any(&self) -> bool {
        matches!(self.wildcards.as_slice(), [only] if only.is_any())
    }

    /// The prefix that all matching components share; may be empty.
    pub fn prefix(&self) -> &str {
        match (self.literals.as_slice(), self.wildcards.as_slice()) {
            ([], [only]) => only.prefix(),
            _ => "",
        }
    }

    /// Whether a component matches.
    pub fn matches(&self, text: &str) -> bool {
        self.literals.binary_search_by(|literal| literal.as_str().cmp(text)).is_ok()
            || self.wildcards.iter().any(|wildcard| wildcard.matches(text))
    }

    /// An estimate of the characters that [`Component::matches`] compares at worst. Callers use it to limit
    /// their work.
    pub fn cost(&self, text_bytes: usize) -> usize {
        self.wildcards.iter().map(|wildcard| wildcard.cost(text_bytes)).sum()
    }
}

#[cfg(test)]
mod tests;
