//! Chooses which terms of a query to send to the server, once the number of rows of each term is known. No
//! I/O.
//!
//! SASI has a posting list per term, and Cassandra intersects them in one of two ways. If the smallest list
//! has at most a hundredth of the rows of the largest, it looks up each row of the smallest in the others.
//! Otherwise it scans all lists in parallel, so each list costs in proportion to its length. Both cost little
//! compared with reading a row of the result from its partition.

use super::plan::{Term, Test};

/// Lookups are expected if the smallest list has at most this share of the rows of the largest. The server's
/// limit is 0.01. Ours is a tenth higher, because counts are estimates, and missing a lookup costs more than
/// expecting one that is not there.
const LOOKUP_SHARE: f64 = 0.011;

/// The cost of reading a row of the result. The unit of all costs is one step through the list of a term;
/// measured on Cassandra 5.0.
const ROW: f64 = 120.0;
/// The cost of opening the list of a term.
const TERM: f64 = 1000.0;
/// The cost of looking up one row in a list.
const LOOKUP: f64 = 3.0;
/// The factor for a prefix of a component. A prefix has a list per value, which are merged during the scan.
const PREFIX: f64 = 3.5;
/// The factor for a prefix of `parent`, which has many values with few rows each.
const PARENT_PREFIX: f64 = 10.0;

#[derive(Clone, Copy)]
struct Counted<'a> {
    term: &'a Term,
    rows: f64,
}

/// Chooses the terms that give the cheapest query, out of terms that are all true for the wanted rows. `all`
/// is the number of rows in the table. `None` if the number of rows is unknown for one of the terms.
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

/// Sets of terms that each narrow the result. A term on `parent` implies some component terms, so one set
/// has all component terms without `parent`, the other has `parent` without the components it implies.
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

/// The terms to choose if the server scans all lists in parallel.
fn side_by_side<'a>(counted: &[Counted<'a>], all: f64) -> Vec<Counted<'a>> {
    add_while_worth(counted, all, |counted| counted.rows * weight(counted.term))
}

/// The terms to choose if the server looks up the rows of the smallest list in the others.
fn looked_up<'a>(counted: &[Counted<'a>], all: f64) -> Vec<Counted<'a>> {
    let smallest = counted.first().map_or(0.0, |counted| counted.rows);
    let mut chosen = add_while_worth(counted, all, |counted| smallest * LOOKUP * weight(counted.term));
    if !is_lookup(&chosen) {
        // Add a list that is large enough to make the server use lookups.
        let large = counted.iter().filter(|counted| counted.rows * LOOKUP_SHARE >= smallest);
        chosen.extend(large.min_by(|a, b| weight(a.term).total_cmp(&weight(b.term))));
    }
    chosen
}

/// Takes the smallest list, then each further list (smaller ones first) that saves more than it costs.
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

/// The expected cost of a query with these terms, which are sorted by rows.
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

/// Whether the server is expected to use lookups for these terms, which are sorted by rows.
fn is_lookup(chosen: &[Counted]) -> bool {
    let smallest = chosen.first().map_or(0.0, |list| list.rows);
    chosen.iter().any(|list| list.rows * LOOKUP_SHARE >= smallest)
}

/// Estimates how many rows satisfy all terms; `chosen` is sorted by rows. Terms of a path are not independent
/// (a host is in only one rack), so the exponent of each term's share is half that of the term before.
fn rows(chosen: &[Counted], all: f64) -> f64 {
    let mut share = 1.0;
    let mut power = 1.0;
    for list in chosen {
        share *= (list.rows / all).min(1.0).powf(power);
        power /= 2.0;
    }
    all * share
}

/// How much more a step through the list of this term costs than through that of a single value.
fn weight(term: &Term) -> f64 {
    match (&term.test, term.component) {
        (Test::Is(_), _) => 1.0,
        (Test::Begins(_), Some(_)) => PREFIX,
        (Test::Begins(_), None) => PARENT_PREFIX,
    }
}

#[cfg(test)]
mod tests;
