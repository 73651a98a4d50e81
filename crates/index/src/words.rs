//! The words of a search, and how well a component matches each of them.

use memchr::memmem::Finder;
use plumbago_model::glob::{GlobError, Pattern, has_glob};

/// Maximum number of words in a search.
pub const WORDS_MAX: usize = 7;

/// How well a text matches a word: 0 is not at all; then come inside the text, at the start of a part, and as a whole.
type Quality = u16;
const INSIDE: Quality = 1;
const START: Quality = 2;
const WHOLE: Quality = 3;

/// The words of a search, in lower case. Every word must be somewhere in a name.
#[derive(Debug)]
pub(crate) struct Words(Vec<Word>);

/// A word. A word with dots matches consecutive components, any other word a single one.
#[derive(Debug)]
struct Word {
    /// The word as it is compared with tags.
    anywhere: Part,
    /// The parts between dots; the last one matches the component that completes the match.
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Anywhere(Box<Finder<'static>>),
    Start(String),
    Whole(String),
    End(String),
    Glob(Pattern),
}

/// The qualities of all words, two bits each.
pub(crate) type Qualities = u16;

impl Words {
    /// Splits a text at white space.
    pub(crate) fn new(text: &str) -> Result<Self, GlobError> {
        let words = text.split_whitespace().take(WORDS_MAX).map(|word| Word::new(&word.to_lowercase()));
        words.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How well a component matches each word. Words with dots are compared with their last part only.
    pub(crate) fn of_component(&self, component: &[u8], lower: &mut Vec<u8>) -> Qualities {
        lowered(component, lower);
        let quality = |word: &Word| word.parts.last().map_or(0, |part| part.quality(lower));
        self.0.iter().enumerate().fold(0, |all, (place, word)| all | quality(word) << (2 * place))
    }

    /// How well a tag with its value matches each word, as `tag=value` or, for a name, alone.
    pub(crate) fn of_pair(&self, tag: Option<&str>, value: &str, lower: &mut Vec<u8>) -> Qualities {
        let text = tag.map(|tag| format!("{tag}={value}"));
        lowered(text.as_deref().unwrap_or(value).as_bytes(), lower);
        let quality = |word: &Word| word.anywhere.quality(lower);
        self.0.iter().enumerate().fold(0, |all, (place, word)| all | quality(word) << (2 * place))
    }

    /// Whether any word has a dot.
    pub(crate) fn has_dots(&self) -> bool {
        self.0.iter().any(|word| word.parts.len() > 1)
    }

    /// A word with dots matches several components: its last part this one, the others those above. Drops the qualities
    /// of such words if a part above does not match. `above` returns the component that
    /// is the given number of levels higher.
    pub(crate) fn checked<'a>(
        &self,
        mut all: Qualities,
        above: impl Fn(usize) -> Option<&'a [u8]>,
        lower: &mut Vec<u8>,
    ) -> Qualities {
        for (place, word) in self.0.iter().enumerate() {
            if word.parts.len() == 1 || all >> (2 * place) & 3 == 0 {
                continue;
            }
            let matches = word.parts.iter().rev().enumerate().skip(1).all(|(level, part)| {
                above(level).is_some_and(|text| {
                    lowered(text, lower);
                    part.quality(lower) > 0
                })
            });
            if !matches {
                all &= !(3 << (2 * place));
            }
        }
        all
    }

    /// The better quality of two for each word.
    #[inline]
    pub(crate) fn best(&self, a: Qualities, b: Qualities) -> Qualities {
        if b == 0 {
            return a;
        }
        if a == 0 {
            return b;
        }
        let best = |place: usize| (a & 3 << (2 * place)).max(b & 3 << (2 * place));
        (0..self.0.len()).fold(0, |all, place| all | best(place))
    }

    /// Whether every word matches.
    #[inline]
    pub(crate) fn all_match(&self, all: Qualities) -> bool {
        (all | all >> 1) & self.mask() == self.mask()
    }

    /// The sum of the qualities.
    pub(crate) fn sum(&self, all: Qualities) -> u32 {
        (0..self.0.len()).map(|place| u32::from(all >> (2 * place) & 3)).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn mask(&self) -> u16 {
        0x5555 & ((1_u32 << (2 * self.0.len())) - 1) as u16
    }
}

impl Word {
    fn new(text: &str) -> Result<Self, GlobError> {
        let texts: Vec<&str> = text.split('.').collect();
        let last = texts.len() - 1;
        let part = |(place, part): (usize, &&str)| match (place, last) {
            _ if has_glob(part) => {
                let before = if place == 0 && !part.starts_with('*') { "*" } else { "" };
                let after = if place == last && !part.ends_with('*') { "*" } else { "" };
                Pattern::parse(&format!("{before}{part}{after}")).map(Part::Glob)
            }
            (0, 0) => Ok(Part::Anywhere(Box::new(Finder::new(part).into_owned()))),
            (0, _) => Ok(Part::End((*part).to_owned())),
            (place, last) if place == last => Ok(Part::Start((*part).to_owned())),
            _ => Ok(Part::Whole((*part).to_owned())),
        };
        let parts = texts.iter().enumerate().map(part).collect::<Result<_, _>>()?;
        Ok(Self { anywhere: Part::anywhere(text)?, parts })
    }
}

impl Part {
    fn anywhere(text: &str) -> Result<Self, GlobError> {
        if has_glob(text) {
            // The dots of a value do not separate components.
            return Pattern::parse(&format!("*{text}*").replace('.', "?")).map(Self::Glob);
        }
        Ok(Self::Anywhere(Box::new(Finder::new(text).into_owned())))
    }

    fn quality(&self, text: &[u8]) -> Quality {
        let of = |found: bool, length: usize| match found {
            false => 0,
            true if length == text.len() => WHOLE,
            true => START,
        };
        match self {
            Self::Anywhere(finder) => match finder.find(text) {
                None => 0,
                Some(_) if finder.needle().len() == text.len() => WHOLE,
                Some(at) if at == 0 || !text[at - 1].is_ascii_alphanumeric() => START,
                Some(_) => INSIDE,
            },
            Self::Start(word) => of(text.starts_with(word.as_bytes()), word.len()),
            Self::End(word) => of(text.ends_with(word.as_bytes()), word.len()),
            Self::Whole(word) => of(text == word.as_bytes(), word.len()),
            Self::Glob(pattern) => {
                let matches = std::str::from_utf8(text).is_ok_and(|text| pattern.matches(text));
                if matches { START } else { 0 }
            }
        }
    }
}

/// Writes a text in lower case.
fn lowered(text: &[u8], lower: &mut Vec<u8>) {
    lower.clear();
    lower.extend_from_slice(text);
    lower.make_ascii_lowercase();
    if !text.is_ascii()
        && let Ok(text) = std::str::from_utf8(text)
    {
        lower.clear();
        lower.extend_from_slice(text.to_lowercase().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str, component: &str) -> Vec<u16> {
        let words = Words::new(words).unwrap();
        let all = words.of_component(component.as_bytes(), &mut Vec::new());
        (0..words.len()).map(|place| all >> (2 * place) & 3).collect()
    }

    #[test]
    fn words_match_anywhere_and_in_any_case() {
        assert_eq!(of("cpu WEB b0 Ü", "Web01-CPU"), [2, 2, 1, 0]);
        assert_eq!(of("web01-cpu ü", "web01-CPU"), [3, 0]);
        assert_eq!(of("ünic", "ÜNICode"), [2]);
        assert_eq!(of("w*1 [xy]eb", "web01-cpu"), [2, 0]);
        assert_eq!(of("a.cpu a.c a.p .c", "cpu"), [3, 2, 0, 2]);
    }

    #[test]
    fn all_words_have_to_match() {
        let words = Words::new("a b c d e f g h i").unwrap();
        assert_eq!(words.len(), WORDS_MAX);
        assert!(words.all_match(0b01_10_11_01_01_01_01));
        assert!(!words.all_match(0b01_10_00_01_01_01_01));
        assert_eq!(words.best(0b01_11_00, 0b10_01_01), 0b10_11_01);
        assert_eq!(words.sum(0b10_11_01), 6);
    }
}
