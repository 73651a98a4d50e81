//! `/render`: the series of targets.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::response::{IntoResponse, Response};
use plumbago_engine::FetchRequest;
use plumbago_model::{Series, has_glob};
use plumbago_render::{
    Fetch, Fetched, Plan, Source, Step, Target, TargetError, TimeRange, TimeSeries, evaluate, parse,
};

use super::picture;
use super::render_format::Format;
use super::render_params::RenderParams;
use super::{search, tag_search};
use crate::error::{ApiError, beyond, quoted};
use crate::format::{self, Csv, Dygraph, Json, MsgPack, Pickle, Protobuf, Raw, Rickshaw, SeriesFormat, wrap};
use crate::params::Params;
use crate::state::Api;
use crate::stream;

/// Series that are read first, before it is known how many points they give.
const FIRST_SERIES: usize = 16;

/// Most series that are read at a time.
const SERIES_PER_READ: usize = 1024;

/// Answers a request to `/render`.
pub(crate) async fn render(api: Arc<Api>, request: HttpRequest) -> Response {
    answer(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(api: &Arc<Api>, request: HttpRequest) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits).await?;
    let mut asked = RenderParams::of(&params, api)?;
    if asked.fetches.is_empty() {
        let series = or_nothing(&asked, series(api, &asked).await)?;
        return match asked.picture.take() {
            Some(picture) => picture::answer(api, picture, asked.wrapping, series).await,
            None => Ok(write(asked, series)),
        };
    }
    let mut all = Vec::new();
    for fetch in std::mem::take(&mut asked.fetches) {
        asked.request.range = TimeRange { from: fetch.start_time, until: fetch.stop_time };
        asked.targets = vec![fetch.name];
        all.extend(or_nothing(&asked, series(api, &asked).await)?);
    }
    Ok(write(asked, all))
}

/// A front end gets no series where anybody else gets an error.
fn or_nothing(
    asked: &RenderParams,
    series: Result<Vec<TimeSeries>, ApiError>,
) -> Result<Vec<TimeSeries>, ApiError> {
    match series {
        Err(ApiError::Target(_)) if asked.is_front_end => Ok(Vec::new()),
        series => series,
    }
}

async fn series(api: &Arc<Api>, asked: &RenderParams) -> Result<Vec<TimeSeries>, ApiError> {
    let targets = targets(&asked.targets)?;
    let wrong = |error: TargetError| wrong_target(&targets[error.target].text, &error.error);
    let mut reading = Reading { api, asked, count: 0, points: 0, largest: 0 };
    let mut fetched = Fetched::default();
    let mut plan = Plan::new(&targets, &asked.request).map_err(wrong)?;
    loop {
        reading.plan(plan, &mut fetched).await?;
        match evaluate(&targets, &asked.request, &fetched).map_err(wrong)? {
            Step::Done(series) => return Ok(series),
            Step::Fetch(missing) => plan = missing,
        }
    }
}

fn targets(texts: &[String]) -> Result<Vec<Target>, ApiError> {
    texts.iter().map(|text| parse(text).map_err(|error| wrong_target(text, &error))).collect()
}

fn wrong_target(text: &str, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::Target(format!("target {}: {error}", quoted(text)))
}

/// Metrics, sorted, each once.
type Names = Vec<Arc<str>>;

/// The metrics of a fetch.
async fn names(api: &Arc<Api>, fetch: &Fetch) -> Result<Names, ApiError> {
    match fetch.source {
        Source::Glob => {}
        Source::Tags => {
            let found = tag_search::series_by_tag(api, &fetch.expression).await;
            let names = found.map_err(|error| match error {
                ApiError::Invalid(_) => wrong_target(&fetch.expression, &error),
                other => other,
            })?;
            return Ok(names.into_iter().map(Arc::from).collect());
        }
        Source::Events => return Err(wrong_target(&fetch.expression, &"events are not available yet")),
    }
    if !has_glob(&fetch.expression) {
        return Ok(vec![Arc::clone(&fetch.expression)]);
    }
    let mut names: Names = search::leaves(api, &fetch.expression).await?.into_iter().map(Arc::from).collect();
    if !names.is_sorted() {
        names.sort_unstable();
    }
    names.dedup();
    Ok(names)
}

/// The reads of one request.
struct Reading<'a> {
    api: &'a Arc<Api>,
    asked: &'a RenderParams,
    /// All series so far.
    count: usize,
    /// All points so far.
    points: usize,
    /// The most that one metric gave.
    largest: usize,
}

impl Reading<'_> {
    /// Reads what a plan names: the metrics of all fetches over one range together, each once.
    async fn plan(&mut self, plan: Plan, fetched: &mut Fetched) -> Result<(), ApiError> {
        let mut by_range: HashMap<TimeRange, Vec<(Fetch, Names)>> = HashMap::new();
        for fetch in plan.fetches {
            let names = names(self.api, &fetch).await?;
            self.count += names.len();
            if self.count > self.api.limits.series {
                return Err(beyond("series", "series", self.api.limits.series));
            }
            by_range.entry(fetch.range).or_default().push((fetch, names));
        }
        for (range, fetches) in by_range {
            self.range(range, fetches, fetched).await?;
        }
        Ok(())
    }

    async fn range(
        &mut self,
        range: TimeRange,
        mut fetches: Vec<(Fetch, Names)>,
        fetched: &mut Fetched,
    ) -> Result<(), ApiError> {
        let factor = self.asked.request.x_files_factor;
        if let [(fetch, names)] = &mut fetches[..] {
            let series = self.read(range, std::mem::take(names)).await?;
            let expression = &fetch.expression;
            let series = series.into_iter().map(|s| TimeSeries::fetched(s, expression, factor)).collect();
            fetched.insert(fetch.clone(), series);
            return Ok(());
        }
        let mut names: Names = fetches.iter().flat_map(|(_, names)| names).cloned().collect();
        names.sort_unstable();
        names.dedup();
        let shared: HashMap<Arc<str>, TimeSeries> = self
            .read(range, names)
            .await?
            .into_iter()
            .map(|s| (Arc::clone(&s.name), TimeSeries::fetched(s, &Arc::from(""), factor)))
            .collect();
        for (fetch, names) in fetches {
            let of_fetch = |name| {
                let series = shared.get(name)?.clone();
                Some(TimeSeries { path_expression: Arc::clone(&fetch.expression), ..series })
            };
            let series = names.iter().filter_map(of_fetch).collect();
            fetched.insert(fetch, series);
        }
        Ok(())
    }

    /// Reads metrics in parts whose size follows from what the largest metric so far gave, so that
    /// a request beyond its points is stopped before they fill the memory.
    async fn read(&mut self, range: TimeRange, names: Names) -> Result<Vec<Series>, ApiError> {
        let (from, until, now) = (range.from, range.until, self.asked.request.now);
        let limit = self.api.limits.points;
        let mut all = Vec::with_capacity(names.len());
        let mut names = names.into_iter();
        let mut part = FIRST_SERIES;
        loop {
            let names: Names = names.by_ref().take(part).collect();
            if names.is_empty() {
                return Ok(all);
            }
            let request = FetchRequest { names, from, until, now };
            let series = self.api.source.fetch(&request).await?;
            for series in &series {
                self.points += series.values.len();
                self.largest = self.largest.max(series.values.len());
            }
            if self.points > limit {
                return Err(beyond("points", "points", limit));
            }
            all.extend(series);
            part = ((limit - self.points) / self.largest.max(1)).clamp(1, part * 4).min(SERIES_PER_READ);
        }
    }
}

fn write(asked: RenderParams, series: Vec<TimeSeries>) -> Response {
    match asked.format {
        Format::Json => asked.wrapping.json(format::series(Json::new(asked.no_nulls), series, asked.width)),
        Format::Rickshaw => asked.wrapping.json(format::series(Rickshaw::default(), series, None)),
        Format::Dygraph => asked.wrapping.json(Dygraph::new(series)),
        Format::Csv => whole("text/csv", Csv::new(asked.request.zone), series),
        Format::Raw => whole("text/plain", Raw::default(), series),
        Format::Pickle => whole("application/pickle", Pickle, series),
        Format::MsgPack => whole("application/x-msgpack", MsgPack { count: series.len() }, series),
        Format::Protobuf(version) => {
            let protobuf = Protobuf { version, range: asked.request.range };
            whole(version.content_type(), protobuf, series)
        }
        // Answered before, and never by a message in the body.
        Format::Png | Format::Svg => wrap::answer("text/plain", Body::empty()),
    }
}

/// All points in a format.
fn whole(kind: &'static str, format: impl SeriesFormat, series: Vec<TimeSeries>) -> Response {
    wrap::answer(kind, stream::body(format::series(format, series, None)))
}
