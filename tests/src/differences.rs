//! The agreed differences between Plumbago and graphite-web (`tests/agreed-differences.txt`).

use std::collections::BTreeMap;

/// The list, and how often each difference showed.
#[derive(Debug)]
pub struct Differences(BTreeMap<&'static str, usize>);

impl Differences {
    /// The differences whose id starts with `prefix`.
    pub fn listed(prefix: &str) -> Self {
        let lines = include_str!("../agreed-differences.txt").lines();
        let ids = lines.filter(|l| !l.starts_with('#')).filter_map(|l| l.split_whitespace().next());
        Self(ids.filter(|id| id.starts_with(prefix)).map(|id| (id, 0)).collect())
    }

    /// Notes that a difference showed; panics when it is not listed.
    pub fn seen(&mut self, id: &str) {
        *self.0.get_mut(id).unwrap_or_else(|| panic!("{id} is not in agreed-differences.txt")) += 1;
    }

    /// Panics when a listed difference never showed: then the list is out of date.
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
    fn users_are_told_of_every_difference() {
        let told = include_str!("../../docs/compatibility.md");
        let listed = Differences::listed("");
        for id in listed.0.keys() {
            assert!(told.contains(&format!("`{}`", id.trim_end_matches('?'))), "{id}");
        }
    }
}
