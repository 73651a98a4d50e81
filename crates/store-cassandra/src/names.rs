//! What names the tables can hold, and how a name lies in them.

use crate::schema::END;

/// SASI leaves out terms from here on, with no more than a line in the server's log.
const INDEXED_BYTES: usize = 1024;
/// The server's limit on keys.
const KEY_BYTES_MAX: usize = 65_535;

/// What names may be, so that the tables and the way they are searched can hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLimits {
    /// Component columns; one of them marks the end.
    pub components: u32,
    /// Names have to be found by SASI indexes.
    pub indexed: bool,
}

/// Why a name cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// More components than there are columns.
    #[error("more than {0} components, which is what the tables have columns for")]
    TooManyComponents(u32),
    /// A component that says where names end.
    #[error("a component is {END}, which marks the end of names in the tables")]
    EndMarker,
    /// Longer than a key.
    #[error("longer than {KEY_BYTES_MAX} bytes")]
    TooLong,
    /// A part that the index leaves out.
    #[error("a component or the path above it has {INDEXED_BYTES} bytes or more, which the index leaves out")]
    NotIndexed,
}

impl NameLimits {
    /// Says what is wrong with a sanitised name; tagged series are not kept by component.
    pub fn check(&self, name: &str) -> Result<(), NameProblem> {
        // The tags' table has a tag, its value and the name in one key.
        if name.len() * (1 + usize::from(is_tagged(name))) > KEY_BYTES_MAX {
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

/// True for Graphite's tagged series, `name;tag=value`.
pub(crate) fn is_tagged(name: &str) -> bool {
    name.contains(';')
}

/// What stands in the column `parent`: the path above with its dot, or a dot alone.
pub(crate) fn parent(name: &str) -> &str {
    name.rfind('.').map_or(".", |dot| &name[..=dot])
}

/// The directories above a name, from the root down.
pub(crate) fn directories(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(dot, _)| &name[..dot])
}

/// The values of a row of `metrics` or `directories`: name, parent, components, the mark of the end.
pub(crate) fn tree_row(name: &str) -> Vec<&str> {
    let mut row = vec![name, parent(name)];
    row.extend(name.split('.'));
    row.push(END);
    row
}

/// The tags of a series.
pub(crate) fn tags(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let first = is_tagged(name).then(|| name.split(';').next().map(|path| ("name", path))).flatten();
    first.into_iter().chain(name.split(';').skip(1).filter_map(|tag| tag.split_once('=')))
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
        let all: Vec<_> = tags("cpu.load;dc=a;host=b=c").collect();
        assert_eq!(all, [("name", "cpu.load"), ("dc", "a"), ("host", "b=c")]);
        assert_eq!(tags("cpu.load").count(), 0);
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
