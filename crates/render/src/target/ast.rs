//! The tree of a target.

use std::ops::Range;

use crate::number::python_float;

/// Where an expression stands in the text of its target, in bytes.
pub type Span = Range<usize>;

/// A target: its text and the expression it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The text as it was asked.
    pub text: String,
    /// What it says.
    pub expr: Expr,
}

impl Target {
    /// The whole text as a metric name or glob.
    pub fn path(text: &str) -> Self {
        let expr = Expr { span: 0..text.len(), kind: ExprKind::Path(text.to_owned()) };
        Self { text: text.to_owned(), expr }
    }
}

impl Literal {
    /// The text of it as Python's `str` gives it, for names and tags.
    pub fn python(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => python_float(*number),
            Self::String(text) => text.clone(),
            Self::Boolean(true) => "True".to_owned(),
            Self::Boolean(false) => "False".to_owned(),
            Self::None => "None".to_owned(),
        }
    }
}

/// An expression and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// The bytes of the target it was read from.
    pub span: Span,
    /// What it is.
    pub kind: ExprKind,
}

/// What an expression is.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A metric name or a glob, escapes removed.
    Path(String),
    /// `name(args…, key=value…)`; `a|name(b)` is read as `name(a, b)`.
    Call {
        /// The function.
        name: String,
        /// Positional arguments.
        args: Vec<Expr>,
        /// Named arguments, after the positional ones.
        kwargs: Vec<(String, Expr)>,
    },
    /// `template(body, …)`: the body with its `$` parameters filled in.
    Template {
        /// A call or a path.
        body: Box<Expr>,
        /// Parameters by name; positional ones are named `1`, `2`, ….
        params: Vec<(String, Literal)>,
    },
    /// A constant argument.
    Literal(Literal),
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A whole number.
    Integer(i64),
    /// Any other number, and `inf`.
    Float(f64),
    /// The raw text between the quotes; backslashes are kept.
    String(String),
    /// `true` or `false`.
    Boolean(bool),
    /// `none`.
    None,
}
