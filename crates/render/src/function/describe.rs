//! The functions as `/functions` shows them: plain data, to be serialised by the caller.

use super::param::{Default, Kind, Param};
use super::{Function, all};
use crate::aggregate;

/// A function.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The name that it is called by.
    pub name: &'static str,
    /// Its name and parameters as a signature: `scale(seriesList, factor)`.
    pub function: String,
    /// What it does, then an example.
    pub description: String,
    /// The module that graphite-web has it in.
    pub module: &'static str,
    /// Its family.
    pub group: &'static str,
    /// Its parameters.
    pub params: Vec<Parameter>,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name, for keyword arguments.
    pub name: &'static str,
    /// What it must be, in graphite-web's words.
    pub kind: &'static str,
    /// It must be given.
    pub is_required: bool,
    /// It may be given several times.
    pub is_multiple: bool,
    /// What it is when it is not given.
    pub default: Option<Constant>,
    /// All values that it may have, when they can be listed.
    pub options: Vec<String>,
    /// Some values that editors may offer.
    pub suggestions: Vec<Constant>,
}

/// A constant of a declaration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constant {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any number; infinity is one.
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

/// The modes of pies, which are asked for with `type=pie`.
pub fn pies() -> Vec<Description> {
    let pie = |(name, about): (&'static str, &str)| Description {
        name,
        function: format!("{name}(series)"),
        description: about.to_owned(),
        module: MODULE,
        group: super::Group::Pie.name(),
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
        Constant::Float(number) => crate::python_float(number),
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
