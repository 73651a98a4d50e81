//! `/render`: the series of targets.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::response::{IntoResponse, Response};
use plumbago_render::consolidate::has_slots;
use plumbago_render::{
    EvalError, FetchPlan, Fetched, Limited, Observer, Request, Step, Target, TargetError, TimeRange,
    TimeSeries, Watch, evaluate_observed, evaluate_watched, parse,
};
use tokio::sync::Semaphore;

use super::picture;
use super::reading::Reading;
use super::render_format::Format;
use super::render_params::RenderParams;
use super::stages;
use crate::blocking::on_thread;
use crate::cache::FetchPoints;
use crate::error::{ApiError, beyond, with_fault};
use crate::fault::Fault;
use crate::format::{
    self, Columns, Csv, Dygraph, Json, MsgPack, Pickle, Protobuf, Raw, Rickshaw, SeriesFormat, wrap,
};
use crate::memory::{Account, Held, Small, Waiting};
use crate::params::Params;
use crate::state::Api;
use crate::stream;

/// With fewer points than this, targets are evaluated on the connection's own thread, which takes a
/// millisecond or two.
const POINTS_INLINE: usize = 50_000;

/// Answers a request to `/render`.
pub(crate) async fn render(api: Arc<Api>, request: HttpRequest) -> Response {
    let params = match Params::of(request, &api.limits()).await {
        Ok(params) => params,
        Err(error) => return error.into_response(),
    };
    let as_json = params.get("errors") == Some("json");
    match answer(&api, params).await {
        Err(error) if as_json => with_fault(&error),
        answer => answer.unwrap_or_else(IntoResponse::into_response),
    }
}

async fn answer(api: &Arc<Api>, params: Params) -> Result<Response, ApiError> {
    let asked = RenderParams::of(&params, api)?;
    let ticket = api.cache.ticket(&params)?;
    let now = api.clock.now();
    if let Some(kept) = ticket.as_ref().and_then(|ticket| api.cache.get(ticket, now)) {
        return Ok(kept);
    }
    let mut points = Vec::new();
    let response = made(api, asked, ticket.is_some().then_some(&mut points)).await?;
    Ok(match ticket {
        Some(ticket) => api.cache.keep(ticket, response, now, points),
        None => response,
    })
}

/// Computes the response to a request that the cache cannot answer. Notes in `points` the points that the
/// response is made of.
async fn made(
    api: &Arc<Api>,
    mut asked: RenderParams,
    mut points: Option<&mut Vec<FetchPoints>>,
) -> Result<Response, ApiError> {
    let account = Arc::new(api.account());
    let _waiting = Waiting(Arc::clone(&account));
    if asked.fetches.is_empty() {
        let series = or_nothing(&asked, series(api, &asked, &account, points).await)?;
        account.keep_only(&series)?;
        return match asked.picture.take() {
            Some(picture) => picture::answer(api, picture, asked.wrapping, series, account).await,
            None if asked.format == Format::Columns => Ok(columns(api, asked, series, account).await),
            None => Ok(write(asked, series, account)),
        };
    }
    let mut all = Vec::new();
    for fetch in std::mem::take(&mut asked.fetches) {
        asked.request.range = TimeRange { from: fetch.start_time, until: fetch.stop_time };
        asked.targets = vec![fetch.name];
        let read = series(api, &asked, &account, points.as_deref_mut()).await;
        let mut fetched = or_nothing(&asked, read)?;
        // carbonapi requests each name of a glob separately, but looks up the responses by the glob.
        if !fetch.path_expression.is_empty() {
            let expression: Arc<str> = fetch.path_expression.into();
            fetched.iter_mut().for_each(|series| series.path_expression = Arc::clone(&expression));
        }
        all.append(&mut fetched);
        account.keep_only(&all)?;
    }
    Ok(write(asked, all, account))
}

/// Replaces the error for a bad target by an empty list if the client is a front end.
fn or_nothing(
    asked: &RenderParams,
    series: Result<Vec<TimeSeries>, ApiError>,
) -> Result<Vec<TimeSeries>, ApiError> {
    match series {
        Err(ApiError::Target(_)) if asked.is_front_end => Ok(Vec::new()),
        series => series,
    }
}

/// Reads and evaluates the targets. Evaluation may show that more series are needed, so both are repeated
/// until the result is complete. Notes in `noted` the points of each fetch.
async fn series(
    api: &Arc<Api>,
    asked: &RenderParams,
    account: &Arc<Account>,
    noted: Option<&mut Vec<FetchPoints>>,
) -> Result<Vec<TimeSeries>, ApiError> {
    let targets = targets(asked)?;
    let mut plan =
        FetchPlan::new(&targets, &asked.request).map_err(|error| wrong(&targets, account, &error))?;
    let tally = noted.is_some().then(Vec::new);
    let mut reading = Reading { tally, ..Reading::new(api, asked, account) };
    let mut evaluation = Evaluation::new(targets, asked, account);
    loop {
        reading.plan(plan, &mut evaluation.fetched).await?;
        let step;
        let started = Instant::now();
        (step, evaluation) = evaluation.run(&api.evaluations, reading.points).await?;
        reading.times.evaluate += started.elapsed();
        match step? {
            Step::Done(series) => {
                api.phases.record(reading.times);
                if let Some(noted) = noted {
                    noted.extend(reading.tally.unwrap_or_default());
                }
                return Ok(series);
            }
            Step::Fetch(missing) => plan = missing,
        }
    }
}

/// The inputs of an evaluation in one value that can move to another thread.
pub(super) struct Evaluation {
    pub(super) targets: Vec<Target>,
    request: Request,
    pub(super) fetched: Fetched,
    account: Arc<Account>,
}

impl Evaluation {
    pub(super) fn new(targets: Vec<Target>, asked: &RenderParams, account: &Arc<Account>) -> Box<Self> {
        Box::new(Self {
            targets,
            request: asked.request.clone(),
            fetched: Fetched::default(),
            account: Arc::clone(account),
        })
    }

    /// Evaluates once on a thread for blocking work, with an observer that sees each part.
    pub(super) async fn observe<O: Observer + Default + Send + 'static>(
        self: Box<Self>,
        evaluations: &Arc<Semaphore>,
    ) -> Result<(Result<(Step, O), ApiError>, Box<Self>), ApiError> {
        on_thread(evaluations, move || {
            let observer = O::default();
            let step =
                evaluate_observed(&self.targets, &self.request, &self.fetched, &*self.account, &observer);
            let step = step.map_err(|error| wrong(&self.targets, &self.account, &error));
            (step.map(|step| (step, observer)), self)
        })
        .await
    }

    /// Evaluates once. A large evaluation runs on a thread for blocking work, and stops soon after its client
    /// disconnects. Its size is known only during the evaluation, because functions can create points and
    /// moving windows multiply them.
    async fn run(
        self: Box<Self>,
        evaluations: &Arc<Semaphore>,
        points: usize,
    ) -> Result<(Result<Step, ApiError>, Box<Self>), ApiError> {
        if points < POINTS_INLINE
            && let Some(step) = self.evaluate_small()
        {
            return Ok((step, self));
        }
        on_thread(evaluations, move || (self.evaluate(&*self.account), self)).await
    }

    /// Evaluates on this thread; `None` if the evaluation turns out to be large.
    fn evaluate_small(&self) -> Option<Result<Step, ApiError>> {
        let small = Small::new(&self.account);
        let step = self.evaluate(&small);
        (!small.is_spent()).then_some(step)
    }

    fn evaluate(&self, watch: &dyn Watch) -> Result<Step, ApiError> {
        evaluate_watched(&self.targets, &self.request, &self.fetched, watch)
            .map_err(|error| wrong(&self.targets, &self.account, &error))
    }
}

/// Parses the targets. A front end sends many names at once. Names that are not valid targets are used as
/// names of metrics.
pub(super) fn targets(asked: &RenderParams) -> Result<Vec<Target>, ApiError> {
    let target = |text: &String| match parse(text) {
        Err(_) if asked.is_front_end => Ok(Target::path(text)),
        read => read.map_err(|error| {
            let fault = Fault::of_parse(text, &error);
            ApiError::of_target(text, &error, Some(fault))
        }),
    };
    asked.targets.iter().map(target).collect()
}

/// Turns the error of an evaluation into one for the client.
pub(super) fn wrong(targets: &[Target], account: &Account, error: &TargetError) -> ApiError {
    match error.error {
        EvalError::Stopped => account.refusal(),
        EvalError::Limit { what, limit } => {
            let setting = match what {
                Limited::Calls => "calls",
                Limited::Points => "computed_points",
                Limited::Fetches => "fetches",
            };
            beyond(&what.to_string(), setting, limit)
        }
        _ => {
            let text = &targets[error.target].text;
            ApiError::of_target(text, &error.error, Fault::of_eval(text, &error.error))
        }
    }
}

/// Streams the first series in the format `columns`.
async fn columns(
    api: &Api,
    asked: RenderParams,
    mut series: Vec<TimeSeries>,
    account: Arc<Account>,
) -> Response {
    let total = series.len();
    series.truncate(asked.series_max);
    let stages = stages::of(api, &series).await;
    let columns = format::series(Columns::new(&asked.request, total, stages), series, asked.width);
    asked.wrapping.json(Held { pieces: columns, _account: account })
}

/// Streams series in the requested format.
fn write(asked: RenderParams, series: Vec<TimeSeries>, account: Arc<Account>) -> Response {
    match asked.format {
        Format::Json => {
            let series = if has_slots(&series) { series } else { Vec::new() };
            let json = format::series(Json::new(asked.no_nulls), series, asked.width);
            asked.wrapping.json(Held { pieces: json, _account: account })
        }
        Format::Rickshaw => {
            let rickshaw = format::series(Rickshaw::default(), series, None);
            asked.wrapping.json(Held { pieces: rickshaw, _account: account })
        }
        Format::Dygraph => asked.wrapping.json(Held { pieces: Dygraph::new(series), _account: account }),
        Format::Csv => whole("text/csv", Csv::new(asked.request.zone), series, account),
        Format::Raw => whole("text/plain", Raw::default(), series, account),
        Format::Pickle => whole("application/pickle", Pickle, series, account),
        Format::MsgPack => whole("application/x-msgpack", MsgPack { count: series.len() }, series, account),
        Format::Protobuf(version) => {
            let protobuf = Protobuf { version, range: asked.request.range };
            whole(version.content_type(), protobuf, series, account)
        }
        // `made` writes these formats itself, and a protobuf message never requests one of them.
        Format::Columns | Format::Png | Format::Svg => wrap::answer("text/plain", Body::empty()),
    }
}

/// Streams series in a format that has no JSON options.
fn whole(
    kind: &'static str,
    format: impl SeriesFormat,
    series: Vec<TimeSeries>,
    account: Arc<Account>,
) -> Response {
    let pieces = format::series(format, series, None);
    wrap::answer(kind, stream::body(Held { pieces, _account: account }))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use plumbago_model::ByteSize;
    use plumbago_render::{Limits, TimeZone};

    use super::*;
    use crate::memory::Pool;

    fn evaluation(target: &str) -> Box<Evaluation> {
        let registry = plumbago_telemetry::Registry::new();
        let pool = Arc::new(Pool::new(1 << 30, registry.gauge("held", "", &[])));
        Box::new(Evaluation {
            targets: vec![parse(target).unwrap()],
            request: Request {
                range: TimeRange { from: 0, until: 10_000_000 },
                now: 10_000_000,
                zone: TimeZone::utc(),
                x_files_factor: 0.0,
                templates: Vec::new(),
                limits: Limits::default(),
            },
            fetched: Fetched::default(),
            account: Arc::new(Account::new(&pool, ByteSize(1 << 30))),
        })
    }

    #[tokio::test]
    async fn what_makes_many_points_waits_for_a_thread() {
        let evaluations = Arc::new(Semaphore::new(0));
        let (step, _) = evaluation("constantLine(5)").run(&evaluations, 0).await.unwrap();
        assert!(matches!(step.unwrap(), Step::Done(series) if series.len() == 1));
        let mut large = pin!(evaluation("aggregateLine(randomWalk('w', 1), 'max')").run(&evaluations, 0));
        assert!(large.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        evaluations.add_permits(1);
        let (step, _) = large.await.unwrap();
        assert!(matches!(step.unwrap(), Step::Done(series) if series[0].values.len() == 3));
    }
}
