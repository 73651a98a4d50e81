//! The position of a mistake in a target, for editors. It is part of the answer to `/render` with
//! `errors=json`.

use plumbago_render::describe::functions;
use plumbago_render::{EvalError, ParseError};
use serde_json::{Value, json};

/// The position of a mistake in a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The text of the target.
    target: String,
    /// `begin` is the position of the first wrong character, `end` the position after the last one. Both
    /// count characters, from 0.
    begin: usize,
    end: usize,
    /// The function that the sender probably meant.
    meant: Option<&'static str>,
    /// A text that describes what is expected at this position.
    expected: Option<String>,
}

impl Fault {
    /// The position at which a target cannot be parsed.
    pub(crate) fn of_parse(target: &str, error: &ParseError) -> Self {
        let expected = error.expected.map(str::to_owned);
        Self { expected, ..Self::at(target, error.position) }
    }

    /// The position at which a target cannot be evaluated; `None` if the error has no position in it.
    pub(crate) fn of_eval(target: &str, error: &EvalError) -> Option<Self> {
        match error {
            EvalError::UnknownFunction { name, position } => {
                Some(Self { meant: similar(name), ..Self::at(target, *position) })
            }
            EvalError::Argument { position, .. } | EvalError::NoSeries { position } => {
                let expected = error.expected().map(str::to_owned);
                Some(Self { expected, ..Self::at(target, *position) })
            }
            _ => None,
        }
    }

    /// A fault from a position, counted from 1, to the end of the word at that position.
    fn at(target: &str, position: usize) -> Self {
        let begin = position.saturating_sub(1);
        let word = target.chars().skip(begin).take_while(|c| c.is_alphanumeric() || *c == '_').count();
        Self { target: target.to_owned(), begin, end: begin + word.max(1), meant: None, expected: None }
    }

    /// The position as JSON, as the answer contains it.
    pub(crate) fn json(&self) -> Value {
        let mut fault = json!({"target": self.target, "begin": self.begin, "end": self.end});
        if let Some(meant) = self.meant {
            fault["meant"] = json!(meant);
        }
        if let Some(expected) = &self.expected {
            fault["expected"] = json!(expected);
        }
        fault
    }
}

/// The function whose name is most similar to a misspelt name.
fn similar(name: &str) -> Option<&'static str> {
    let wanted = name.to_ascii_lowercase();
    let most = (name.len() / 3).clamp(1, 3);
    let near = |known: &&'static str| distance(&known.to_ascii_lowercase(), &wanted);
    functions().into_iter().map(|function| function.name).filter(|known| near(known) <= most).min_by_key(near)
}

/// The edit distance between two texts: how many characters must be added, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    if a.len().max(b.len()) > LONGEST {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, letter) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in b.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_function_is_known() {
        assert_eq!(similar("sumSeris"), Some("sumSeries"));
        assert_eq!(similar("movingaverage"), Some("movingAverage"));
        assert_eq!(similar("frobnicate"), None);
        assert_eq!(similar(&"x".repeat(1000)), None);
    }

    #[test]
    fn a_fault_covers_the_word() {
        let fault = Fault::at("é(sumSeris(a))", 3);
        assert_eq!((fault.begin, fault.end), (2, 10));
        assert_eq!(Fault::at("a(", 3).end, 3);
    }
}
