//! Functions that set drawing options. As in Graphite, some of them change names too.

use std::sync::Arc;

use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::general;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[
    Function::new("alpha", Group::Graph, &[SERIES, Param::new("alpha", Kind::Float)], |args, _| {
        let alpha = args.float(1);
        each(args, |series| series.options.alpha = Some(alpha))
    })
    .about("Sets the opacity, from 0 to 1.", "alpha(server.load, 0.5)"),
    Function::new("color", Group::Graph, &[SERIES, Param::new("theColor", Kind::String)], |args, _| {
        let color: Arc<str> = args.text(1).into();
        each(args, |series| series.options.color = Some(Arc::clone(&color)))
    })
    .about("Sets the colour, by name or in hexadecimal digits.", "color(server.load, 'red')"),
    Function::new("lineWidth", Group::Graph, &[SERIES, Param::new("width", Kind::Float)], |args, _| {
        let width = args.float(1);
        each(args, |series| series.options.line_width = Some(width))
    })
    .about("Sets the width of the line in pixels.", "lineWidth(server.load, 2)"),
    Function::new(
        "dashed",
        Group::Graph,
        &[SERIES, Param::new("dashLength", Kind::Integer).default(Default::Integer(5))],
        |args, _| {
            let length = args.int(1);
            each(args, |series| {
                series.tags.set("dashed", length.to_string());
                series.name = format!("dashed({}, {})", series.name, general(length as f64)).into();
                series.options.dashed = Some(length as f64);
            })
        },
    )
    .about("Draws a dashed line.", "dashed(server.load, 3)"),
    Function::new("secondYAxis", Group::Graph, &[SERIES], |args, _| {
        each(args, |series| {
            series.options.second_y_axis = true;
            marked(series, "secondYAxis");
        })
    })
    .about("Uses the axis on the right.", "secondYAxis(server.temperature)"),
    Function::new("drawAsInfinite", Group::Graph, &[SERIES], |args, _| {
        each(args, |series| {
            series.options.draw_as_infinite = true;
            marked(series, "drawAsInfinite");
        })
    })
    .about(
        "Draws a line from the bottom to the top where the value is above zero.",
        "drawAsInfinite(server.restarts)",
    ),
];

fn each(args: &mut Args, change: impl Fn(&mut TimeSeries)) -> Outcome {
    let mut series = args.series(0);
    series.iter_mut().for_each(change);
    Ok(series.into())
}

fn marked(series: &mut TimeSeries, function: &str) {
    series.tags.set(function, "1");
    series.name = format!("{function}({})", series.name).into();
}
