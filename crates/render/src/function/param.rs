//! The parameters of functions.

/// A parameter of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    /// Takes any number of arguments (one or more when it is required); only the last parameter.
    pub(crate) is_multiple: bool,
    pub(crate) default: Default,
    /// The values it may have, beside those of its kind.
    pub(crate) options: &'static [&'static str],
    pub(crate) suggestions: &'static [Default],
    /// Another name of it: Graphite's declaration and its code differ in some.
    pub(crate) alias: &'static str,
}

/// What a parameter is when it is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Default {
    None,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'static str),
}

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Series,
    /// What `mapSeries` gives.
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
    /// An aggregation or a function that is a callback.
    AggOrSeriesFunc,
    /// One series, for the modes of pies; no call is ever bound to it.
    OneSeries,
}

/// Nearly every function's first parameter.
pub(crate) const SERIES: Param = Param::new("seriesList", Kind::Series);

/// Windows of moving functions that editors offer.
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

    /// It may be left out.
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
