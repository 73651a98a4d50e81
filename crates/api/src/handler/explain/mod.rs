//! `/plumbago/explain`: why the answer of `/render` to the same parameters looks as it does.
//!
//! The targets are evaluated as for `/render`. The answer shows each call with its result, each fetch with
//! the names that were found, the stage that answers, where its points are, and how much of each limit was
//! used.

mod kept;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request as HttpRequest;
use axum::response::{IntoResponse, Response};
use plumbago_model::{MetricConfig, Period};
use plumbago_render::consolidate::{points, time_span};
use plumbago_render::{FetchPlan, Source, Step, TimeSeries};
use plumbago_store::{FetchRequest, Provenance};
use serde_json::{Value, json};

use self::kept::from_cache;
use self::trace::{Trace, millis};
use super::reading::{FetchNote, Reading};
use super::render::{self, Evaluation};
use super::render_params::RenderParams;
use crate::cache::FetchPoints;
use crate::error::{ApiError, with_fault};
use crate::format::wrap::Wrapping;
use crate::memory::{Account, Waiting};
use crate::params::Params;
use crate::state::Api;

/// Maximum number of metrics of a fetch that are explained one by one.
const METRICS_PER_FETCH: usize = 100;
/// Maximum number of metrics of a request that are explained one by one.
const METRICS_MAX: usize = 500;
/// Maximum number of series of the answer that are shown one by one.
const SERIES_MAX: usize = 100;
/// Approximate number of slots in one read for an explanation.
const SLOTS_AT_ONCE: usize = 1 << 18;

/// Answers a request to `/plumbago/explain`.
pub(super) async fn explain(api: &Arc<Api>, request: HttpRequest) -> Response {
    let answer = match Params::of(request, &api.limits()).await {
        Ok(params) => {
            answer(api, &params).await.map_err(|error| (error, params.get("errors") == Some("json")))
        }
        Err(error) => Err((error, false)),
    };
    match answer {
        Ok(response) => response,
        Err((error, true)) => with_fault(&error),
        Err((error, false)) => error.into_response(),
    }
}

async fn answer(api: &Arc<Api>, params: &Params) -> Result<Response, ApiError> {
    let asked = RenderParams::of(params, api)?;
    if !asked.fetches.is_empty() {
        return Err(ApiError::Invalid(
            "explain needs its targets as parameters, not in a protobuf message".to_owned(),
        ));
    }
    let account = Arc::new(api.account());
    let _waiting = Waiting(Arc::clone(&account));
    let evaluated = evaluate(api, &asked, &account).await?;
    let provenances = provenances(api, &asked, &account, &evaluated).await?;
    let kept = kept(api, params)?;
    let in_cache = from_cache(kept.as_deref(), &evaluated.notes);
    let fetches = evaluated.notes.iter().zip(&provenances).zip(&in_cache);
    let range = asked.request.range;
    let body = json!({
        "from": range.from,
        "until": range.until,
        "now": asked.request.now,
        "targets": evaluated.trees,
        "fetches": fetches.map(|((note, of), cache)| fetch(&asked, note, of, cache)).collect::<Value>(),
        "series": shown(&evaluated.series, asked.width),
        "times": {"find_ms": millis(evaluated.find), "fetch_ms": millis(evaluated.fetch), "evaluate_ms": millis(evaluated.evaluate)},
        "limits": evaluated.limits,
        "kept": kept.is_some(),
    });
    Ok(Wrapping::of(params)?.whole(&body.to_string()))
}

/// The result of an evaluation.
struct Evaluated {
    trees: Vec<Value>,
    notes: Vec<FetchNote>,
    series: Vec<TimeSeries>,
    limits: Value,
    find: Duration,
    fetch: Duration,
    evaluate: Duration,
    /// Number of slots of the longest series that was read.
    largest: usize,
}

async fn evaluate(
    api: &Arc<Api>,
    asked: &RenderParams,
    account: &Arc<Account>,
) -> Result<Evaluated, ApiError> {
    let targets = render::targets(asked)?;
    let first = FetchPlan::new(&targets, &asked.request);
    let mut plan = first.map_err(|error| render::wrong(&targets, account, &error))?;
    let mut reading = Reading { notes: Some(Vec::new()), ..Reading::new(api, asked, account) };
    let mut evaluation = Evaluation::new(targets, asked, account);
    let mut fetches = 0;
    loop {
        fetches += plan.fetches.len();
        reading.plan(plan, &mut evaluation.fetched).await?;
        let started = std::time::Instant::now();
        let round;
        (round, evaluation) = evaluation.observe::<Trace>(&api.evaluations).await?;
        reading.times.evaluate += started.elapsed();
        let (step, trace) = round?;
        match step {
            Step::Fetch(missing) => plan = missing,
            Step::Done(series) => {
                let notes = reading.notes.take().unwrap_or_default();
                return Ok(Evaluated {
                    trees: trees(&evaluation, &trace, &notes),
                    limits: in_use(api, asked, &reading, (fetches, &trace)),
                    find: reading.times.find,
                    fetch: reading.times.fetch,
                    evaluate: reading.times.evaluate,
                    largest: reading.largest,
                    notes,
                    series,
                });
            }
        }
    }
}

fn trees(evaluation: &Evaluation, trace: &Trace, notes: &[FetchNote]) -> Vec<Value> {
    let fetches = |expression: &str| {
        let found = notes.iter().enumerate().filter(|(_, note)| &*note.fetch.expression == expression);
        found.map(|(number, _)| number).collect()
    };
    let tree = |(number, target)| trace.tree(number, target, &fetches);
    evaluation.targets.iter().enumerate().map(tree).collect()
}

/// How much of each limit in `api.limits` the request used.
fn in_use(
    api: &Api,
    asked: &RenderParams,
    reading: &Reading<'_>,
    (fetches, trace): (usize, &Trace),
) -> Value {
    let limits = api.limits();
    let all = [
        ("targets", asked.targets.len(), limits.targets),
        ("fetches", fetches, limits.fetches),
        ("series", reading.count, limits.series),
        ("points", reading.points, limits.points),
        ("calls", trace.calls.get(), limits.calls),
        ("computed_points", trace.points.get(), limits.computed_points),
    ];
    all.iter().map(|(name, used, limit)| json!({"name": name, "used": used, "limit": limit})).collect()
}

/// The points of the response that `/render` would send from its cache to the same request; `None` if there is none.
fn kept(api: &Api, params: &Params) -> Result<Option<Arc<[FetchPoints]>>, ApiError> {
    let ticket = api.cache.ticket(params)?;
    Ok(ticket.and_then(|ticket| api.cache.points(&ticket, api.clock.now())))
}

/// Where the points of the first metrics of each fetch are.
async fn provenances(
    api: &Arc<Api>,
    asked: &RenderParams,
    account: &Account,
    evaluated: &Evaluated,
) -> Result<Vec<Vec<Provenance>>, ApiError> {
    let at_once = (SLOTS_AT_ONCE / evaluated.largest.max(1)).clamp(1, METRICS_PER_FETCH);
    // A read for an explanation keeps three columns of values per metric in memory.
    account.add_read(at_once, evaluated.largest.saturating_mul(3 * at_once))?;
    let mut left = METRICS_MAX;
    let mut all = Vec::with_capacity(evaluated.notes.len());
    for note in &evaluated.notes {
        let count = note.names.len().min(METRICS_PER_FETCH).min(left);
        left -= count;
        let mut of_fetch = Vec::with_capacity(count);
        for names in note.names[..count].chunks(at_once) {
            let range = note.fetch.range;
            let request = FetchRequest {
                names: names.to_vec(),
                from: range.from,
                until: range.until,
                now: asked.request.now,
                // The same series were read for the graph, so they are within its limit.
                slots_max: usize::MAX,
            };
            of_fetch.extend(api.source.explain(&request).await?);
        }
        all.push(of_fetch);
    }
    Ok(all)
}

fn fetch(asked: &RenderParams, note: &FetchNote, metrics: &[Provenance], cache: &Value) -> Value {
    let range = note.fetch.range;
    let source = match note.fetch.source {
        Source::Glob => "names",
        Source::Tags => "tags",
        Source::Events => "events",
    };
    let age = asked.request.now - range.from;
    let sum = |of: fn(&Provenance) -> usize| metrics.iter().map(of).sum::<usize>();
    json!({
        "expression": &*note.fetch.expression,
        "source": source,
        "from": range.from,
        "until": range.until,
        "names": note.names.len(),
        "find_ms": millis(note.find),
        "read_ms": millis(note.read),
        "points": {
            "head": sum(|of| of.from_head),
            "spool": sum(|of| of.from_spool),
            "peers": sum(|of| of.from_peers),
            "store": sum(|of| of.from_store),
            "cache": cache,
        },
        "metrics": metrics.iter().map(|of| metric(of, age)).collect::<Value>(),
    })
}

fn metric(of: &Provenance, age: i64) -> Value {
    let stage = of.config.retention.stages().get(of.stage);
    json!({
        "name": &*of.name,
        "retention": of.config.retention.to_string(),
        "stage": of.stage,
        "step": stage.map(|stage| stage.resolution),
        "why": why(&of.config, of.stage, age),
        "method": of.config.aggregation.to_string(),
        "x_files_factor": of.config.x_files_factor,
        "slots": of.slots,
        "known": of.known(),
        "head": of.from_head,
        "spool": of.from_spool,
        "peers": of.from_peers,
        "store": of.from_store,
        "hidden": of.hidden,
    })
}

/// Why this stage answers a request for a range that begins `age` seconds before now.
fn why(config: &MetricConfig, stage: usize, age: i64) -> String {
    let stages = config.retention.stages();
    let back = Period::seconds(u64::try_from(age).unwrap_or(0));
    let reaches = |number: usize| Period::seconds(stages.get(number).map_or(0, |stage| stage.duration()));
    if stages.len() == 1 {
        return "the only stage".to_owned();
    }
    if age > 0 && config.retention.stage_for_age(age).is_none() {
        return format!(
            "the range begins {back} ago, which is longer than any stage reaches back: the longest stage"
        );
    }
    match stage.checked_sub(1) {
        None => format!("the range begins {back} ago, and the raw stage reaches {} back", reaches(0)),
        Some(finer) => {
            let of = if finer == 0 { "the raw stage".to_owned() } else { format!("stage {finer}") };
            format!("the range begins {back} ago, and {of} reaches only {} back", reaches(finer))
        }
    }
}

/// How the values of the first series of the answer were consolidated to fit the width.
fn shown(series: &[TimeSeries], width: Option<usize>) -> Value {
    let span = time_span(series);
    let one = |one: &TimeSeries| {
        let fitted = points(one, span, width);
        let without_factor = TimeSeries { x_files_factor: 0.0, ..one.clone() };
        let known = |values: &[f64]| values.iter().filter(|value| !value.is_nan()).count();
        let hidden = known(&points(&without_factor, span, width).values) - known(&fitted.values);
        json!({
            "name": &*one.name,
            "step": one.step,
            "values": one.values.len(),
            "shown_step": fitted.step,
            "shown_values": fitted.values.len(),
            "consolidation": one.consolidation.name(),
            "x_files_factor": one.x_files_factor,
            "hidden": hidden,
        })
    };
    json!({"total": series.len(), "first": series.iter().take(SERIES_MAX).map(one).collect::<Value>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_has_a_reason() {
        let config = |retention: &str| MetricConfig {
            retention: retention.parse().unwrap(),
            aggregation: Default::default(),
            x_files_factor: 0.5,
        };
        let two = config("60s:1d,5m:30d");
        assert_eq!(why(&config("60s:1d"), 0, 60), "the only stage");
        assert_eq!(why(&two, 0, 3600), "the range begins 1h ago, and the raw stage reaches 1d back");
        assert_eq!(why(&two, 1, 172_800), "the range begins 2d ago, and the raw stage reaches only 1d back");
        let all = why(&two, 1, 86_400 * 40);
        assert_eq!(
            all,
            "the range begins 40d ago, which is longer than any stage reaches back: the longest stage"
        );
    }
}
