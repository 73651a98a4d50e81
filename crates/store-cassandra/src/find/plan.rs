//! Plans the queries that find everything that a glob matches. No I/O.
//!
//! Cassandra intersects the posting lists of all terms of a query, and each one costs time. A query therefore
//! has only terms that, by their texts, are likely to narrow the result, and never one that could exclude a
//! match. Further terms that are true are kept with the query: once the number of rows of each is known,
//! [`super::cost`] may choose others.

use plumbago_model::Pattern;
use plumbago_model::glob::{Component, Path, Step};

use crate::names;
use crate::schema::ddl::quoted;

/// Maximum number of queries for one path of a glob. If more were needed, alternatives are replaced by their
/// common prefix.
const QUERIES_MAX: usize = 42;
/// The same limit, for each number of components that `**` may stand for.
const QUERIES_PER_DEPTH_MAX: usize = 4;
/// The longest text of a term, in bytes. SASI does not index longer values, so it would not find them.
const TERM_BYTES_MAX: usize = 1023;

/// One query on `metrics` or `directories`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The row with this name.
    Name(String),
    /// The rows that satisfy all of these terms.
    Terms(Terms),
    /// All rows.
    All,
}

/// Terms that are true for every row that is looked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Terms {
    /// The terms that the statement contains.
    asked: Vec<Term>,
    /// Further true terms that the statement does not contain.
    others: Vec<Term>,
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The column; `None` for `parent`.
    pub component: Option<usize>,
    /// The condition on its value.
    pub test: Test,
}

/// A condition on the value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// The value equals this text.
    Is(String),
    /// The value begins with this text.
    Begins(String),
}

impl Query {
    /// A query with these terms and no others to choose from.
    pub(super) fn terms(asked: Vec<Term>) -> Self {
        Self::Terms(Terms { asked, others: Vec::new() })
    }

    /// The CQL of the query. Its bound values are those of `values`, followed by the first and the last token
    /// of a range; a query for one name takes no tokens.
    pub fn text(&self, keyspace: &str, table: &str) -> String {
        let from = format!("SELECT name, token(name) FROM {}.{}", quoted(keyspace), quoted(table));
        let part = "token(name) >= ? AND token(name) <= ?";
        match self {
            Self::Name(_) => format!("{from} WHERE name = ?"),
            Self::All => format!("{from} WHERE {part}"),
            Self::Terms(terms) => {
                // The server demands ALLOW FILTERING for two or more terms. For one it does no harm.
                format!("{from} WHERE {} AND {part} ALLOW FILTERING", terms.text())
            }
        }
    }

    /// The statement that returns the tokens of the first `rows` rows.
    pub(super) fn sample(&self, keyspace: &str, table: &str, rows: usize) -> String {
        let from = format!("SELECT token(name) FROM {}.{}", quoted(keyspace), quoted(table));
        match self {
            Self::Name(_) => format!("{from} WHERE name = ?"),
            Self::All => format!("{from} LIMIT {rows}"),
            Self::Terms(terms) => format!("{from} WHERE {} LIMIT {rows} ALLOW FILTERING", terms.text()),
        }
    }

    /// The values to bind, without the tokens.
    pub fn values(&self) -> Vec<String> {
        match self {
            Self::Name(name) => vec![name.clone()],
            Self::All => Vec::new(),
            Self::Terms(terms) => terms.asked.iter().map(Term::value).collect(),
        }
    }
}

impl Terms {
    /// All terms: those in the statement and the others that are true.
    pub(super) fn every(&self) -> impl Iterator<Item = &Term> {
        self.asked.iter().chain(&self.others)
    }

    fn text(&self) -> String {
        let all: Vec<String> = self.asked.iter().map(Term::text).collect();
        all.join(" AND ")
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

/// The queries for a glob on tables with `components` component columns.
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

/// The alternatives for one component, reduced to what an index can check.
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
    // The components between two `**` cannot be located, but they count towards the minimum length.
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

/// Calls `query` for each combination of one alternative per level. If there are more than `max`
/// combinations, it first replaces the alternatives of levels by their common prefix.
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

/// The common prefix of all alternatives.
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
        let mut asked: Vec<Term> = term(None, Test::Is(parent(&chosen[..run]))).into_iter().collect();
        asked.extend(of_component(run, &chosen[run]));
        return of_terms(asked, std::iter::empty());
    }
    let end = term(Some(chosen.len()), Test::Is(crate::schema::END.to_owned()));
    let every = of_components(chosen).chain(end.clone());
    let mut asked = Vec::new();
    lead(chosen, run, &mut asked);
    asked.extend(of_components(chosen).filter(|term| term.component >= Some(run.max(1))));
    // The term on the number of components narrows little, so it is used only where others do not help.
    if asked.is_empty() || chosen[chosen.len() - 1] == Choice::Any {
        asked.extend(end);
    }
    of_terms(asked, every)
}

/// The query for everything that begins with these components. It mostly uses terms on the components: a
/// prefix of `parent` has a posting list for each directory below, which is slower than a few components.
fn below(chosen: &[Choice], more: bool) -> Query {
    let literal = chosen.iter().all(|choice| matches!(choice, Choice::Is(_)));
    if literal && chosen.len() == 1 && more {
        let asked = term(None, Test::Begins(parent(chosen))).into_iter().collect();
        return of_terms(asked, of_components(chosen));
    }
    of_terms(of_components(chosen).collect(), of_components(chosen))
}

/// Adds one term that covers all `run` literal components at the start.
fn lead(chosen: &[Choice], run: usize, terms: &mut Vec<Term>) {
    match run {
        0 => terms.extend(chosen.first().and_then(|choice| of_component(0, choice))),
        1 => terms.extend(of_component(0, &chosen[0])),
        _ => terms.extend(term(None, Test::Begins(parent(&chosen[..run])))),
    }
}

fn of_components(chosen: &[Choice]) -> impl Iterator<Item = Term> {
    chosen.iter().enumerate().filter_map(|(n, choice)| of_component(n, choice))
}

fn of_component(n: usize, choice: &Choice) -> Option<Term> {
    match choice {
        Choice::Is(text) => term(Some(n), Test::Is(text.clone())),
        Choice::Begins(text) => term(Some(n), Test::Begins(text.clone())),
        Choice::Any => None,
    }
}

/// A term, or `None` if it could exclude a match: a leading `%` makes a prefix another kind of search, and
/// long values are not in the index.
fn term(component: Option<usize>, test: Test) -> Option<Term> {
    let safe = match &test {
        Test::Is(text) => text.len() <= TERM_BYTES_MAX,
        Test::Begins(text) => text.len() <= TERM_BYTES_MAX && !text.starts_with('%') && !text.is_empty(),
    };
    safe.then_some(Term { component, test })
}

/// A query that asks for the terms `asked`, and knows the other terms of `every`. If `asked` is empty, it
/// asks for all terms of `every`.
fn of_terms(asked: Vec<Term>, every: impl Iterator<Item = Term>) -> Query {
    let others: Vec<Term> = every.filter(|term| !asked.contains(term)).collect();
    match (asked.is_empty(), others.is_empty()) {
        (false, _) => Query::Terms(Terms { asked, others }),
        (true, false) => Query::terms(others),
        (true, true) => Query::All,
    }
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

/// The value of `parent` for rows directly below these components.
fn parent(chosen: &[Choice]) -> String {
    if chosen.is_empty() { names::parent("").to_owned() } else { joined(chosen) + "." }
}

#[cfg(test)]
mod tests;
