//! Lines that are made without series: `constantLine`, `threshold`, `verticalLine`.

use crate::attime;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::number::python_float;
use crate::series::{DrawOptions, TimeSeries};

const LABEL: Param = Param::new("label", Kind::String).optional();
const COLOR: Param = Param::new("color", Kind::String).optional();

pub(super) const ALL: &[Function] = &[
    Function::new("constantLine", Group::Special, &[Param::new("value", Kind::Float)], |args, context| {
        let value = args.float(0);
        Ok(vec![constant_line(value, python_float(value), context)].into())
    })
    .about("Draws a line at a value.", "constantLine(99.9)"),
    Function::new("threshold", Group::Graph, &[Param::new("value", Kind::Float), LABEL, COLOR], threshold)
        .about("Draws a line at a value, with a label and a colour.", "threshold(99.9, 'promised', 'red')"),
    Function::new("verticalLine", Group::Graph, &[Param::new("ts", Kind::Date), LABEL, COLOR], vertical_line)
        .about("Draws a vertical line at a time.", "verticalLine('12:00_20240101', 'noon', 'blue')"),
];

/// A line of three points: at the start, in the middle and at the end of the graph.
pub(crate) fn constant_line(value: f64, name: String, context: &Context<'_>) -> TimeSeries {
    let (from, until) = (context.range.from, context.range.until);
    let path_expression = format!("constantLine({name})").into();
    let times = (from, until, (until - from) / 2);
    TimeSeries { path_expression, ..TimeSeries::made(name, times, vec![value; 3], context.x_files_factor) }
}

fn threshold(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let value = args.float(0);
    let mut line = constant_line(value, python_float(value), context);
    if let Some(label) = args.given_text(1).filter(|label| !label.is_empty()) {
        line.name = label.into();
    }
    line.options.color = args.given_text(2).filter(|color| !color.is_empty()).map(Into::into);
    Ok(vec![line].into())
}

fn vertical_line(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let request = context.request();
    let time = attime::parse(args.text(0), request.now, &request.zone).map_err(|error| error.to_string())?;
    if time < context.range.from || time > context.range.until {
        return Err(format!("the time {time} is outside of the graph").into());
    }
    let name = args.given_text(1).unwrap_or_default().to_owned();
    let mut line = TimeSeries::made(name, (time, time, 1), vec![1.0, 1.0], context.x_files_factor);
    let color = args.given_text(2).filter(|color| !color.is_empty()).map(Into::into);
    line.options = DrawOptions { color, draw_as_infinite: true, ..DrawOptions::default() };
    Ok(vec![line].into())
}
