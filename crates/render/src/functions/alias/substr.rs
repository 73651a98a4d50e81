//! `substr` and `aliasByMetric`: parts of the innermost path in a name.

use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};

pub(super) const ALL: &[Function] = &[
    Function::new("aliasByMetric", Group::Alias, &[SERIES], |args, _| named(args, -1, 0))
        .about("Names series by the last component of their path.", "aliasByMetric(host.*.load)"),
    Function::new(
        "substr",
        Group::Special,
        &[
            SERIES,
            Param::new("start", Kind::Node).default(Default::Integer(0)),
            Param::new("stop", Kind::Node).default(Default::Integer(0)),
        ],
        |args, _| {
            let (start, stop) = (args.int(1), args.int(2));
            named(args, start, stop)
        },
    )
    .about(
        "Names series by the components of their path from start up to stop (exclusive).",
        "substr(host.*.cpu.load, 1, 3)",
    ),
];

fn named(args: &mut Args, start: i64, stop: i64) -> Outcome {
    let mut series = args.series(0);
    series.iter_mut().for_each(|series| series.name = substr(&series.name, start, stop).into());
    Ok(series.into())
}

/// Selects components from the text between the last opening bracket and the first closing one.
fn substr(name: &str, start: i64, stop: i64) -> String {
    let left = name.rfind('(').map_or(0, |at| at + 1);
    let right = name.find(')').unwrap_or(name.len());
    let path = name.get(left..right).unwrap_or_default();
    let components: Vec<&str> = path.split('.').collect();
    let place = |at: i64| {
        let at = if at < 0 { at.saturating_add(components.len() as i64) } else { at };
        usize::try_from(at.max(0)).unwrap_or(0).min(components.len())
    };
    let last = if stop == 0 { components.len() } else { place(stop) };
    let joined = components.get(place(start)..last).unwrap_or_default().join(".");
    match joined.split_once(',') {
        Some((before, _)) => before.to_owned(),
        None => joined,
    }
}
