//! The tags of an entry, as both protocols send them: an object of texts.

use std::fmt;

use plumbago_model::name::NAME_BYTES_MAX;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::json::{Key, Scalar};
use crate::point::Tag;

/// Maximum number of faults in tags that are named.
const FAULTS_MAX: usize = 10;

/// The tags of an entry.
#[derive(Debug, Default)]
pub(crate) struct Tags<'de> {
    /// The tags, without duplicates. Empty if they are too long to be kept.
    pub(crate) tags: Vec<Tag<'de>>,
    /// The problems of the tags.
    pub(crate) faults: Vec<String>,
    /// Whether they take more bytes than a name can have.
    pub(crate) too_long: bool,
    bytes: usize,
}

impl<'de> Tags<'de> {
    fn add(&mut self, tag: Key<'de>, value: Scalar<'de>) {
        let Key(tag) = tag;
        let value = value.into_text().unwrap_or_default();
        if tag.is_empty() || value.is_empty() {
            if self.faults.len() < FAULTS_MAX {
                let what = if tag.is_empty() { "name" } else { "value" };
                self.faults.push(format!("tag[{}].{what} may not be empty.", shortened(&tag)));
            }
            return;
        }
        self.bytes = self.bytes.saturating_add(tag.len() + value.len() + 2);
        self.too_long |= self.bytes > NAME_BYTES_MAX;
        if self.too_long {
            self.tags.clear();
        } else {
            self.tags.push((tag, value));
        }
    }

    /// Sorts the tags. A tag that was sent with two different values is a fault.
    fn sort(&mut self) {
        if self.tags.len() < 2 {
            return;
        }
        self.tags.sort();
        self.tags.dedup();
        if let Some(pair) = self.tags.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            self.faults.push(format!("tag[{}] has two values.", shortened(&pair[0].0)));
        }
    }
}

/// The beginning of a text that a sender chose, for messages.
pub(crate) fn shortened(text: &str) -> &str {
    let mut end = text.len().min(80);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl<'de> Deserialize<'de> for Tags<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Object)
    }
}

struct Object;

impl Object {
    fn no_object<'de, E>() -> Result<Tags<'de>, E> {
        Ok(Tags { faults: vec!["tags must be an object.".to_owned()], ..Tags::default() })
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Tags<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tags")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tags<'de>, A::Error> {
        let mut tags = Tags::default();
        while let Some(tag) = map.next_key::<Key<'de>>()? {
            let value = map.next_value::<Scalar<'de>>()?;
            tags.add(tag, value);
        }
        tags.sort();
        Ok(tags)
    }

    fn visit_unit<E>(self) -> Result<Tags<'de>, E> {
        Ok(Tags::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tags<'de>, E> {
        Self::no_object()
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tags<'de>, E> {
        Self::no_object()
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tags<'de>, E> {
        Self::no_object()
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tags<'de>, E> {
        Self::no_object()
    }

    fn visit_str<E>(self, _: &str) -> Result<Tags<'de>, E> {
        Self::no_object()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tags<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Self::no_object()
    }
}
