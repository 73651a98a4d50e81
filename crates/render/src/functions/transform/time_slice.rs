//! `timeSlice`: keeps only the points between two times.

use crate::attime;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};

pub(super) const ALL: &[Function] = &[Function::new(
    "timeSlice",
    Group::Transform,
    &[
        SERIES,
        Param::new("startSliceAt", Kind::Date),
        Param::new("endSliceAt", Kind::Date).default(Default::Text("now")),
    ],
    time_slice,
)
.about(
    "Keeps only the points between two times.",
    "timeSlice(server.requests, '00:00_20240101', '23:59_20240107')",
)];

fn time_slice(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let request = context.request();
    let time = |text: &str| -> Result<i64, Fault> {
        Ok(attime::parse(text, request.now, &request.zone).map_err(|error| error.to_string())?)
    };
    let (start, end) = (time(args.text(1))?, time(args.text(2))?);
    let mut series = args.series(0);
    for series in &mut series {
        series.tags.set("timeSliceStart", start.to_string());
        series.tags.set("timeSliceEnd", end.to_string());
        series.name = format!("timeSlice({}, {start}, {end})", series.name).into();
        // As in Graphite, the times of points are counted from the start of the request, not from the first
        // point.
        let (from, step) = (context.range.from, series.step);
        for (at, value) in (0i64..).zip(series.values_mut()) {
            if !(start..=end).contains(&(from + at * step)) {
                *value = f64::NAN;
            }
        }
    }
    Ok(series.into())
}
