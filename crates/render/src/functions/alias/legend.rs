//! Values in names: `legendValue` and `cactiStyle`.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float};
use crate::printf::padded;
use crate::series::TimeSeries;

const LEGENDS: &[&str] = &[
    "average",
    "avg_zero",
    "median",
    "sum",
    "min",
    "max",
    "diff",
    "stddev",
    "count",
    "range",
    "multiply",
    "last",
    "rangeOf",
    "avg",
    "total",
    "current",
    "averageSeries",
    "avg_zeroSeries",
    "medianSeries",
    "sumSeries",
    "minSeries",
    "maxSeries",
    "diffSeries",
    "stddevSeries",
    "countSeries",
    "rangeSeries",
    "multiplySeries",
    "lastSeries",
    "rangeOfSeries",
    "avgSeries",
    "totalSeries",
    "currentSeries",
    "si",
    "binary",
];

pub(super) const ALL: &[Function] = &[
    Function::new(
        "legendValue",
        Group::Alias,
        &[SERIES, Param::new("valuesTypes", Kind::String).optional().many().options(LEGENDS)],
        legend_value,
    )
    .about(
        "Adds values to names; with si or binary last, in columns and with units.",
        "legendValue(host.*.load, 'avg', 'max')",
    ),
    Function::new(
        "cactiStyle",
        Group::Special,
        &[
            SERIES,
            Param::new("system", Kind::String).optional().options(&["si", "binary"]),
            Param::new("units", Kind::String).optional(),
        ],
        cacti_style,
    )
    .about(
        "Adds the last, largest and smallest value to names, in columns.",
        "cactiStyle(host.*.load, 'si', 'b')",
    ),
];

/// Thousands that a number is shown in.
#[derive(Debug, Clone, Copy)]
enum System {
    Si,
    Binary,
}

impl System {
    fn named(name: &str) -> Option<Self> {
        match name {
            "si" => Some(Self::Si),
            "binary" => Some(Self::Binary),
            _ => None,
        }
    }

    /// `1.50k`.
    fn scaled(self, value: f64) -> (f64, &'static str) {
        let (base, prefixes): (f64, [&str; 5]) = match self {
            Self::Si => (1000.0, ["P", "T", "G", "M", "k"]),
            Self::Binary => (1024.0, ["Pi", "Ti", "Gi", "Mi", "Ki"]),
        };
        let even =
            |shown: f64| if shown - shown.floor() < 1e-11 && value > 1.0 { shown.floor() } else { shown };
        for (power, prefix) in (1..=5).rev().zip(prefixes) {
            let size = base.powi(power);
            if value.abs() >= size {
                return (even(value / size), prefix);
            }
        }
        (even(value), "")
    }
}

fn two_decimals(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { python_float(value) }
}

fn legend_value(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut types = args.texts(1);
    if types.is_empty() {
        return Err("the argument valuesTypes is missing".into());
    }
    let system = types.last().and_then(|last| System::named(last));
    if system.is_some() {
        types.pop();
    }
    let mut series = args.series(0);
    for kind in &types {
        let aggregate = Aggregate::named(kind);
        for series in &mut series {
            let value = aggregate.map(|aggregate| (aggregate, aggregate.of(&series.values)));
            series.name = match system {
                None => format!("{} ({kind}: {})", series.name, plain(value)),
                Some(system) => {
                    let shown = match value {
                        Some((_, value)) if !value.is_nan() => {
                            let (value, prefix) = system.scaled(value);
                            two_decimals(value) + prefix
                        }
                        value => plain(value),
                    };
                    format!("{}{}{}", padded(&series.name, -20), padded(kind, -5), padded(&shown, -10))
                }
            }
            .into();
        }
    }
    Ok(series.into())
}

fn plain(value: Option<(Aggregate, f64)>) -> String {
    match value {
        None => "(?)".to_owned(),
        Some((_, value)) if value.is_nan() => "None".to_owned(),
        Some((Aggregate::Count, value)) => general(value),
        Some((_, value)) => python_float(value),
    }
}

fn cacti_style(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let system = args.given_text(1).and_then(System::named);
    let units = args.given_text(2).filter(|units| !units.is_empty()).map(str::to_owned);
    let format = |value: f64| match (system, &units) {
        (None, None) => two_decimals(value),
        (None, Some(units)) => format!("{} {units}", two_decimals(value)),
        (Some(system), units) => {
            let (value, prefix) = system.scaled(value);
            match units {
                Some(units) => format!("{} {prefix}{units}", two_decimals(value)),
                None => two_decimals(value) + prefix,
            }
        }
    };
    let mut series = args.series(0);
    let widest = |method: Aggregate| {
        // Widths are those of whole parts, and of 3 where there is nothing to show, as in Graphite.
        let width = |series: &TimeSeries| match method.of(&series.values) {
            value if value.is_nan() || value == 0.0 => format(3.0).chars().count(),
            // Added to a zero the sign of "-0" goes.
            value => format(value.trunc() + 0.0).chars().count(),
        };
        series.iter().map(width).max().unwrap_or(0) as i64 + 3
    };
    let columns = [Aggregate::Last, Aggregate::Max, Aggregate::Min].map(|method| (method, widest(method)));
    let name_width = series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0) as i64;
    for series in &mut series {
        let mut name = padded(&series.name, -name_width);
        for ((method, width), label) in columns.iter().zip(["Current", "Max", "Min"]) {
            let value = method.of(&series.values);
            let shown = if value.is_nan() { "nan".to_owned() } else { format(value) };
            name.push_str(&format!(" {label}:{}", padded(&shown, -width)));
        }
        series.name = (name + " ").into();
    }
    Ok(series.into())
}
