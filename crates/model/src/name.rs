//! Names of metrics, and the ids derived from them.

use std::borrow::Cow;
use std::fmt;

use uuid::Uuid;

/// BigGraphite's namespace for ids (UUIDv5). With the same namespace both programs give a metric the same id.
const NAMESPACE: Uuid = Uuid::from_u128(0x0000_0000_1111_2222_3333_4444_4444_4444);

/// The longest name of a metric, in bytes. go-carbon has the same limit.
pub const NAME_BYTES_MAX: usize = 16_384;

/// The id of a metric: the UUIDv5 of its sanitised name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetricId(pub [u8; 16]);

impl MetricId {
    /// The id of a name. The caller has passed the name through [`sanitize`].
    pub fn of(name: &str) -> Self {
        Self(*Uuid::new_v5(&NAMESPACE, name.as_bytes()).as_bytes())
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Uuid::from_bytes(self.0).hyphenated())
    }
}

impl fmt::Debug for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not the name of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no component, or only empty ones.
    #[error("empty name")]
    Empty,
    /// The name is longer than [`NAME_BYTES_MAX`].
    #[error("the name is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
    /// The name contains a control character or white space.
    #[error("the name contains a control character or white space")]
    Control,
    /// The tags after the name are malformed or not allowed.
    #[error("its tags cannot be read; they are written name;tag=value;tag=value")]
    Tags,
}

/// Removes empty components (`a..b` becomes `a.b`, `.a.` becomes `a`), as BigGraphite does and as whisper's
/// directories did. The part after the first `;` (the tags) is not changed.
///
/// # Errors
///
/// Returns [`NameError`] if the name is empty or too long, or if it contains control characters or white space.
pub fn sanitize(name: &str) -> Result<Cow<'_, str>, NameError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if name.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err(NameError::Control);
    }
    let (path, tags) = match name.find(';') {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    let clean = !path.is_empty() && !path.starts_with('.') && !path.ends_with('.') && !path.contains("..");
    if clean {
        return Ok(Cow::Borrowed(name));
    }
    let mut folded = String::with_capacity(name.len());
    for component in path.split('.').filter(|c| !c.is_empty()) {
        if !folded.is_empty() {
            folded.push('.');
        }
        folded.push_str(component);
    }
    if folded.is_empty() {
        return Err(NameError::Empty);
    }
    folded.push_str(tags);
    Ok(Cow::Owned(folded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_biggraphite() {
        // Ids made by BigGraphite 0.14.20.
        for (name, id) in [
            ("foo.bar", "c5196d9b-4b9c-5fc6-9f04-15c4c5c91fd4"),
            ("a.b.c", "7a870c4c-6df3-56f6-a60b-e9ee2f955ac1"),
            ("test.metric", "76707a27-910a-5c60-9ec5-32b25da9754f"),
            ("a.b.testé", "76b449f0-405c-5573-81f4-803273da319c"),
        ] {
            assert_eq!(MetricId::of(name).to_string(), id);
        }
    }

    #[test]
    fn empty_components_are_folded() {
        assert_eq!(sanitize("a..b").unwrap(), "a.b");
        assert_eq!(sanitize(".a.b.").unwrap(), "a.b");
        assert_eq!(sanitize("a.b;x=1..2").unwrap(), "a.b;x=1..2");
        assert_eq!(sanitize(".."), Err(NameError::Empty));
        assert_eq!(sanitize("a b"), Err(NameError::Control));
    }
}
