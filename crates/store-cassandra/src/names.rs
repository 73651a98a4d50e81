//! Checks whether the tables can hold a name, and splits names into the values of their rows.

use crate::schema::END;

/// The length from which SASI leaves a value out of the index (and only logs that), in bytes.
const INDEXED_BYTES: usize = 1024;
/// The longest key that the server accepts, in bytes.
const KEY_BYTES_MAX: usize = 65_535;

/// The limits on names that follow from the tables and their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLimits {
    /// Number of component columns. One of them is needed to mark the end of the name.
    pub components: u32,
    /// Whether SASI indexes must be able to find the names.
    pub indexed: bool,
}

/// Why a name cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// The name has more components than the tables have columns for; holds the maximum.
    #[error("the name has more than {0} components, and the tables have no columns for the others")]
    TooManyComponents(u32),
    /// A component equals the value that marks the end of names.
    #[error("the name has the component {END}, which the tables use to mark the end of a name")]
    EndMarker,
    /// The name is longer than the longest key of the server.
    #[error("the name is longer than {KEY_BYTES_MAX} bytes")]
    TooLong,
    /// A component or the path above it is too long for the index.
    #[error(
        "the name has a component or a directory of {INDEXED_BYTES} bytes or more, which SASI does not index"
    )]
    NotIndexed,
}

impl NameLimits {
    /// Checks a canonical name. Tagged series have no component columns, so only their length is checked.
    ///
    /// # Errors
    /// The first problem found, if the tables cannot hold the name.
    pub fn check(&self, name: &str) -> Result<(), NameProblem> {
        if name.len() > KEY_BYTES_MAX {
            return Err(NameProblem::TooLong);
        }
        if is_tagged(name) {
            return Ok(());
        }
        let room = self.components.saturating_sub(1);
        if name.split('.').count() > room as usize {
            return Err(NameProblem::TooManyComponents(room));
        }
        if name.split('.').any(|component| component == END) {
            return Err(NameProblem::EndMarker);
        }
        let long = |text: &str| text.len() >= INDEXED_BYTES;
        if self.indexed && (long(parent(name)) || name.split('.').any(long)) {
            return Err(NameProblem::NotIndexed);
        }
        Ok(())
    }
}

/// Whether a name is that of a tagged series, `name;tag=value`.
pub(crate) fn is_tagged(name: &str) -> bool {
    name.contains(';')
}

/// The value of the column `parent`: the path up to and including the last dot, or a single dot.
pub(crate) fn parent(name: &str) -> &str {
    name.rfind('.').map_or(".", |dot| &name[..=dot])
}

/// The directories above a name, the top one first.
pub(crate) fn directories(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(dot, _)| &name[..dot])
}

/// The values of a row in `metrics` or `directories`: name, parent, components, end mark.
pub(crate) fn tree_row(name: &str) -> Vec<&str> {
    let mut row = vec![name, parent(name)];
    row.extend(name.split('.'));
    row.push(END);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_biggraphite() {
        assert_eq!(tree_row("a.b.c"), ["a.b.c", "a.b.", "a", "b", "c", "__END__"]);
        assert_eq!(tree_row("a"), ["a", ".", "a", "__END__"]);
        assert_eq!(directories("a.b.c").collect::<Vec<_>>(), ["a", "a.b"]);
        assert_eq!(directories("a").count(), 0);
    }

    #[test]
    fn names_that_cannot_be_kept() {
        let limits = NameLimits { components: 4, indexed: true };
        let long = "x".repeat(1024);
        assert_eq!(limits.check("a.b.c"), Ok(()));
        assert_eq!(limits.check("a.b.c.d"), Err(NameProblem::TooManyComponents(3)));
        assert_eq!(limits.check("a.__END__"), Err(NameProblem::EndMarker));
        assert_eq!(limits.check(&format!("a.{long}")), Err(NameProblem::NotIndexed));
        assert_eq!(NameLimits { indexed: false, ..limits }.check(&format!("a.{long}")), Ok(()));
        assert_eq!(limits.check("a.b.c.d.e;x=__END__"), Ok(()));
        assert_eq!(limits.check(&"y".repeat(70_000)), Err(NameProblem::TooLong));
    }
}
