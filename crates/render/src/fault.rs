//! Errors of evaluations.

use crate::request::Limited;
use crate::target::EXPRESSION;
use crate::template::TooLong;

/// Why targets cannot be evaluated. The request is wrong, or it was stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// There is no function with this name.
    #[error("unknown function {name} at character {position}")]
    UnknownFunction {
        /// The name in the target.
        name: String,
        /// The position of the call, counted in characters from 1.
        position: usize,
    },
    /// An argument of a function is wrong.
    #[error("{function}: {reason}, at character {position}")]
    Argument {
        /// The name of the function.
        function: String,
        /// The problem of the argument.
        reason: String,
        /// What the argument should be, if that is known.
        expected: Option<String>,
        /// The position of the call, counted in characters from 1.
        position: usize,
    },
    /// There is a constant where series are needed.
    #[error("expected a path or a function at character {position}, not a constant")]
    NoSeries {
        /// The position of the constant, counted in characters from 1.
        position: usize,
    },
    /// The parameters of a template make a path too long.
    #[error(transparent)]
    Template(#[from] TooLong),
    /// A limit of [`crate::request::Limits`] is exceeded.
    #[error("the targets need more than {limit} {what}")]
    Limit {
        /// The limit that is exceeded.
        what: Limited,
        /// The value of the limit.
        limit: usize,
    },
    /// The [`Watch`] stopped the evaluation.
    #[error("the evaluation was stopped")]
    Stopped,
}

impl EvalError {
    /// What is expected at the position of the error, if that is known.
    pub fn expected(&self) -> Option<&str> {
        match self {
            Self::Argument { expected, .. } => expected.as_deref(),
            Self::NoSeries { .. } => Some(EXPRESSION),
            _ => None,
        }
    }
}

/// An error in a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct TargetError {
    /// The index of the target in the list, from 0.
    pub target: usize,
    /// What is wrong with it.
    #[source]
    pub error: EvalError,
}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Series must be fetched first. The context has recorded which.
    Missing,
    /// An argument of the current function is wrong.
    Argument(Mistake),
    Error(EvalError),
}

/// A problem of the arguments of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) reason: String,
    /// What the argument should be, if that is known.
    pub(crate) expected: Option<String>,
}

impl Mistake {
    pub(crate) fn expecting(reason: String, expected: impl Into<String>) -> Self {
        Self { reason, expected: Some(expected.into()) }
    }
}

impl From<String> for Mistake {
    fn from(reason: String) -> Self {
        Self { reason, expected: None }
    }
}

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Self {
        Self::Error(error)
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Argument(reason.into())
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Argument(reason.to_owned().into())
    }
}
