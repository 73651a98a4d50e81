//! `aggregateLine`.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::functions::special::constant_line;
use crate::number::{general, python_float};
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
.about("A line at the aggregate of all points of a series.", "aggregateLine(server.load, 'max')")];

fn aggregate_line(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (method, _) = args.aggregate(1)?;
    let keeps_step = args.flag(2);
    let line = |series: TimeSeries| {
        let value = method.of(&series.values);
        let shown = if value.is_nan() { "None".to_owned() } else { general(value) };
        let name = format!("aggregateLine({}, {shown})", series.name);
        if keeps_step {
            let values = vec![value; series.values.len()];
            return series.derived(name, values);
        }
        let text = match method {
            _ if value.is_nan() => "None".to_owned(),
            Aggregate::Count => general(value),
            _ => python_float(value),
        };
        let mut line = constant_line(value, text, context);
        line.rename(name);
        line
    };
    Ok(args.series(0).into_iter().map(line).collect::<Vec<_>>().into())
}
