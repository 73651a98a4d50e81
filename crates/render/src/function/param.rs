//! The parameters of functions.

/// A parameter of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    /// Whether the parameter takes any number of arguments (at least one if it is required). Only the last
    /// parameter may do so.
    pub(crate) is_multiple: bool,
    pub(crate) default: Default,
    /// The permitted values. Empty if the type determines them.
    pub(crate) options: &'static [&'static str],
    pub(crate) suggestions: &'static [Default],
    /// An alias: for some parameters graphite-web's declaration and code have different names.
    pub(crate) alias: &'static str,
}

/// The default of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Default {
    None,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'static str),
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Series,
    /// The groups that `mapSeries` returns.
    Lists,
    Any,
    Boolean,
    Date,
    Float,
    Integer,
    IntOrInf,
    IntOrInterval,
    Interval,
    Node,
    NodeOrTag,
    String,
    Tag,
    AggFunc,
    /// An aggregation, or a function that is a callback.
    AggOrSeriesFunc,
    /// One series, for the modes of pie charts. No call has such a parameter.
    OneSeries,
}

/// The first parameter of nearly every function.
pub(crate) const SERIES: Param = Param::new("seriesList", Kind::Series);

/// Windows that editors suggest for moving functions.
pub(crate) const WINDOWS: &[Default] = &[
    Default::Integer(5),
    Default::Integer(7),
    Default::Integer(10),
    Default::Text("1min"),
    Default::Text("5min"),
    Default::Text("10min"),
    Default::Text("30min"),
    Default::Text("1hour"),
];

impl Param {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            is_required: true,
            is_multiple: false,
            default: Default::None,
            options: &[],
            suggestions: &[],
            alias: "",
        }
    }

    /// Makes the parameter optional.
    pub(crate) const fn optional(self) -> Self {
        Self { is_required: false, ..self }
    }

    pub(crate) const fn default(self, default: Default) -> Self {
        Self { is_required: false, default, ..self }
    }

    pub(crate) const fn many(self) -> Self {
        Self { is_multiple: true, ..self }
    }

    pub(crate) const fn options(self, options: &'static [&'static str]) -> Self {
        Self { options, ..self }
    }

    pub(crate) const fn alias(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    pub(crate) const fn suggest(self, suggestions: &'static [Default]) -> Self {
        Self { suggestions, ..self }
    }
}
