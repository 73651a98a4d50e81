//! What a function is: one declaration, which calls are checked against and which `/functions` and
//! the documentation are made of, and one pure function.
//!
//! A new function is an entry in a file of `functions`, and the file in `ALL` of its family.

mod args;
mod convert;
pub mod describe;
mod param;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use args::{Args, Value};
pub(crate) use param::{Default, Kind, Param, SERIES, WINDOWS};

use crate::context::{Context, Fault};
use crate::functions;
use crate::request::TimeRange;
use crate::series::TimeSeries;

/// What the evaluation of a call gives.
pub(crate) type Outcome = Result<Value, Fault>;

/// The families, as `/functions` calls them.
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
    /// The ranges over which it will read its first argument again, as far as its other arguments
    /// tell; asked while the series are still to be fetched.
    pub(crate) ranges: Option<Ranges>,
    /// May be named as the callback of `groupByNode` and its like.
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

    /// Other names of it.
    pub(crate) const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(crate) const fn reads(self, ranges: Ranges) -> Self {
        Self { ranges: Some(ranges), ..self }
    }

    pub(crate) const fn callback(self) -> Self {
        Self { is_callback: true, ..self }
    }

    /// What it does, and a call of it.
    pub(crate) const fn about(self, about: &'static str, example: &'static str) -> Self {
        Self { about, example, ..self }
    }
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let all = functions::ALL.iter().flat_map(|family| family.iter()).flat_map(|file| file.iter());
    all.flat_map(|f| std::iter::once(f.name).chain(f.aliases.iter().copied()).map(move |name| (name, f)))
        .collect()
});

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    BY_NAME.get(name).copied()
}

/// All functions by all of their names.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Function)> {
    BY_NAME.iter().map(|(name, function)| (*name, *function))
}

/// Calls a function by its name with values instead of expressions.
pub(crate) fn call(
    name: &str,
    values: Vec<Value>,
    context: &mut Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    let function = find(name).ok_or_else(|| format!("unknown function {name}"))?;
    context.count_call()?;
    let mut args = Args::bind(function.params, values, Vec::new()).map_err(|e| format!("{name}: {e}"))?;
    match (function.eval)(&mut args, context)? {
        Value::Series(series) => Ok(series),
        _ => Err(format!("{name} gives no series").into()),
    }
}
