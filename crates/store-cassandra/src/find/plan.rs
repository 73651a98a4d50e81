//! Which queries find everything that a glob matches. Pure.
//!
//! Cassandra intersects the postings of all terms, and pays for each; so a query has only terms that
//! narrow it well, and never one that could miss a name.

use plumbago_model::Pattern;
use plumbago_model::glob::{Component, Path, Step};

use crate::names;
use crate::schema::ddl::quoted;

/// Queries for one path of a glob; beyond it, alternatives are widened to what they have in common.
const QUERIES_MAX: usize = 42;
/// The same for each number of components that `**` may stand for.
const QUERIES_PER_DEPTH_MAX: usize = 4;
/// SASI leaves out values of this length and more, so terms of such a length would find nothing.
const TERM_BYTES_MAX: usize = 1023;

/// One query on `metrics` or `directories`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Query {
    /// The row of this name.
    Name(String),
    /// Rows for which all terms hold.
    Terms(Vec<Term>),
    /// All rows.
    All,
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The column; `None` for `parent`.
    pub component: Option<usize>,
    /// What it has to be.
    pub test: Test,
}

/// What a column has to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    /// This text.
    Is(String),
    /// A text that begins so.
    Begins(String),
}

impl Query {
    /// The statement; all texts are bound.
    pub fn text(&self, keyspace: &str, table: &str) -> String {
        let from = format!("SELECT name FROM {}.{}", quoted(keyspace), quoted(table));
        match self {
            Self::Name(_) => format!("{from} WHERE name = ?"),
            Self::All => from,
            Self::Terms(terms) => {
                let all: Vec<String> = terms.iter().map(Term::text).collect();
                // Asked for by the server as soon as there are two, harmless before.
                format!("{from} WHERE {} ALLOW FILTERING", all.join(" AND "))
            }
        }
    }

    /// The values to bind.
    pub fn values(&self) -> Vec<String> {
        match self {
            Self::Name(name) => vec![name.clone()],
            Self::All => Vec::new(),
            Self::Terms(terms) => terms.iter().map(Term::value).collect(),
        }
    }
}

impl Term {
    fn text(&self) -> String {
        let operator = if matches!(self.test, Test::Is(_)) { "=" } else { "LIKE" };
        match self.component {
            Some(n) => format!("component_{n} {operator} ?"),
            None => format!("parent {operator} ?"),
        }
    }

    fn value(&self) -> String {
        match &self.test {
            Test::Is(text) => text.clone(),
            Test::Begins(text) => format!("{text}%"),
        }
    }
}

/// The queries for a glob on tables with so many component columns.
pub fn plan(pattern: &Pattern, components: u32) -> Vec<Query> {
    let mut queries = Vec::new();
    for path in pattern.paths() {
        for_path(path, components as usize, &mut queries);
    }
    queries.sort();
    queries.dedup();
    if queries.contains(&Query::All) {
        return vec![Query::All];
    }
    queries
}

/// What one component may be, as far as an index can tell.
type Choices = Vec<Choice>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    Is(String),
    Begins(String),
    Any,
}

fn for_path(path: &Path, components: usize, queries: &mut Vec<Query>) {
    let steps = path.steps();
    let first = steps.iter().position(|step| matches!(step, Step::Levels));
    let Some(first) = first else {
        let levels: Vec<Choices> = steps.iter().filter_map(choices).collect();
        if levels.len() < components {
            each(levels, QUERIES_MAX, queries, &exact);
        }
        return;
    };
    let last = steps.iter().rposition(|step| matches!(step, Step::Levels)).unwrap_or(first);
    let head: Vec<Choices> = steps[..first].iter().filter_map(choices).collect();
    let tail: Vec<Choices> = steps[last + 1..].iter().filter_map(choices).collect();
    // Between two `**` anything may stand; what is there takes at least its own components.
    let least = steps.iter().filter(|step| matches!(step, Step::Component(_))).count();
    let more = head.len() < least;
    let head_found = |choices: &[Choice]| below(choices, more);
    if tail.iter().all(|choices| choices.contains(&Choice::Any)) {
        each(head, QUERIES_MAX, queries, &head_found);
        return;
    }
    for depth in least..components {
        let mut levels = head.clone();
        levels.resize(depth - tail.len(), vec![Choice::Any]);
        levels.extend(tail.iter().cloned());
        each(levels, QUERIES_PER_DEPTH_MAX, queries, &exact);
    }
}

fn choices(step: &Step) -> Option<Choices> {
    let Step::Component(component) = step else { return None };
    Some(choices_of(component))
}

fn choices_of(component: &Component) -> Choices {
    let mut all: Choices = component.literals().iter().map(|text| Choice::Is(text.clone())).collect();
    for wildcard in component.wildcards() {
        let prefix = wildcard.prefix();
        if prefix.is_empty() {
            return vec![Choice::Any];
        }
        all.push(Choice::Begins(prefix.to_owned()));
    }
    all
}

/// Calls `query` for each way to choose one alternative per level, after widening levels until there
/// are few enough.
fn each(mut levels: Vec<Choices>, max: usize, queries: &mut Vec<Query>, query: &dyn Fn(&[Choice]) -> Query) {
    let count = |levels: &[Choices]| levels.iter().fold(1usize, |n, l| n.saturating_mul(l.len()));
    let mut level = 0;
    while count(&levels) > max && level < levels.len() {
        if levels[level].len() > 1 {
            levels[level] = vec![common(&levels[level])];
        }
        level += 1;
    }
    if levels.iter().any(Vec::is_empty) {
        return;
    }
    let mut picks = vec![0; levels.len()];
    loop {
        let chosen: Vec<Choice> = picks.iter().zip(&levels).map(|(i, level)| level[*i].clone()).collect();
        queries.push(query(&chosen));
        let Some(at) = (0..picks.len()).rev().find(|at| picks[*at] + 1 < levels[*at].len()) else { return };
        picks[at] += 1;
        picks[at + 1..].fill(0);
    }
}

/// What all alternatives begin with.
fn common(choices: &[Choice]) -> Choice {
    let text = |choice: &Choice| match choice {
        Choice::Is(text) | Choice::Begins(text) => text.clone(),
        Choice::Any => String::new(),
    };
    let mut prefix = choices.first().map(text).unwrap_or_default();
    for choice in choices {
        let other = text(choice);
        let same =
            prefix.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        prefix.truncate(same);
    }
    if prefix.is_empty() { Choice::Any } else { Choice::Begins(prefix) }
}

/// The query for names with exactly these components.
fn exact(chosen: &[Choice]) -> Query {
    let literal = |choice: &Choice| matches!(choice, Choice::Is(_));
    let run = chosen.iter().take_while(|choice| literal(choice)).count();
    if run == chosen.len() {
        return Query::Name(joined(chosen));
    }
    if run + 1 == chosen.len() {
        let mut terms: Vec<Term> = term(None, Test::Is(parent(&chosen[..run]))).into_iter().collect();
        terms.extend(of_component(run, &chosen[run]));
        return of_terms(terms);
    }
    let mut terms = Vec::new();
    lead(chosen, run, &mut terms);
    for (n, choice) in chosen.iter().enumerate().skip(run.max(1)) {
        terms.extend(of_component(n, choice));
    }
    // The length of names narrows little; alone it is better than nothing.
    if terms.is_empty() || chosen[chosen.len() - 1] == Choice::Any {
        terms.extend(term(Some(chosen.len()), Test::Is(crate::schema::END.to_owned())));
    }
    of_terms(terms)
}

/// The query for everything that begins with these components.
fn below(chosen: &[Choice], more: bool) -> Query {
    let run = chosen.iter().take_while(|choice| matches!(choice, Choice::Is(_))).count();
    let mut terms = Vec::new();
    if run == chosen.len() && run > 0 && more {
        terms.extend(term(None, Test::Begins(parent(chosen))));
        return of_terms(terms);
    }
    lead(chosen, run, &mut terms);
    for (n, choice) in chosen.iter().enumerate().skip(run.max(1)) {
        terms.extend(of_component(n, choice));
    }
    of_terms(terms)
}

/// The term for the literal components at the start: one for all of them.
fn lead(chosen: &[Choice], run: usize, terms: &mut Vec<Term>) {
    match run {
        0 => terms.extend(chosen.first().and_then(|choice| of_component(0, choice))),
        1 => terms.extend(of_component(0, &chosen[0])),
        _ => terms.extend(term(None, Test::Begins(parent(&chosen[..run])))),
    }
}

fn of_component(n: usize, choice: &Choice) -> Option<Term> {
    match choice {
        Choice::Is(text) => term(Some(n), Test::Is(text.clone())),
        Choice::Begins(text) => term(Some(n), Test::Begins(text.clone())),
        Choice::Any => None,
    }
}

/// A term, unless it could miss names: a prefix that begins with `%` means something else to the
/// server, and long values are not in the index.
fn term(component: Option<usize>, test: Test) -> Option<Term> {
    let safe = match &test {
        Test::Is(text) => text.len() <= TERM_BYTES_MAX,
        Test::Begins(text) => text.len() <= TERM_BYTES_MAX && !text.starts_with('%') && !text.is_empty(),
    };
    safe.then_some(Term { component, test })
}

fn of_terms(terms: Vec<Term>) -> Query {
    if terms.is_empty() { Query::All } else { Query::Terms(terms) }
}

fn joined(chosen: &[Choice]) -> String {
    let texts: Vec<&str> = chosen
        .iter()
        .map(|choice| match choice {
            Choice::Is(text) | Choice::Begins(text) => text.as_str(),
            Choice::Any => "",
        })
        .collect();
    texts.join(".")
}

/// The value of `parent` for what stands right below these components.
fn parent(chosen: &[Choice]) -> String {
    if chosen.is_empty() { names::parent("").to_owned() } else { joined(chosen) + "." }
}

#[cfg(test)]
mod tests;
