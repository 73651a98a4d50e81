//! How often promises are kept: `slo` and `sloErrorBudget`.

use crate::attime::parse_interval;
use crate::context::{Context, Fault};
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::general;
use crate::series::TimeSeries;

const INTERVAL: Param = Param::new("interval", Kind::Interval);
const METHODS: &[&str] = &["above", "aboveOrEqual", "below", "belowOrEqual"];
const METHOD: Param = Param::new("method", Kind::String).options(METHODS);
const VALUE: Param = Param::new("value", Kind::Float);

pub(super) const ALL: &[Function] = &[
    Function::new("slo", Group::Transform, &[SERIES, INTERVAL, METHOD, VALUE], |args, context| {
        shares(args, context, "slo", |kept, known, _| kept / known)
    })
    .about(
        "The share of the points of each interval that are above or below a value.",
        "slo(server.latency, '1h', 'below', 100)",
    ),
    Function::new(
        "sloErrorBudget",
        Group::Transform,
        &[SERIES, INTERVAL, METHOD, VALUE, Param::new("objective", Kind::Float)],
        error_budget,
    )
    .about(
        "How much of the errors that an objective allows is left in each interval.",
        "sloErrorBudget(server.latency, '1h', 'below', 100, 0.99)",
    ),
];

fn error_budget(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let objective = args.float(4);
    let allowed = 1.0 - objective;
    shares(args, context, "sloErrorBudget", move |kept, known, seconds| {
        if allowed <= 0.0 { f64::NAN } else { (kept / known - objective) * seconds }
    })
}

fn shares(
    args: &mut Args,
    context: &mut Context<'_>,
    function: &str,
    of: impl Fn(f64, f64, f64) -> f64,
) -> Outcome {
    let shown = args.text(1).to_owned();
    let seconds = parse_interval(&shown)?;
    if seconds < 1 {
        return Err("the interval must be longer than nothing".into());
    }
    let (method, value) = (args.text(2).to_owned(), args.float(3));
    let is_kept = |point: f64| match method.as_str() {
        "above" => point > value,
        "aboveOrEqual" => point >= value,
        "below" => point < value,
        _ => point <= value,
    };
    let judge = |series: TimeSeries| -> Result<TimeSeries, Fault> {
        let start = series.start - series.start.rem_euclid(seconds);
        let end = series.end + (-series.end).rem_euclid(seconds);
        let len = usize::try_from((end - start) / seconds).unwrap_or(0);
        context.count_points(len)?;
        let mut counts = vec![(0.0, 0.0); len];
        for (at, point) in (0i64..).zip(series.values.iter()).filter(|(_, point)| !point.is_nan()) {
            let bucket = usize::try_from((series.start + at * series.step - start) / seconds).unwrap_or(0);
            if let Some((kept, known)) = counts.get_mut(bucket) {
                *known += 1.0;
                *kept += f64::from(u8::from(is_kept(*point)));
            }
        }
        let values = counts.into_iter().map(|(kept, known)| of(kept, known, seconds as f64)).collect();
        let name = format!("{function}({}, {shown}, {method}, {})", series.name, general(value));
        Ok(TimeSeries { start, end, step: seconds, ..series.derived(name, values) })
    };
    Ok(args.series(0).into_iter().map(judge).collect::<Result<Vec<_>, _>>()?.into())
}
