//! `upper` and `lower`.

use crate::function::{Args, Function, Group, Kind, Param, SERIES, Value};

const PARAMS: &[Param] = &[SERIES, Param::new("pos", Kind::Integer).optional().many()];

pub(super) const ALL: &[Function] = &[
    Function::new("upper", Group::Alias, PARAMS, |args, _| Ok(changed(args, str::to_uppercase)))
        .or(&["toUpperCase"])
        .about(
            "Changes names to capital letters, in whole or only at some positions.",
            "upper(host.*.load, 0)",
        ),
    Function::new("lower", Group::Alias, PARAMS, |args, _| Ok(changed(args, str::to_lowercase)))
        .or(&["toLowerCase"])
        .about("Changes names to small letters, in whole or only at some positions.", "lower(host.*.LOAD)"),
];

fn changed(args: &mut Args, change: fn(&str) -> String) -> Value {
    let places: Vec<i64> = args.literals(1).filter_map(|place| place.python().parse().ok()).collect();
    let mut series = args.series(0);
    for series in &mut series {
        if places.is_empty() {
            series.name = change(&series.name).into();
            continue;
        }
        let mut letters: Vec<String> = series.name.chars().map(String::from).collect();
        for place in &places {
            let at = if *place < 0 { place.saturating_add(letters.len() as i64) } else { *place };
            if let Some(letter) = usize::try_from(at).ok().and_then(|at| letters.get_mut(at)) {
                *letter = change(letter);
            }
        }
        series.name = letters.concat().into();
    }
    series.into()
}
