//! `changed`: 1 where a value differs from the last known one, and 0 elsewhere.

use crate::context::Context;
use crate::function::{Args, Function, Group, Outcome, SERIES};

pub(super) const ALL: &[Function] = &[Function::new("changed", Group::Special, &[SERIES], changed)
    .about("1 where a value differs from the last known one, and 0 elsewhere.", "changed(server.state)")];

fn changed(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut series = args.series(0);
    for series in &mut series {
        series.rename(format!("changed({})", series.name));
        series.is_whole = true;
        let mut last = f64::NAN;
        for value in series.values_mut() {
            let is_change = !value.is_nan() && !last.is_nan() && *value != last;
            if !value.is_nan() {
                last = *value;
            }
            *value = f64::from(u8::from(is_change));
        }
    }
    Ok(series.into())
}
