//! Names of tagged series whose files are named after a hash of the name.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Why a file is skipped: reason and text.
pub(super) type Why = (&'static str, String);

/// The names of tagged series, by the SHA-256 after which carbon names their files.
#[derive(Debug, Default)]
pub struct TaggedNames(HashMap<String, String>);

impl TaggedNames {
    /// Takes names in carbon's normal form: `name;tag=value`, with the tags sorted. Other lines are ignored.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let tagged = names.into_iter().map(str::trim).filter(|name| name.contains(';'));
        Self(tagged.map(|name| (hash(name), name.to_owned())).collect())
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the series whose file below `_tagged` is called `stem` without `.wsp`.
    pub(super) fn name_of(&self, stem: &str) -> Result<String, Why> {
        if stem.contains(';') {
            return Ok(stem.replace("_DOT_", "."));
        }
        let known = self.0.get(&stem.to_ascii_lowercase()).cloned();
        let text = "its name is a hash of the tagged name; give the names with --tagged-names";
        known.ok_or_else(|| ("tagged", text.to_owned()))
    }
}

/// The SHA-256 of a name in hexadecimal digits.
pub(crate) fn hash(name: &str) -> String {
    Sha256::digest(name.as_bytes()).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_carbon() {
        let names = TaggedNames::new(["disk.used;datacenter=dc1;server=web01", "plain.name", ""]);
        assert_eq!(names.len(), 1);
        let abc = hash("abc");
        assert_eq!(abc, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(names.name_of(&abc).unwrap_err().0, "tagged");
        let own = hash("disk.used;datacenter=dc1;server=web01");
        assert_eq!(names.name_of(&own).unwrap(), "disk.used;datacenter=dc1;server=web01");
        assert_eq!(names.name_of("a_DOT_b;c=d_DOT_e").unwrap(), "a.b;c=d.e");
    }
}
