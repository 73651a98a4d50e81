//! Functions that show values in names: `legendValue` and `cactiStyle`.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{python_float, python_number};
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
        "Adds values to names. With si or binary as the last argument, the values have units and are in \
         columns.",
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
        "Adds the last, the largest and the smallest value to names, in columns.",
        "cactiStyle(host.*.load, 'si', 'b')",
    ),
];

/// The unit prefixes for large numbers.
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

    /// Divides a number by its unit, and returns the prefix of the unit.
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
            let value =
                aggregate.map(|aggregate| (aggregate.of(&series.values), is_whole(aggregate, series)));
            series.name = match system {
                None => format!("{} ({kind}: {})", series.name, plain(value)),
                Some(system) => {
                    let shown = match value {
                        Some((value, _)) if !value.is_nan() => {
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

/// Formats a value. The flag says that it is an integer in graphite-web; `None` stands for an unknown
/// aggregation.
fn plain(value: Option<(f64, bool)>) -> String {
    match value {
        None => "(?)".to_owned(),
        Some((value, _)) if value.is_nan() => "None".to_owned(),
        Some((value, is_whole)) => python_number(value, is_whole),
    }
}

fn is_whole(aggregate: Aggregate, series: &TimeSeries) -> bool {
    let known = series.values.iter().filter(|value| !value.is_nan()).count();
    aggregate.is_whole(series.is_whole, known)
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
        // As in Graphite, the width of a column is that of the whole parts, or of the number 3 if there is no
        // value.
        let width = |series: &TimeSeries| match method.of(&series.values) {
            value if value.is_nan() || value == 0.0 => format(3.0).chars().count(),
            // Adding 0.0 turns -0.0 into 0.0.
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
