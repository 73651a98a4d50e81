//! Globs over dotted names: which metrics and directories a pattern means.
//!
//! The grammar is Graphite's. A pattern is cut at its dots and each part matches one component:
//! `*` any run, `?` one character, `[abc]`, `[a-z]`, `[!x]`; `{a,b}` is replaced by each of its
//! alternatives before anything else is looked at; `**` alone stands for any number of components.
//! What is not closed is text. A backslash takes the meaning from the punctuation behind it.
//!
//! [`Pattern::matches`] is the whole truth; the index walks its tree with the same [`Path`]s, so
//! that it looks only at components and never at whole names.

mod braces;
mod wildcard;

use std::sync::Arc;

use braces::Symbol;
pub use wildcard::Wildcard;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Most alternatives that the braces of one pattern may stand for.
pub const ALTERNATIVES_MAX: usize = 10_000;
/// Most components of one pattern.
pub const STEPS_MAX: usize = 127;

/// Why a text is not usable as a pattern. Only size is an error: every text means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Longer than [`PATTERN_BYTES_MAX`].
    #[error("glob longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// Braces stand for more than [`ALTERNATIVES_MAX`] texts.
    #[error("braces of the glob stand for more than {ALTERNATIVES_MAX} alternatives")]
    TooManyAlternatives,
    /// The alternatives are too long together.
    #[error("braces of the glob stand for more than {} characters", braces::SYMBOLS_MAX)]
    TooMuchText,
    /// More than [`STEPS_MAX`] components.
    #[error("glob has more than {STEPS_MAX} components")]
    TooDeep,
}

/// False when the text is nothing but an exact name: no glob character and no backslash in it.
pub fn has_glob(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'*' | b'?' | b'[' | b'{' | b'\\'))
}

/// A parsed glob: one path, or several when alternatives differ in their number of components.
#[derive(Debug, Clone)]
pub struct Pattern {
    paths: Vec<Path>,
}

impl Pattern {
    /// Reads a glob.
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

    /// `**`: every metric and every directory.
    pub fn everything() -> Self {
        let steps = vec![Step::Levels, Step::Component(Arc::new(Component::any()))];
        Self { paths: vec![Path { steps }] }
    }

    /// The paths; a name that matches one of them matches the pattern.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The one name that the pattern can match, when there is only one.
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

    /// True when the pattern matches the whole name of a metric or directory.
    pub fn matches(&self, name: &str) -> bool {
        self.paths.iter().any(|path| path.matches(name))
    }
}

/// Appends a part of the pattern, given by the texts it stands for, to every path.
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
    // Here alternatives hold dots, are empty or are `**`: each makes paths of its own.
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

/// What stands between two dots.
#[derive(Debug, Clone)]
pub enum Step {
    /// `**`: any number of components, also none.
    Levels,
    /// Exactly one component.
    Component(Arc<Component>),
}

/// Where in a [`Path`] the components read so far may have led: a set of steps, since `**` leaves
/// several open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct States(u128);

impl States {
    /// No way on.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the steps that the next component has to satisfy.
    pub fn steps(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let step = (left != 0).then(|| left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            step
        })
    }

    /// The step, when it is the only one.
    pub fn single(self) -> Option<usize> {
        self.0.is_power_of_two().then(|| self.0.trailing_zeros() as usize)
    }
}

/// A sequence of steps that a name has to satisfy from its first component to its last.
#[derive(Debug, Clone, Default)]
pub struct Path {
    steps: Vec<Step>,
}

impl Path {
    /// The steps; `**` is never the last of them.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The states before the first component.
    pub fn start(&self) -> States {
        let mut states = States::default();
        self.enter(&mut states, 0);
        states
    }

    /// The states after one more component. `matches` decides for a step's number and component.
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

    /// True when a name that ends here matches.
    #[inline]
    pub fn accepts(&self, states: States) -> bool {
        states.0 >> self.steps.len() & 1 == 1
    }

    /// The states without the end: what is left to look for below.
    #[inline]
    pub fn unfinished(&self, states: States) -> States {
        States(states.0 & !(1 << self.steps.len()))
    }

    /// True when the path matches the whole name.
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

    /// Adds a step; a `**` may be skipped, so the step behind it is added too.
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

    /// A `**` at the end means everything below, but not the place itself.
    fn close(&mut self) -> Result<(), GlobError> {
        if matches!(self.steps.last(), Some(Step::Levels)) {
            self.push(Step::Component(Arc::new(Component::any())))?;
        }
        Ok(())
    }
}

/// What one component of a name may be: one of some texts, or one that a wildcard matches.
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

    /// The exact texts, in byte order, each once.
    pub fn literals(&self) -> &[String] {
        &self.literals
    }

    /// The wildcards beside them.
    pub fn wildcards(&self) -> &[Wildcard] {
        &self.wildcards
    }

    /// True when every component matches.
    pub fn is_any(&self) -> bool {
        matches!(self.wildcards.as_slice(), [only] if only.is_any())
    }

    /// What every matching component begins with; empty when nothing is known.
    pub fn prefix(&self) -> &str {
        match (self.literals.as_slice(), self.wildcards.as_slice()) {
            ([], [only]) => only.prefix(),
            _ => "",
        }
    }

    /// True when the component of a name matches.
    pub fn matches(&self, text: &str) -> bool {
        self.literals.binary_search_by(|literal| literal.as_str().cmp(text)).is_ok()
            || self.wildcards.iter().any(|wildcard| wildcard.matches(text))
    }

    /// About how many characters [`Component::matches`] compares at worst; callers that match
    /// many texts keep their bounds with it.
    pub fn cost(&self, text_bytes: usize) -> usize {
        self.wildcards.iter().map(|wildcard| wildcard.cost(text_bytes)).sum()
    }
}

#[cfg(test)]
mod tests;
