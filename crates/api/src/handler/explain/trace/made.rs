//! The targets that functions make from names, such as those of `applyByNode`, and their results.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use plumbago_render::{Expr, ExprKind, Place, Target, parse};
use serde_json::{Value, json};

use super::Seen;

/// Maximum number of targets of a call that are shown one by one.
pub(super) const SHOWN: usize = 24;
/// Maximum number of targets of a request that are shown one by one.
const SHOWN_MAX: usize = 500;
/// Maximum number of expressions of such a target whose fetches are shown.
const READS_SHOWN: usize = 24;
/// Longest text and expression that are kept, in bytes.
const TEXT_MAX: usize = 1000;

/// The targets that functions made, by the call that made them.
#[derive(Debug, Default)]
pub(super) struct MadeTargets {
    by_call: HashMap<Place, MadeBy>,
    shown: usize,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct MadeBy {
    /// The first targets, each with the hash of its text.
    first: Vec<(u64, Made)>,
    others: HashSet<u64>,
}

#[derive(Debug)]
struct Made {
    /// The text of the target, or the beginning of a long text.
    text: String,
    is_whole: bool,
    /// The first expressions that the target reads, without duplicates.
    reads: Vec<String>,
    more_reads: usize,
    seen: Seen,
}

impl MadeTargets {
    /// The record of a target that a call made; `None` if the target is only counted, because enough other
    /// targets are shown.
    pub(super) fn seen(&mut self, maker: &Place, target: &Target) -> Option<&mut Seen> {
        let hash = self.hasher.hash_one(&target.text);
        let of_call = self.by_call.entry(maker.clone()).or_default();
        let known = of_call.first.iter().position(|(other, _)| *other == hash);
        if known.is_none() {
            if of_call.first.len() >= SHOWN || self.shown >= SHOWN_MAX {
                of_call.others.insert(hash);
                return None;
            }
            self.shown += 1;
            of_call.first.push((hash, Made::of(target)));
        }
        let made = match known {
            Some(at) => of_call.first.get_mut(at),
            None => of_call.first.last_mut(),
        };
        made.map(|(_, made)| &mut made.seen)
    }

    /// Adds the targets that a call made to the node of the call.
    pub(super) fn show(&self, call: &Place, node: &mut Value, fetches: &dyn Fn(&str) -> Vec<usize>) {
        let Some(of_call) = self.by_call.get(call) else { return };
        node["made"] = of_call.first.iter().map(|(_, made)| made.node(fetches)).collect();
        node["more_made"] = json!(of_call.others.len());
    }
}

impl Made {
    fn of(target: &Target) -> Self {
        let mut reads = Vec::new();
        add_reads(target, &target.expr, &mut reads);
        let mut before = HashSet::new();
        reads.retain(|read| before.insert(*read));
        let all = reads.len();
        reads.retain(|read| read.len() <= TEXT_MAX);
        reads.truncate(READS_SHOWN);
        let end = target.text.floor_char_boundary(TEXT_MAX);
        Self {
            text: target.text[..end].to_owned(),
            is_whole: end == target.text.len(),
            more_reads: all - reads.len(),
            reads: reads.into_iter().map(str::to_owned).collect(),
            seen: Seen::default(),
        }
    }

    fn node(&self, fetches: &dyn Fn(&str) -> Vec<usize>) -> Value {
        let mut node = json!({
            "kind": "made",
            "text": self.text,
            "whole": self.is_whole,
            // For a target that a function made, the longest valid beginning is enough. A target of a request
            // must be valid as a whole.
            "plots": self.is_whole && parse(&self.text).is_ok(),
            "fetches": self.reads.iter().flat_map(|read| fetches(read)).collect::<Vec<_>>(),
            "more_fetches": self.more_reads,
        });
        self.seen.show(&mut node);
        node
    }
}

/// Adds the expressions that must be fetched for a part.
fn add_reads<'a>(target: &'a Target, expr: &'a Expr, reads: &mut Vec<&'a str>) {
    match &expr.kind {
        ExprKind::Literal(_) => {}
        ExprKind::Path(path) => reads.push(path),
        ExprKind::Call { name, .. } if name == "seriesByTag" => {
            reads.push(target.text.get(expr.span.clone()).unwrap_or_default());
        }
        ExprKind::Call { args, kwargs, .. } => {
            let named = kwargs.iter().map(|(_, expr)| expr);
            args.iter().chain(named).for_each(|part| add_reads(target, part, reads));
        }
        ExprKind::Template { body, .. } => add_reads(target, body, reads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { target: 0, span: 0..1 };

    fn shown(text: &str) -> Value {
        let mut made = MadeTargets::default();
        made.seen(&PLACE, &parse(text).unwrap());
        let mut node = json!({});
        made.show(&PLACE, &mut node, &|read| vec![read.len()]);
        node["made"][0].clone()
    }

    #[test]
    fn the_reads_of_a_target_are_found() {
        let made = shown("sum(a.*, scale(bb.c, 2), seriesByTag('x=y'), a.*)");
        assert_eq!(made["fetches"], json!([3, 4, 18]), "each once");
        assert_eq!((&made["more_fetches"], &made["plots"]), (&json!(0), &json!(true)));
    }

    #[test]
    fn what_is_long_is_cut_and_not_plotted() {
        let names: Vec<_> = (1000..1400).map(|number| format!("a.b{number}")).collect();
        let made = shown(&format!("group({})", names.join(",")));
        assert_eq!(made["text"].as_str().unwrap().len(), TEXT_MAX);
        assert_eq!((&made["whole"], &made["plots"]), (&json!(false), &json!(false)));
        assert_eq!(made["fetches"].as_array().unwrap().len(), READS_SHOWN);
        assert_eq!(made["more_fetches"], 400 - READS_SHOWN);
    }

    #[test]
    fn a_request_shows_at_most_so_many() {
        let mut made = MadeTargets::default();
        for call in 0..100 {
            let place = Place { target: call, span: 0..1 };
            for number in 0..10 {
                made.seen(&place, &parse(&format!("a.b{number}")).unwrap());
            }
        }
        let shown: usize = made.by_call.values().map(|of_call| of_call.first.len()).sum();
        let counted: usize = made.by_call.values().map(|of_call| of_call.others.len()).sum();
        assert_eq!((shown, counted), (SHOWN_MAX, 1000 - SHOWN_MAX));
    }
}
