//! Remembers results for components, by their numbers.

use std::collections::HashMap;

use crate::words::Match;

const PAGE: usize = 4096;
/// Maximum number of different results. Beyond that, further results are not remembered.
const RESULTS_MAX: usize = 4096;

/// The results for components during a search. Most of the results are equal, so each different result is
/// stored once. Numbers of components have gaps, and many are never looked up, so memory is allocated in
/// pages.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// For each component, the number of its result plus one; 0 if the result is not known.
    pages: Vec<Option<Box<[u16; PAGE]>>>,
    results: Vec<Match>,
    numbers: HashMap<(u16, u128), u16>,
    removals: u64,
}

impl Memo {
    /// Forgets everything if component numbers have become invalid in the meantime.
    pub(crate) fn keep_for(&mut self, removals: u64) {
        if self.removals != removals {
            self.removals = removals;
            self.pages.clear();
        }
    }

    #[inline]
    pub(crate) fn get(&self, component: u32) -> Option<Match> {
        let page = self.pages.get(component as usize / PAGE)?.as_ref()?;
        let number = usize::from(page[component as usize % PAGE]).checked_sub(1)?;
        self.results.get(number).copied()
    }

    pub(crate) fn set(&mut self, component: u32, result: Match) {
        let Some(number) = self.number(result) else { return };
        let page = component as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
        page[component as usize % PAGE] = number + 1;
    }

    fn number(&mut self, result: Match) -> Option<u16> {
        let key = (result.qualities, result.parts);
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let number = self.results.len();
        if number == RESULTS_MAX {
            return None;
        }
        self.results.push(result);
        self.numbers.insert(key, number as u16);
        Some(number as u16)
    }
}
