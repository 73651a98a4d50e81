//! What the operator does to names on entry: carbon's blacklist, whitelist and rewrite rules.
//!
//! The lists see the name as the sender wrote it, as in carbon; then the rules `[pre]` and `[post]` are
//! applied in the order of their file. (In carbon the two kinds stand before and after aggregation; there
//! is none here, so that both apply.)

mod list;
mod rewrite;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::reject::Reject;
use list::List;
use rewrite::Rewrites;

pub use rules::{RuleProblem, Rules, RulesError};

/// The lists and rules of one moment.
#[derive(Debug, Default)]
pub struct Relabel {
    blacklist: List,
    whitelist: List,
    rewrites: Rewrites,
}

impl Relabel {
    /// Reads the contents of the three files; the problems come with the number of their line.
    pub fn parse(blacklist: &str, whitelist: &str, rewrite_rules: &str) -> (Self, [Vec<(usize, String)>; 3]) {
        let mut problems = [const { Vec::new() }; 3];
        let relabel = Self {
            blacklist: List::parse(blacklist, &mut problems[0]),
            whitelist: List::parse(whitelist, &mut problems[1]),
            rewrites: Rewrites::parse(rewrite_rules, &mut problems[2]),
        };
        (relabel, problems)
    }

    /// True when every name passes as it is.
    pub fn is_empty(&self) -> bool {
        self.blacklist.is_empty() && self.whitelist.is_empty() && self.rewrites.is_empty()
    }

    /// The name that goes on, or why it does not.
    pub(crate) fn apply<'a>(&self, name: &'a str) -> Result<Cow<'a, str>, Reject> {
        if self.blacklist.contains(name)? {
            return Err(Reject::Blacklist);
        }
        if !self.whitelist.is_empty() && !self.whitelist.contains(name)? {
            return Err(Reject::Whitelist);
        }
        self.rewrites.apply(name)
    }
}
