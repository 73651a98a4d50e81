//! `aliasByBase64`: decodes base64 in names, or in one component of the path (counted from 1). A text that
//! is not base64 stays as it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "aliasByBase64",
    Group::Alias,
    &[SERIES, Param::new("nodeNum", Kind::Integer).optional()],
    alias_by_base64,
)
.about(
    "Decodes base64 in names, or in one component of the path (counted from 1). A text that is not base64 stays as it is.",
    "aliasByBase64(host.*.errors, 2)",
)];

fn alias_by_base64(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let node = args.given_int(1);
    let mut series = args.series(0);
    for series in &mut series {
        let name = match node {
            None => decoded(&series.name),
            Some(node) => usize::try_from(node).ok().and_then(|node| with_decoded(series, node)),
        };
        if let Some(name) = name {
            series.name = name.into();
        }
    }
    Ok(series.into())
}

/// The path with one of its components decoded. Components are counted from 1.
fn with_decoded(series: &TimeSeries, number: usize) -> Option<String> {
    let node = number.checked_sub(1)?;
    let mut components: Vec<&str> = series.tags.get("name")?.split('.').collect();
    let text = decoded(components.get(node)?)?;
    components[node] = &text;
    Some(components.join("."))
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}
