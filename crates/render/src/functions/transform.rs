//! One series into one, value by value.

use crate::function::{Args, Function, Kind, Need, Param};
use crate::number::{general, python_float};
use crate::request::Request;
use crate::series::TimeSeries;

/// `scale(seriesList, factor)`.
pub(crate) const SCALE: Function = Function {
    names: &["scale"],
    params: &[
        Param { name: "seriesList", kind: Kind::Series, need: Need::Once },
        Param { name: "factor", kind: Kind::Float, need: Need::Once },
    ],
    eval: scale,
};

fn scale(mut args: Args, _: &Request) -> Result<Vec<TimeSeries>, String> {
    let factor = args.float(1);
    let mut series = args.series(0);
    for series in &mut series {
        series.tags.set("scale", python_float(factor));
        series.rename(format!("scale({},{})", series.name, general(factor)));
        series.values_mut().iter_mut().for_each(|value| *value *= factor);
    }
    Ok(series)
}
