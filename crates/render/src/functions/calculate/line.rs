//! `aggregateLine`: draws a line at the aggregate of all points of each series.

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::functions::special::constant_line;
use crate::number::{general, python_number};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "aggregateLine",
    Group::Calculate,
    &[
        SERIES,
        Param::new("func", Kind::AggFunc).default(Default::Text("average")),
        Param::new("keepStep", Kind::Boolean).default(Default::Boolean(false)),
    ],
    aggregate_line,
)
.about("Draws a line at the aggregate of all points of each series.", "aggregateLine(server.load, 'max')")];

fn aggregate_line(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (method, _) = args.aggregate(1)?;
    let keeps_step = args.flag(2);
    let line = |series: TimeSeries| {
        let value = method.of(&series.values);
        let shown = if value.is_nan() { "None".to_owned() } else { general(value) };
        let name = format!("aggregateLine({}, {shown})", series.name);
        let known = series.values.iter().filter(|value| !value.is_nan()).count();
        let is_whole = method.is_whole(series.is_whole, known);
        if keeps_step {
            let values = vec![value; series.values.len()];
            return series.derived(name, values).whole(is_whole);
        }
        let text = if value.is_nan() { "None".to_owned() } else { python_number(value, is_whole) };
        let mut line = constant_line(value, text, context).whole(is_whole);
        line.rename(name);
        line
    };
    Ok(args.series(0).into_iter().map(line).collect::<Vec<_>>().into())
}
