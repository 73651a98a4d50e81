//! Which of a query's terms to ask for, when it is known how many rows each of them has. Pure.
//!
//! Cassandra has two ways to intersect. When the smallest posting list has at most a hundredth of the rows
//! of the largest, it looks each of its rows up in the others. Otherwise it goes through all lists side by
//! side, so that each costs what it is long. Both are cheap beside a row of the result, which is read from
//! its partition.

use super::plan::{Term, Test};

/// The share of the largest list that the smallest may have to be looked up in the others; a tenth more than
/// the server's, since counts are estimates and a chance that is missed costs more than one that was none.
const LOOKUP_SHARE: f64 = 0.011;

/// What things cost, in steps through a list of one term; seen on Cassandra 5.0.
const ROW: f64 = 120.0;
/// To find a list.
const TERM: f64 = 1000.0;
const LOOKUP: f64 = 3.0;
/// A prefix has a list for each value, merged on the way.
const PREFIX: f64 = 3.5;
/// Directories are many, with few rows in each.
const PARENT_PREFIX: f64 = 10.0;

#[derive(Clone, Copy)]
struct Counted<'a> {
    term: &'a Term,
    rows: f64,
}

/// The terms to ask for, of these that all hold; `None` as long as one of them was not counted. `all` is
/// the number of rows of the table.
pub(super) fn choose<'a>(
    terms: impl Iterator<Item = &'a Term>,
    count: impl Fn(&Term) -> Option<f64>,
    all: f64,
) -> Option<Vec<Term>> {
    let mut counted: Vec<Counted> =
        terms.map(|term| count(term).map(|rows| Counted { term, rows })).collect::<Option<_>>()?;
    counted.sort_by(|a, b| a.rows.total_cmp(&b.rows));
    let ways = [side_by_side, looked_up];
    let chosen = apart(&counted).into_iter().flat_map(|set| ways.map(|way| way(&set, all)));
    let best = chosen.filter(|set| !set.is_empty()).min_by(|a, b| cost(a, all).total_cmp(&cost(b, all)))?;
    Some(best.into_iter().map(|counted| counted.term.clone()).collect())
}

/// Sets of terms that narrow each other: with the parent or with the components that it says.
fn apart<'a>(counted: &[Counted<'a>]) -> Vec<Vec<Counted<'a>>> {
    let Some(parent) = counted.iter().find(|counted| counted.term.component.is_none()) else {
        return vec![counted.to_vec()];
    };
    let (Test::Is(text) | Test::Begins(text)) = &parent.term.test;
    let said = text.matches('.').count();
    let those = |wanted: &dyn Fn(Option<usize>) -> bool| {
        counted.iter().copied().filter(|counted| wanted(counted.term.component)).collect()
    };
    vec![those(&|component| component.is_some()), those(&|component| component.is_none_or(|n| n >= said))]
}

fn side_by_side<'a>(counted: &[Counted<'a>], all: f64) -> Vec<Counted<'a>> {
    add_while_worth(counted, all, |counted| counted.rows * weight(counted.term))
}

fn looked_up<'a>(counted: &[Counted<'a>], all: f64) -> Vec<Counted<'a>> {
    let smallest = counted.first().map_or(0.0, |counted| counted.rows);
    let mut chosen = add_while_worth(counted, all, |counted| smallest * LOOKUP * weight(counted.term));
    if !is_lookup(&chosen) {
        // The one that makes the server do it.
        let large = counted.iter().filter(|counted| counted.rows * LOOKUP_SHARE >= smallest);
        chosen.extend(large.min_by(|a, b| weight(a.term).total_cmp(&weight(b.term))));
    }
    chosen
}

/// The smallest, and of the others, smaller ones first, those that save more rows than they cost.
fn add_while_worth<'a>(
    counted: &[Counted<'a>],
    all: f64,
    cost: impl Fn(&Counted) -> f64,
) -> Vec<Counted<'a>> {
    let mut chosen: Vec<Counted> = Vec::with_capacity(counted.len());
    for one in counted {
        let before = rows(&chosen, all);
        chosen.push(*one);
        let saved = before - rows(&chosen, all);
        if chosen.len() > 1 && saved * ROW <= TERM + cost(one) {
            chosen.pop();
        }
    }
    chosen
}

fn cost(chosen: &[Counted], all: f64) -> f64 {
    let found = rows(chosen, all) * ROW + chosen.len() as f64 * TERM;
    let Some((smallest, others)) = chosen.split_first() else { return found };
    if others.is_empty() {
        return found;
    }
    if is_lookup(chosen) {
        return found + others.iter().map(|other| smallest.rows * LOOKUP * weight(other.term)).sum::<f64>();
    }
    found + chosen.iter().map(|list| list.rows * weight(list.term)).sum::<f64>()
}

fn is_lookup(chosen: &[Counted]) -> bool {
    let smallest = chosen.first().map_or(0.0, |list| list.rows);
    chosen.iter().any(|list| list.rows * LOOKUP_SHARE >= smallest)
}

/// How many rows have all terms, smaller ones first. Terms of one path depend on each other (a host is in
/// one rack only), so each narrows by the root of what the one before does.
fn rows(chosen: &[Counted], all: f64) -> f64 {
    let mut share = 1.0;
    let mut power = 1.0;
    for list in chosen {
        share *= (list.rows / all).min(1.0).powf(power);
        power /= 2.0;
    }
    all * share
}

fn weight(term: &Term) -> f64 {
    match (&term.test, term.component) {
        (Test::Is(_), _) => 1.0,
        (Test::Begins(_), Some(_)) => PREFIX,
        (Test::Begins(_), None) => PARENT_PREFIX,
    }
}

#[cfg(test)]
mod tests;
