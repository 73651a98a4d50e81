//! The words of a search, and how well a component matches each of them.

use plumbago_model::glob::{GlobError, Pattern, has_glob};

use crate::components::Component;
use crate::needle::{Needle, is_plain};

/// Maximum number of words in a search.
pub const WORDS_MAX: usize = 7;
/// Maximum number of parts of all words with dots, not counting the last part of each.
const PARTS_MAX: usize = u128::BITS as usize;

/// How well a text matches a word: 0 means not at all, and the higher values mean inside the text, at the
/// start of a part, and as a whole.
type Quality = u16;
const INSIDE: Quality = 1;
const START: Quality = 2;
const WHOLE: Quality = 3;

/// The words of a search, in lower case. A name matches if it contains every word.
#[derive(Debug)]
pub(crate) struct Words {
    words: Vec<Word>,
    /// The words with dots.
    dotted: Vec<Dotted>,
    /// The bits of the first part of each word with dots.
    first: u128,
    /// Whether some word has to be compared with a tag and its value together.
    needs_tag: bool,
}

/// A word. A word with dots matches consecutive components, any other word a single one.
#[derive(Debug)]
struct Word {
    /// The word as it is compared with tags.
    anywhere: Part,
    /// The part that is compared with a component. For a word with dots, this is the last part, which
    /// completes the match.
    last: Part,
}

/// The parts of a word with dots that come before the last one. Each has a bit.
#[derive(Debug)]
struct Dotted {
    /// The number of the word in the search.
    place: usize,
    /// The bit of the first part; the others follow.
    bit: usize,
    parts: Vec<Part>,
}

impl Dotted {
    /// The bit of the part before the last one.
    fn ready(&self) -> u128 {
        1 << (self.bit + self.parts.len() - 1)
    }
}

/// How a component matches the words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Match {
    /// How well the component matches each word. For a word with dots, only the last part counts.
    pub(crate) qualities: Qualities,
    /// Which of the other parts of words with dots the component matches.
    pub(crate) parts: u128,
}

#[derive(Debug)]
enum Part {
    Anywhere(Box<Needle>),
    Start(String),
    Whole(String),
    End(String),
    /// Texts that follow each other, with any other text before, between and after them.
    Stars(Vec<Needle>),
    Glob(Box<Glob>),
}

/// A glob, and a text that is contained in everything that the glob matches. Most texts do not contain it, so
/// they are rejected quickly.
#[derive(Debug)]
struct Glob {
    pattern: Pattern,
    needed: Option<Needle>,
}

/// The qualities of all words, two bits each.
pub(crate) type Qualities = u16;
/// The low bit of each quality.
const LOW: Qualities = 0x5555;

impl Words {
    /// Splits a text at white space.
    pub(crate) fn new(text: &str) -> Result<Self, GlobError> {
        let mut all = Self { words: Vec::new(), dotted: Vec::new(), first: 0, needs_tag: false };
        let mut bit = 0;
        for word in text.split_whitespace().take(WORDS_MAX).map(str::to_lowercase) {
            let mut parts = parts(&word)?;
            let Some(last) = parts.pop() else { continue };
            if !parts.is_empty() {
                if bit + parts.len() > PARTS_MAX {
                    return Err(GlobError::TooDeep);
                }
                all.first |= 1 << bit;
                let count = parts.len();
                all.dotted.push(Dotted { place: all.words.len(), bit, parts });
                bit += count;
            }
            all.needs_tag |= has_glob(&word) || word.contains('=');
            all.words.push(Word { anywhere: Part::anywhere(&word)?, last });
        }
        Ok(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How a component matches each word.
    #[inline]
    pub(crate) fn of_component(&self, component: Component<'_>, lower: &mut Vec<u8>) -> Match {
        let text = if component.is_plain { component.text } else { lowered(component.text, lower) };
        let qualities = self.words.iter().enumerate();
        let qualities = qualities.fold(0, |all, (place, word)| all | word.last.quality(text) << (2 * place));
        let mut parts = 0;
        for word in &self.dotted {
            for (place, part) in word.parts.iter().enumerate() {
                parts |= u128::from(part.quality(text) > 0) << (word.bit + place);
            }
        }
        Match { qualities, parts }
    }

    /// How well a tag with its value matches each word. The text is `tag=value` or, for the tag `name`, the
    /// value alone. `known` are the results that the tag alone decides ([`Words::of_tag`]); these words are
    /// left out. A word that is the whole value may count as the whole text.
    pub(crate) fn of_pair(
        &self,
        tag: Option<&str>,
        value: &str,
        known: Qualities,
        lower: &mut Vec<u8>,
    ) -> Qualities {
        let text = match tag {
            Some(tag) if self.needs_tag => {
                lower.clear();
                lower.extend_from_slice(tag.as_bytes());
                lower.push(b'=');
                lower.extend_from_slice(value.as_bytes());
                make_lower(lower);
                lower
            }
            // A word without a `=` that is not in the tag can only be in the value.
            _ if is_plain(value.as_bytes()) => value.as_bytes(),
            _ => lowered(value.as_bytes(), lower),
        };
        let mut all = 0;
        for (place, word) in self.words.iter().enumerate() {
            if known >> (2 * place) & 3 == 0 {
                all |= word.anywhere.quality(text) << (2 * place);
            }
        }
        all
    }

    /// How well every pair of a tag matches each word, for those words for which the tag alone decides this.
    pub(crate) fn of_tag(&self, tag: &str) -> Qualities {
        let text = format!("{tag}=").to_lowercase();
        let quality = |word: &Word| match &word.anywhere {
            // With a value, the word is never the whole text, because the value is not empty.
            part @ Part::Anywhere(_) => part.quality(text.as_bytes()).min(START),
            _ => 0,
        };
        self.words.iter().enumerate().fold(0, |all, (place, word)| all | quality(word) << (2 * place))
    }

    /// Whether any word has a dot.
    pub(crate) fn has_dots(&self) -> bool {
        !self.dotted.is_empty()
    }

    /// What a component contributes below a directory: how well it matches each word, and which words with
    /// dots are then begun. A word with dots counts only if its other parts were matched directly above
    /// (`begun`).
    pub(crate) fn step(&self, begun: u128, found: Match) -> (Qualities, u128) {
        let mut qualities = found.qualities;
        for word in self.dotted.iter().filter(|word| begun & word.ready() == 0) {
            qualities &= !(3 << (2 * word.place));
        }
        // The shift also moves the last bit of a word to the first bit of the next word. That does no harm,
        // because any component may begin a word.
        (qualities, (begun << 1 | self.first) & found.parts)
    }

    /// The better quality of two for each word.
    #[inline]
    pub(crate) fn best(a: Qualities, b: Qualities) -> Qualities {
        if b == 0 {
            return a;
        }
        if a == 0 {
            return b;
        }
        let (a_high, b_high) = (a >> 1 & LOW, b >> 1 & LOW);
        let low = a & (a_high | !b_high) | b & (b_high | !a_high);
        (a_high | b_high) << 1 | low & LOW
    }

    /// Whether every word matches.
    #[inline]
    pub(crate) fn all_match(&self, all: Qualities) -> bool {
        (all | all >> 1) & self.mask() == self.mask()
    }

    /// The sum of the qualities.
    pub(crate) fn sum(all: Qualities) -> u32 {
        (all & LOW).count_ones() + 2 * (all >> 1 & LOW).count_ones()
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    fn mask(&self) -> u16 {
        LOW & ((1_u32 << (2 * self.words.len())) - 1) as u16
    }
}

/// The parts of a word between dots.
fn parts(text: &str) -> Result<Vec<Part>, GlobError> {
    let texts: Vec<&str> = text.split('.').collect();
    let last = texts.len() - 1;
    let part = |(place, part): (usize, &&str)| match (place, last) {
        (0, 0) if has_glob(part) => Part::around(part),
        _ if has_glob(part) => {
            let before = if place == 0 && !part.starts_with('*') { "*" } else { "" };
            let after = if place == last && !part.ends_with('*') { "*" } else { "" };
            Part::glob(&format!("{before}{part}{after}"))
        }
        (0, 0) => Ok(Part::Anywhere(Box::new(Needle::new(part)))),
        (0, _) => Ok(Part::End((*part).to_owned())),
        (place, last) if place == last => Ok(Part::Start((*part).to_owned())),
        _ => Ok(Part::Whole((*part).to_owned())),
    };
    texts.iter().enumerate().map(part).collect()
}

impl Glob {
    fn matches(&self, text: &[u8]) -> bool {
        self.needed.as_ref().is_none_or(|needed| needed.find(text).is_some())
            && std::str::from_utf8(text).is_ok_and(|text| self.pattern.matches(text))
    }
}

impl Part {
    fn anywhere(text: &str) -> Result<Self, GlobError> {
        if has_glob(text) {
            // The dots of a value do not separate components.
            return Self::around(&text.replace('.', "?"));
        }
        Ok(Self::Anywhere(Box::new(Needle::new(text))))
    }

    /// A glob that may match anywhere in a text.
    fn around(glob: &str) -> Result<Self, GlobError> {
        if is_simple(glob) && !glob.contains('?') {
            let texts = glob.split('*').filter(|text| !text.is_empty());
            return Ok(Self::Stars(texts.map(Needle::new).collect()));
        }
        Self::glob(&format!("*{glob}*"))
    }

    fn glob(glob: &str) -> Result<Self, GlobError> {
        let texts = glob.split(['*', '?']).filter(|_| is_simple(glob));
        let longest = texts.max_by_key(|text| text.len()).filter(|text| !text.is_empty());
        let needed = longest.map(Needle::new);
        Ok(Self::Glob(Box::new(Glob { pattern: Pattern::parse(glob)?, needed })))
    }

    fn quality(&self, text: &[u8]) -> Quality {
        let of = |found: bool, length: usize| match found {
            false => 0,
            true if length == text.len() => WHOLE,
            true => START,
        };
        match self {
            Self::Anywhere(needle) => match needle.find(text) {
                None => 0,
                Some(_) if needle.length() == text.len() => WHOLE,
                Some(at) if at == 0 || !text[at - 1].is_ascii_alphanumeric() => START,
                Some(_) => INSIDE,
            },
            Self::Start(word) => of(text.starts_with(word.as_bytes()), word.len()),
            Self::End(word) => of(text.ends_with(word.as_bytes()), word.len()),
            Self::Whole(word) => of(text == word.as_bytes(), word.len()),
            Self::Stars(texts) => {
                let mut rest = Some(text);
                for needle in texts {
                    let behind = |rest: &[u8]| Some(needle.find(rest)? + needle.length());
                    rest = rest.and_then(|rest| rest.get(behind(rest)?..));
                }
                if rest.is_some() { START } else { 0 }
            }
            Self::Glob(glob) if glob.matches(text) => START,
            Self::Glob(_) => 0,
        }
    }
}

/// Whether `*` and `?` are the only wildcards of a glob.
fn is_simple(glob: &str) -> bool {
    !glob.contains(['[', ']', '{', '}', '\\'])
}

/// A text in lower case.
fn lowered<'a>(text: &[u8], lower: &'a mut Vec<u8>) -> &'a [u8] {
    lower.clear();
    lower.extend_from_slice(text);
    make_lower(lower);
    lower
}

fn make_lower(text: &mut Vec<u8>) {
    if is_plain(text) {
        return;
    }
    text.make_ascii_lowercase();
    if !text.is_ascii()
        && let Ok(lower) = std::str::from_utf8(text).map(str::to_lowercase)
    {
        *text = lower.into_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Component<'_> {
        Component { text: text.as_bytes(), is_plain: false, is_shared: false }
    }

    fn of(words: &str, component: &str) -> Vec<u16> {
        let words = Words::new(words).unwrap();
        let all = words.of_component(plain(component), &mut Vec::new()).qualities;
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
    fn words_may_be_globs() {
        assert_eq!(of("w*0*c *w*b01 b*w *", "web01-cpu"), [2, 2, 0, 2]);
        assert_eq!(of("00*0 b0?c b0??c w??0 ?", "web01-cpu"), [0, 0, 2, 2, 2]);
        assert_eq!(of("{web,x}0 [!w]eb {a,b}? u\\*", "web01-cpu"), [2, 0, 2, 0]);
        assert_eq!(of("\u{fc}*c \u{dc}?i", "\u{fc}niC"), [2, 2]);
    }

    #[test]
    fn words_with_dots_need_the_components_above() {
        let of = |words: &str, path: &str| {
            let words = Words::new(words).unwrap();
            let mut begun = 0;
            let steps = path.split('.').map(|text| {
                let found = words.of_component(plain(text), &mut Vec::new());
                let (qualities, below) = words.step(begun, found);
                begun = below;
                qualities
            });
            steps.collect::<Vec<_>>()
        };
        assert_eq!(of("b.c", "ab.cd"), [0, 2]);
        assert_eq!(of("b.c", "b.x.c"), [0, 0, 0]);
        assert_eq!(of("a.b.c a.b", "xA.b.B.a.b.cc"), [0, 0b1100, 0, 0, 0b1100, 0b10]);
        // The end of one word is not the beginning of the next.
        assert_eq!(of("a.b c.d", "a.d"), [0, 0]);
        assert_eq!(of("a.a.a", "a.a.a.a"), [0, 0, 3, 3]);
        assert_eq!(of("*.x?", "a.xy"), [0, 2]);
    }

    #[test]
    fn a_word_has_a_maximum_of_parts() {
        assert!(Words::new(&format!("{}x", "x.".repeat(PARTS_MAX))).is_ok());
        assert_eq!(Words::new(&format!("{}x", "x.".repeat(PARTS_MAX + 1))).unwrap_err(), GlobError::TooDeep);
        assert!(Words::new(&format!("{} a.b", ".".repeat(PARTS_MAX))).is_err());
    }

    #[test]
    fn all_words_have_to_match() {
        let words = Words::new("a b c d e f g h i").unwrap();
        assert_eq!(words.len(), WORDS_MAX);
        assert!(words.all_match(0b01_10_11_01_01_01_01));
        assert!(!words.all_match(0b01_10_00_01_01_01_01));
        for (a, b) in (0..256).flat_map(|a| (0..256).map(move |b| (a, b))) {
            let better = |place: u16| (a >> (2 * place) & 3).max(b >> (2 * place) & 3) << (2 * place);
            assert_eq!(Words::best(a, b), (0..4).map(better).sum::<u16>());
        }
        assert_eq!(Words::sum(0b10_11_01), 6);
    }
}
