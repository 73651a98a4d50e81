//! The declaration of a function of the target language. Calls are checked against it, and `/functions` is made
//! from it.
//!
//! To add a function, write a file in `functions`, and add its two lines (`mod` and `ALL`) to its family.

mod args;
mod convert;
mod param;

pub(crate) use args::Args;
pub(crate) use param::{Default, Kind, Param, SERIES, WINDOWS};

use crate::context::Context;
use crate::fault::Fault;
use crate::request::TimeRange;
pub(crate) use crate::value::Value;

/// The result of a call.
pub(crate) type Outcome = Result<Value, Fault>;

/// The groups of functions in `/functions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Alias,
    Calculate,
    Combine,
    FilterData,
    FilterSeries,
    Graph,
    Pie,
    Sorting,
    Special,
    Transform,
}

impl Group {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Alias => "Alias",
            Self::Calculate => "Calculate",
            Self::Combine => "Combine",
            Self::FilterData => "Filter Data",
            Self::FilterSeries => "Filter Series",
            Self::Graph => "Graph",
            Self::Pie => "Pie",
            Self::Sorting => "Sorting",
            Self::Special => "Special",
            Self::Transform => "Transform",
        }
    }
}

type Eval = fn(&mut Args, &mut Context<'_>) -> Outcome;
type Ranges = fn(&Args, &Context<'_>) -> Result<Vec<TimeRange>, Fault>;

/// A function of the target language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) group: Group,
    pub(crate) params: &'static [Param],
    pub(crate) eval: Eval,
    /// Returns further time ranges of the first argument that the function needs, if they follow from the other
    /// arguments. Called before the first argument is fetched, so that all ranges are fetched together.
    pub(crate) ranges: Option<Ranges>,
    /// Whether `groupByNode` and similar functions accept this function as a callback.
    pub(crate) is_callback: bool,
    pub(crate) about: &'static str,
    pub(crate) example: &'static str,
}

impl Function {
    pub(crate) const fn new(name: &'static str, group: Group, params: &'static [Param], eval: Eval) -> Self {
        Self {
            name,
            aliases: &[],
            group,
            params,
            eval,
            ranges: None,
            is_callback: false,
            about: "",
            example: "",
        }
    }

    /// Sets aliases.
    pub(crate) const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(crate) const fn reads(self, ranges: Ranges) -> Self {
        Self { ranges: Some(ranges), ..self }
    }

    pub(crate) const fn callback(self) -> Self {
        Self { is_callback: true, ..self }
    }

    /// Sets the description and an example.
    pub(crate) const fn about(self, about: &'static str, example: &'static str) -> Self {
        Self { about, example, ..self }
    }
}
