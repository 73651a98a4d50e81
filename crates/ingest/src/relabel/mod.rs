//! Filters and rewrites names on arrival: carbon's blacklist, whitelist and rewrite rules.
//!
//! As in carbon, the lists see the name as the sender wrote it. Then the rules under `[pre]` are applied,
//! followed by those under `[post]`. With aggregation, the rules under `[post]` are applied after it: see
//! [`Post`].

mod list;
mod passage;
mod post;
mod received;
mod rewrite;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::reject::Reject;
use list::List;
use rewrite::Rewrites;

pub use passage::{Passage, Step, Taker};
pub use post::Post;
pub(crate) use received::{with_stored, with_stored_series};
pub use rules::{RuleFiles, RuleProblem, Rules, RulesError};

/// The lists and rules, as read at one time.
#[derive(Debug, Default)]
pub struct Relabel {
    blacklist: List,
    whitelist: List,
    /// The rules that apply on arrival.
    rewrites: Rewrites,
    /// The rules under `[post]`, if they apply later.
    post: Rewrites,
    /// The files of blacklist, whitelist and rewrite rules, as configured.
    files: [String; 3],
}

impl Relabel {
    /// Parses the contents of the three files. Each problem has the number of its line.
    pub fn parse(blacklist: &str, whitelist: &str, rewrite_rules: &str) -> (Self, [Vec<(usize, String)>; 3]) {
        let (relabel, problems) = Self::parse_apart(blacklist, whitelist, rewrite_rules);
        (relabel.all_on_arrival(), problems)
    }

    /// Like [`Self::parse`], but the rules under `[post]` do not apply on arrival.
    fn parse_apart(
        blacklist: &str,
        whitelist: &str,
        rewrite_rules: &str,
    ) -> (Self, [Vec<(usize, String)>; 3]) {
        let mut problems = [const { Vec::new() }; 3];
        let (pre, post) = Rewrites::parse(rewrite_rules, &mut problems[2]);
        let relabel = Self {
            blacklist: List::parse(blacklist, &mut problems[0]),
            whitelist: List::parse(whitelist, &mut problems[1]),
            rewrites: pre,
            post,
            files: Default::default(),
        };
        (relabel, problems)
    }

    /// Applies the rules under `[post]` on arrival, right after the others.
    fn all_on_arrival(mut self) -> Self {
        self.rewrites = self.rewrites.then(std::mem::take(&mut self.post));
        self
    }

    /// Whether every name passes unchanged.
    pub fn is_empty(&self) -> bool {
        self.blacklist.is_empty() && self.whitelist.is_empty() && self.rewrites.is_empty()
    }

    fn apply_post<'a>(&self, name: &'a str) -> Result<Cow<'a, str>, Reject> {
        self.post.apply(name)
    }

    /// Returns the name to store, or the reason why it is refused.
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
