//! Why there is no picture.

/// What is wrong with what was asked for; each is one sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An option's value.
    #[error("{name}={value:?} is not {expected}")]
    Option {
        /// The option.
        name: &'static str,
        /// The beginning of what was given.
        value: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// A colour.
    #[error("{0:?} is no color: write a name like blue, or hexadecimal digits RRGGBB or RRGGBBAA")]
    Color(String),
    /// More than a picture may hold.
    #[error("the graph has more than {0} points to draw; ask for fewer series or a narrower picture")]
    TooManyPoints(usize),
    /// More than is painted in a few seconds.
    #[error("the lines of the graph are too long to be painted; ask for fewer series or a smaller picture")]
    TooMuchInk,
    /// The picture could not be painted.
    #[error("the picture cannot be painted: {0}")]
    Paint(String),
}

/// The beginning of a text from outside.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    text.chars().take(SHOWN).collect()
}
