//! Evaluates with `plumbago-render`. Returns the answer in the form that graphite-web's answers have here.

use std::collections::BTreeMap;

use plumbago_model::Series;
use plumbago_render::consolidate::{has_slots, points, time_span};
use plumbago_render::{
    Fetch, Fetched, Limits, Request, Source, Step, TimeRange, TimeSeries, TimeZone, evaluate, parse,
};
use serde_json::{Value, json};

use crate::cases::Case;
use crate::world::{self, NOW, Stored};

/// Maximum number of rounds of an evaluation.
const ROUNDS_MAX: usize = 100;

/// The answer: `{"series": […]}` or `{"refused": text}`.
pub(crate) fn evaluated(world: &[Stored], case: &Case) -> Value {
    match series(world, case) {
        Ok(series) => shown(&series, case),
        Err(error) => json!({ "refused": error }),
    }
}

fn series(world: &[Stored], case: &Case) -> Result<Vec<TimeSeries>, String> {
    let request = Request {
        range: TimeRange { from: case.from, until: case.until },
        now: NOW,
        zone: TimeZone::named(case.zone).unwrap(),
        x_files_factor: case.factor,
        templates: Vec::new(),
        limits: Limits::default(),
    };
    let targets = case.targets.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>();
    let targets = targets.map_err(|error| error.to_string())?;
    let mut fetched = Fetched::default();
    for _ in 0..ROUNDS_MAX {
        match evaluate(&targets, &request, &fetched).map_err(|error| error.to_string())? {
            Step::Done(series) => return Ok(series),
            Step::Fetch(plan) => {
                assert!(!plan.fetches.is_empty());
                for fetch in plan.fetches {
                    let series = read(world, &fetch);
                    fetched.insert(fetch, series);
                }
            }
        }
    }
    panic!("{:?} takes more than {ROUNDS_MAX} rounds", case.targets);
}

fn read(world: &[Stored], fetch: &Fetch) -> Vec<TimeSeries> {
    let found = match fetch.source {
        Source::Glob => world::matching(world, &fetch.expression),
        Source::Tags => world::tagged(world, &fetch.expression),
        Source::Events => return vec![no_events(fetch)],
    };
    let cut = |stored: &&Stored| {
        let series = stored.cut(fetch.range.from, fetch.range.until);
        TimeSeries::fetched(series, &fetch.expression, 0.0)
    };
    found.iter().map(cut).collect()
}

/// An empty series of events, because graphite-web has no events in this test either.
fn no_events(fetch: &Fetch) -> TimeSeries {
    let TimeRange { from, until } = fetch.range;
    let values = vec![f64::NAN; usize::try_from(until - from).unwrap()];
    TimeSeries::fetched(
        Series { name: "events".into(), start: from, step: 1, values },
        &fetch.expression,
        0.0,
    )
}

fn shown(series: &[TimeSeries], case: &Case) -> Value {
    let mut answer = json!({ "series": series.iter().map(one).collect::<Vec<_>>() });
    if case.width.is_some() {
        let span = time_span(series);
        let thinned = |series: &TimeSeries| {
            let points = points(series, span, case.width);
            let point = |(at, value): (i64, &f64)| json!([number(*value), points.start + at * points.step]);
            (0..).zip(points.values.iter()).map(point).collect::<Vec<_>>()
        };
        let series = if has_slots(series) { series } else { &[] };
        answer["points"] = series.iter().map(thinned).collect::<Vec<_>>().into();
    }
    answer
}

fn one(series: &TimeSeries) -> Value {
    let tags: BTreeMap<&str, &str> = series.tags.iter().collect();
    let options = &series.options;
    let mut drawn = BTreeMap::new();
    for (name, value) in
        [("alpha", options.alpha), ("lineWidth", options.line_width), ("dashed", options.dashed)]
    {
        if let Some(value) = value {
            drawn.insert(name, json!(value));
        }
    }
    for (name, is_set) in [
        ("secondYAxis", options.second_y_axis),
        ("stacked", options.stacked),
        ("invisible", options.invisible),
        ("drawAsInfinite", options.draw_as_infinite),
    ] {
        if is_set {
            drawn.insert(name, json!(1.0));
        }
    }
    if let Some(color) = &options.color {
        drawn.insert("color", json!(&**color));
    }
    json!({
        "name": &*series.name,
        "path": &*series.path_expression,
        "start": series.start,
        "end": series.end,
        "step": series.step,
        "values": series.values.iter().map(|value| number(*value)).collect::<Vec<_>>(),
        "tags": tags,
        "consolidation": series.consolidation.name(),
        "factor": number(series.x_files_factor),
        "options": drawn,
    })
}

fn number(value: f64) -> Value {
    if value.is_nan() {
        Value::Null
    } else if value.is_infinite() {
        json!(if value > 0.0 { "inf" } else { "-inf" })
    } else {
        json!(value)
    }
}
