//! Descriptions of all functions for `/functions`, as plain data.

use crate::aggregate;
use crate::function::{Default, Function, Group, Kind, Param};
use crate::functions::all;
use crate::number::python_float;

/// The description of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The name under which it is called.
    pub name: &'static str,
    /// The signature, such as `scale(seriesList, factor)`.
    pub function: String,
    /// What the function does, and an example.
    pub description: String,
    /// The module of graphite-web that contains it.
    pub module: &'static str,
    /// The group under which `/functions` lists the function.
    pub group: &'static str,
    /// The parameters, in order.
    pub params: Vec<Parameter>,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name, which is also that of the keyword argument.
    pub name: &'static str,
    /// The name of the type in graphite-web.
    pub kind: &'static str,
    /// Whether a call must give the parameter.
    pub is_required: bool,
    /// Whether a call may give the parameter several times.
    pub is_multiple: bool,
    /// The value if the parameter is missing; `None` if there is no default.
    pub default: Option<Constant>,
    /// All possible values, if they can be listed.
    pub options: Vec<String>,
    /// Values that editors suggest.
    pub suggestions: Vec<Constant>,
}

/// A constant in a declaration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constant {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any number, infinity included.
    Float(f64),
    /// A text.
    Text(&'static str),
}

/// All functions under all of their names, sorted by name.
pub fn functions() -> Vec<Description> {
    let mut all: Vec<Description> = all().map(|(name, function)| described(name, function)).collect();
    all.sort_by_key(|description| description.name);
    all
}

/// The modes of pie charts, for `type=pie`.
pub fn pies() -> Vec<Description> {
    let pie = |(name, about): (&'static str, &str)| Description {
        name,
        function: format!("{name}(series)"),
        description: about.to_owned(),
        module: MODULE,
        group: Group::Pie.name(),
        params: vec![parameter(&Param::new("series", Kind::OneSeries))],
    };
    let modes = [
        ("average", "The size of a slice is the mean of the series."),
        ("maximum", "The size of a slice is the largest value of the series."),
        ("minimum", "The size of a slice is the smallest value of the series."),
    ];
    modes.into_iter().map(pie).collect()
}

const MODULE: &str = "graphite.render.functions";

fn described(name: &'static str, function: &Function) -> Description {
    let signature = |param: &Param| match (param.is_multiple, constant(param.default)) {
        (true, _) => format!("*{}", param.name),
        (false, None) if param.is_required => param.name.to_owned(),
        (false, None) => format!("{}=None", param.name),
        (false, Some(default)) => format!("{}={}", param.name, shown(default)),
    };
    let params: Vec<String> = function.params.iter().map(signature).collect();
    Description {
        name,
        function: format!("{name}({})", params.join(", ")),
        description: format!("{}\n\nExample: {}", function.about, function.example),
        module: MODULE,
        group: function.group.name(),
        params: function.params.iter().map(parameter).collect(),
    }
}

fn parameter(param: &Param) -> Parameter {
    Parameter {
        name: param.name,
        kind: kind(param.kind),
        is_required: param.is_required,
        is_multiple: param.is_multiple,
        default: constant(param.default),
        options: options(param),
        suggestions: param.suggestions.iter().filter_map(|suggestion| constant(*suggestion)).collect(),
    }
}

fn options(param: &Param) -> Vec<String> {
    let mut options: Vec<String> = param.options.iter().map(|&option| option.to_owned()).collect();
    if matches!(param.kind, Kind::AggFunc | Kind::AggOrSeriesFunc) {
        options.extend(aggregate::NAMES.iter().map(|(name, _)| (*name).to_owned()));
    }
    if param.kind == Kind::AggOrSeriesFunc {
        options.extend(all().filter(|(_, function)| function.is_callback).map(|(name, _)| name.to_owned()));
    }
    options.sort_unstable();
    options.dedup();
    options
}

fn constant(default: Default) -> Option<Constant> {
    match default {
        Default::None => None,
        Default::Boolean(flag) => Some(Constant::Boolean(flag)),
        Default::Integer(number) => Some(Constant::Integer(number)),
        Default::Float(number) => Some(Constant::Float(number)),
        Default::Text(text) => Some(Constant::Text(text)),
    }
}

fn shown(constant: Constant) -> String {
    match constant {
        Constant::Boolean(true) => "True".to_owned(),
        Constant::Boolean(false) => "False".to_owned(),
        Constant::Integer(number) => number.to_string(),
        Constant::Float(number) => python_float(number),
        Constant::Text(text) => format!("'{text}'"),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Series => "seriesList",
        Kind::Lists => "seriesLists",
        Kind::OneSeries => "series",
        Kind::Any => "any",
        Kind::Boolean => "boolean",
        Kind::Date => "date",
        Kind::Float => "float",
        Kind::Integer => "integer",
        Kind::IntOrInf => "intOrInf",
        Kind::IntOrInterval => "intOrInterval",
        Kind::Interval => "interval",
        Kind::Node => "node",
        Kind::NodeOrTag => "nodeOrTag",
        Kind::String => "string",
        Kind::Tag => "tag",
        Kind::AggFunc => "aggFunc",
        Kind::AggOrSeriesFunc => "aggOrSeriesFunc",
    }
}
