//! Reasons why a picture cannot be made.

/// Why a picture cannot be made. The text is one sentence for the person who asked for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The value of an option is wrong.
    #[error("{name}={value:?} is not {expected}")]
    Option {
        /// The name of the option.
        name: &'static str,
        /// The first characters of the value.
        value: String,
        /// The values that the option takes.
        expected: &'static str,
    },
    /// The text is not a colour.
    #[error("{0:?} is not a color; write a name like blue, or hexadecimal digits RRGGBB or RRGGBBAA")]
    Color(String),
    /// The picture has more points than this limit.
    #[error("the graph has more than {0} points to draw; ask for fewer series or a narrower picture")]
    TooManyPoints(usize),
    /// The lines and areas are too long to be painted within a few seconds.
    #[error("the lines of the graph are too long to be painted; ask for fewer series or a smaller picture")]
    TooMuchInk,
    /// The SVG text could not be painted. The text is the message of the library.
    #[error("the picture cannot be painted: {0}")]
    Paint(String),
}

/// The first characters of a text from a request.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    text.chars().take(SHOWN).collect()
}
