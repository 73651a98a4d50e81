//! What changes how series are read later.

use crate::function::{Args, Function, Kind, Need, Param};
use crate::request::Request;
use crate::series::{Consolidation, TimeSeries};

/// `consolidateBy(seriesList, function)`.
pub(crate) const CONSOLIDATE_BY: Function = Function {
    names: &["consolidateBy"],
    params: &[
        Param { name: "seriesList", kind: Kind::Series, need: Need::Once },
        Param { name: "consolidationFunc", kind: Kind::String, need: Need::Once },
    ],
    eval: consolidate_by,
};

fn consolidate_by(mut args: Args, _: &Request) -> Result<Vec<TimeSeries>, String> {
    let name = args.text(1).to_owned();
    let Some(consolidation) = Consolidation::named(&name) else {
        return Err(format!("{name:?} is none of sum, average, avg_zero, max, min, first, last"));
    };
    let mut series = args.series(0);
    for series in &mut series {
        series.consolidation = consolidation;
        series.tags.set("consolidateBy", &*name);
        series.rename(format!("consolidateBy({},\"{name}\")", series.name));
    }
    Ok(series)
}
