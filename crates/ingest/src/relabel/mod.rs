//! Filters and rewrites names on arrival: carbon's blacklist, whitelist and rewrite rules.
//!
//! As in carbon, the lists see the name as the sender wrote it. Then the rules under `[pre]` are applied,
//! followed by those under `[post]`. In carbon aggregation takes place between the two; there is no
//! aggregation here.

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

/// The lists and rules as read at one time.
#[derive(Debug, Default)]
pub struct Relabel {
    blacklist: List,
    whitelist: List,
    rewrites: Rewrites,
}

impl Relabel {
    /// Parses the contents of the three files. Each problem has the number of its line.
    pub fn parse(blacklist: &str, whitelist: &str, rewrite_rules: &str) -> (Self, [Vec<(usize, String)>; 3]) {
        let mut problems = [const { Vec::new() }; 3];
        let relabel = Self {
            blacklist: List::parse(blacklist, &mut problems[0]),
            whitelist: List::parse(whitelist, &mut problems[1]),
            rewrites: Rewrites::parse(rewrite_rules, &mut problems[2]),
        };
        (relabel, problems)
    }

    /// True if every name passes unchanged.
    pub fn is_empty(&self) -> bool {
        self.blacklist.is_empty() && self.whitelist.is_empty() && self.rewrites.is_empty()
    }

    /// Returns the name to store, or the reason for which it is refused.
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
