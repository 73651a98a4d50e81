//! The tags of a series.

use std::sync::Arc;

/// The tags of a series, in the order in which Graphite prints them. Shared until one is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tags(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Only the name. Nearly all series are of this kind, which needs no allocation.
    Plain(Arc<str>),
    Pairs(Arc<Vec<Pair>>),
}

type Pair = (Arc<str>, Arc<str>);

impl Tags {
    /// The tags of a name: `cpu;dc=a` has the tags `dc` and `name`, a plain name only `name`. A name with
    /// malformed tags counts as plain, and so does a name that looks like a call.
    pub fn of(name: &Arc<str>) -> Self {
        if !name.contains([';', '~']) || is_call(name) {
            return Self::named(name);
        }
        tagged(name).unwrap_or_else(|| Self::named(name))
    }

    /// A single tag `name`, whatever the name looks like.
    pub fn named(name: &Arc<str>) -> Self {
        Self(Kind::Plain(Arc::clone(name)))
    }

    /// The pairs of tag and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (plain, pairs) = match &self.0 {
            Kind::Plain(name) => (Some(("name", &**name)), &[][..]),
            Kind::Pairs(pairs) => (None, &pairs[..]),
        };
        plain.into_iter().chain(pairs.iter().map(|(key, value)| (&**key, &**value)))
    }

    /// The value of a tag.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// The tags that all sets have with the same value.
    pub fn common<'a>(mut sets: impl Iterator<Item = &'a Self>) -> Self {
        let mut common: Vec<Pair> = Vec::new();
        if let Some(first) = sets.next() {
            common = first.pairs();
        }
        for tags in sets {
            common.retain(|(key, value)| tags.get(key) == Some(value));
            if common.is_empty() {
                break;
            }
        }
        Self(Kind::Pairs(Arc::new(common)))
    }

    /// Sets a tag. A new tag is added at the end.
    pub fn set(&mut self, key: &str, value: impl Into<Arc<str>>) {
        let pairs = self.pairs_mut();
        match pairs.iter_mut().find(|(k, _)| **k == *key) {
            Some((_, old)) => *old = value.into(),
            None => pairs.push((key.into(), value.into())),
        }
    }

    /// Removes a tag, if there is one with this key.
    pub fn remove(&mut self, key: &str) {
        self.pairs_mut().retain(|(k, _)| **k != *key);
    }

    fn pairs(&self) -> Vec<Pair> {
        match &self.0 {
            Kind::Plain(name) => vec![("name".into(), Arc::clone(name))],
            Kind::Pairs(pairs) => pairs.to_vec(),
        }
    }

    fn pairs_mut(&mut self) -> &mut Vec<Pair> {
        if let Kind::Plain(_) = &self.0 {
            self.0 = Kind::Pairs(Arc::new(self.pairs()));
        }
        match &mut self.0 {
            Kind::Pairs(pairs) => Arc::make_mut(pairs),
            Kind::Plain(_) => unreachable!("made pairs above"),
        }
    }
}

/// Whether a name has the form `letters(anything)`.
fn is_call(name: &str) -> bool {
    let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
    letters > 0 && name.len() > letters + 2 && name[letters..].starts_with('(') && name.ends_with(')')
}

fn tagged(name: &str) -> Option<Tags> {
    let mut segments = name.split(';');
    let metric = segments.next()?.trim_start_matches('~');
    let mut tags = Tags(Kind::Pairs(Arc::default()));
    for segment in segments {
        let (key, value) = segment.split_once('=')?;
        if key.is_empty() || key.contains(['!', '^']) || value.is_empty() || value.starts_with('~') {
            return None;
        }
        tags.set(key, value);
    }
    (!metric.is_empty()).then(|| {
        tags.set("name", metric);
        tags
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_names() {
        let tags =
            |name| Tags::of(&Arc::from(name)).iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>();
        assert_eq!(tags("a.b"), ["name=a.b"]);
        assert_eq!(tags("cpu;dc=a;rack=1"), ["dc=a", "rack=1", "name=cpu"]);
        assert_eq!(tags("cpu;dc=a;dc=b"), ["dc=b", "name=cpu"]);
        assert_eq!(tags("~cpu"), ["name=cpu"]);
        assert_eq!(tags("cpu;dc"), ["name=cpu;dc"]);
        assert_eq!(tags("cpu;=x"), ["name=cpu;=x"]);
        assert_eq!(tags("f(cpu;dc=a)"), ["name=f(cpu;dc=a)"]);
    }

    #[test]
    fn common_tags() {
        let tags = |name: &str| Tags::of(&Arc::from(name));
        let sets = [tags("cpu;dc=a;host=1"), tags("cpu;dc=a;host=2")];
        let mut common = Tags::common(sets.iter());
        assert_eq!(common.iter().collect::<Vec<_>>(), [("dc", "a"), ("name", "cpu")]);
        common.remove("dc");
        assert_eq!(common.get("dc"), None);
    }
}
