//! Determines the metrics of an old name, and their new names. No I/O.

use std::borrow::Cow;

use plumbago_model::{Pattern, glob, has_glob, sanitize};

/// An old name and a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The old name without tags.
    from: String,
    /// The new one.
    to: String,
    /// The tags of the old name, with their first `;`; empty if it has none.
    tags: String,
    /// Whether only the metrics below the old name are selected, even if the name itself is a metric.
    only_below: bool,
}

/// Why a metric is left out: reason and text.
pub(crate) type Why = (&'static str, String);

impl Mapping {
    /// Checks two names as they were given.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub(crate) fn new(from: &str, to: &str) -> Result<Self, String> {
        let (old, only_below) = match from.strip_suffix(".**") {
            Some(directory) => (directory, true),
            None => (from, false),
        };
        let new = if only_below { to.strip_suffix(".**").unwrap_or(to) } else { to };
        let old = plain(old)?;
        if has_glob(new) {
            return Err(format!("{new} has characters of globs, which a new name cannot have"));
        }
        let clean = |name: &str| {
            let clean = sanitize(name).map_err(|error| format!("{name:?} cannot be a name: {error}"))?;
            Ok::<_, String>(clean.into_owned())
        };
        let (old, new) = (clean(&old)?, clean(new)?);
        if new.contains(';') {
            return Err("tags stay as they are; write the new name without them".to_owned());
        }
        let (path, tags) = split(&old);
        if only_below && !tags.is_empty() {
            return Err("nothing is below a name with tags".to_owned());
        }
        if path == new {
            return Err("the old name and the new one are the same".to_owned());
        }
        if is_below(&new, path) {
            return Err(format!("{new} lies inside {path}; copy it to a name outside first"));
        }
        Ok(Self { from: path.to_owned(), to: new, tags: tags.to_owned(), only_below })
    }

    /// The metric with the old name; `None` if the name can only be a directory.
    pub(crate) fn metric(&self) -> Option<String> {
        (!self.only_below).then(|| format!("{}{}", self.from, self.tags))
    }

    /// Whether the old name has tags, so that it is a single series.
    pub(crate) fn is_series(&self) -> bool {
        !self.tags.is_empty()
    }

    /// The tag expression for tagged series with just this name.
    pub(crate) fn same_name(&self) -> String {
        format!("name={}", self.from)
    }

    /// The glob for all metrics below the old name.
    pub(crate) fn below(&self) -> String {
        format!("{}.**", glob::escaped(&self.from))
    }

    /// The tag expression for tagged series below the old name.
    pub(crate) fn tagged_below(&self) -> String {
        format!("name=~^{}\\.", escaped(&self.from))
    }

    /// The new name of a metric that was found.
    ///
    /// # Errors
    /// Why it cannot have a new name.
    pub(crate) fn apply(&self, name: &str) -> Result<String, Why> {
        let (path, tags) = split(name);
        let rest = path.strip_prefix(&self.from).filter(|rest| rest.is_empty() || rest.starts_with('.'));
        let Some(rest) = rest else {
            return Err(("other", "it is not below the old name".to_owned()));
        };
        let new = format!("{}{rest}", self.to);
        if new == self.from || is_below(&new, &self.from) {
            return Err(("inside", format!("its new name {new} would lie inside {}", self.from)));
        }
        let whole = format!("{new}{tags}");
        match sanitize(&whole) {
            Ok(_) => Ok(whole),
            Err(error) => Err(("name", format!("it cannot get its new name: {error}"))),
        }
    }
}

/// An old name, in which a backslash makes a character of globs plain.
fn plain(name: &str) -> Result<Cow<'_, str>, String> {
    if !has_glob(name) {
        return Ok(Cow::Borrowed(name));
    }
    let literal = Pattern::parse(name).ok().and_then(|pattern| pattern.literal());
    literal.map(Cow::Owned).ok_or_else(|| {
        format!(
            "{name} is a glob; name a metric or a directory, like servers.old. If these characters are part of the \
             name, write a backslash before each of them"
        )
    })
}

/// The name without tags, and the tags with their first `;`.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.find(';').unwrap_or(name.len()))
}

fn is_below(name: &str, directory: &str) -> bool {
    name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('.'))
}

/// Escapes a text so that a regular expression matches just this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_the_rest_of_its_names() {
        let mapping = Mapping::new("servers.old", "servers.new").unwrap();
        assert_eq!(mapping.apply("servers.old.cpu.user").unwrap(), "servers.new.cpu.user");
        assert_eq!(mapping.apply("servers.old").unwrap(), "servers.new");
        assert_eq!(mapping.apply("servers.old.load;host=a.b").unwrap(), "servers.new.load;host=a.b");
        assert_eq!(mapping.apply("servers.older.cpu").unwrap_err().0, "other");
        assert_eq!(mapping.tagged_below(), "name=~^servers\\.old\\.");
        assert_eq!(mapping.metric().unwrap(), "servers.old");
        let below = Mapping::new("servers.old.**", "servers.new.**").unwrap();
        assert_eq!((below.metric(), below.below()), (None, "servers.old.**".to_owned()));
        assert_eq!(below.apply("servers.old.cpu").unwrap(), "servers.new.cpu");
    }

    #[test]
    fn a_backslash_makes_characters_of_globs_plain() {
        let mapping = Mapping::new(r"web.\{a,b}.x\*", "web.new").unwrap();
        assert_eq!(mapping.metric().unwrap(), "web.{a,b}.x*");
        assert_eq!(mapping.below(), r"web.\{a,b}.x\*.**");
        assert_eq!(mapping.apply("web.{a,b}.x*.cpu").unwrap(), "web.new.cpu");
        assert!(Mapping::new("web.{a,b}", "web.new").unwrap_err().contains("backslash"));
        assert!(Mapping::new("web.a", r"web.\*").is_err());
    }

    #[test]
    fn tags_stay() {
        let mapping = Mapping::new("load;host=a", "cpu.load").unwrap();
        assert_eq!(mapping.metric().unwrap(), "load;host=a");
        assert_eq!(mapping.apply("load;host=a").unwrap(), "cpu.load;host=a");
        assert!(Mapping::new("load;host=a", "load;host=b").is_err());
    }

    #[test]
    fn names_inside_each_other_are_refused() {
        for (from, to) in
            [("a.b", "a.b"), ("a.b", "a.b.c"), ("a.b.**", "a.b"), ("a..b", "a.b."), ("a.*", "b")]
        {
            assert!(Mapping::new(from, to).is_err(), "{from} {to}");
        }
        // Moving up is possible, but not onto names that are being moved themselves.
        let up = Mapping::new("a.b", "a").unwrap();
        assert_eq!(up.apply("a.b.c").unwrap(), "a.c");
        assert_eq!(up.apply("a.b.b.c").unwrap_err().0, "inside");
    }

    #[test]
    fn names_that_get_too_long_are_left_out() {
        let long = "x".repeat(plumbago_model::name::NAME_BYTES_MAX - 10);
        let mapping = Mapping::new("a", "a-much-longer-one").unwrap();
        assert_eq!(mapping.apply(&format!("a.{long}")).unwrap_err().0, "name");
    }
}
