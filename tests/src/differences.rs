//! The agreed differences between Plumbago and graphite-web (`tests/agreed-differences.txt`).

use std::collections::BTreeMap;

/// The listed differences, and how often each was seen.
#[derive(Debug)]
pub struct Differences(BTreeMap<&'static str, usize>);

impl Differences {
    /// The differences whose id starts with `prefix`.
    pub fn listed(prefix: &str) -> Self {
        let lines = include_str!("../agreed-differences.txt").lines();
        let ids = lines.filter(|l| !l.starts_with('#')).filter_map(|l| l.split_whitespace().next());
        Self(ids.filter(|id| id.starts_with(prefix)).map(|id| (id, 0)).collect())
    }

    /// Records that a difference was seen. Panics if it is not listed.
    pub fn seen(&mut self, id: &str) {
        *self.0.get_mut(id).unwrap_or_else(|| panic!("{id} is not in agreed-differences.txt")) += 1;
    }

    /// Panics if a listed difference was never seen, which means that the list is out of date.
    pub fn assert_all_seen(&self) {
        let never: Vec<_> =
            self.0.iter().filter(|(id, n)| **n == 0 && !id.ends_with('?')).map(|(id, _)| id).collect();
        assert!(never.is_empty(), "listed in agreed-differences.txt but not seen: {never:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_documented() {
        let documentation = include_str!("../../docs/compatibility.md");
        let listed = Differences::listed("");
        for id in listed.0.keys() {
            assert!(documentation.contains(&format!("`{}`", id.trim_end_matches('?'))), "{id}");
        }
    }
}
