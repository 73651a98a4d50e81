//! The syntax tree of a target.

use std::ops::Range;

use crate::number::python_float;

/// The position of an expression in its target, in bytes.
pub type Span = Range<usize>;

/// A parsed target.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The text of the target.
    pub text: String,
    /// The parsed form of the text.
    pub expr: Expr,
}

impl Target {
    /// A target that is a metric name or glob, whatever its text looks like.
    pub fn path(text: &str) -> Self {
        let expr = Expr { span: 0..text.len(), kind: ExprKind::Path(text.to_owned()) };
        Self { text: text.to_owned(), expr }
    }
}

impl Literal {
    /// The text that Python's `str` gives, for names and tags.
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

/// An expression and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// The position in the text of the target.
    pub span: Span,
    /// The kind of the expression.
    pub kind: ExprKind,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A metric name or glob, without escapes.
    Path(String),
    /// A call `name(args…, key=value…)`. `a|name(b)` is read as `name(a, b)`.
    Call {
        /// The name of the function.
        name: String,
        /// Positional arguments.
        args: Vec<Expr>,
        /// Named arguments.
        kwargs: Vec<(String, Expr)>,
    },
    /// `template(body, …)`.
    Template {
        /// A call or a path with `$` parameters.
        body: Box<Expr>,
        /// The parameters by name. Positional ones are named `1`, `2`, ….
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
    /// Any other number, or `inf`.
    Float(f64),
    /// The text between the quotes, with its backslashes.
    String(String),
    /// `true` or `false`.
    Boolean(bool),
    /// `none`.
    None,
}
