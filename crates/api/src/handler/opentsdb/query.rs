//! OpenTSDB's queries: resolved in the index, read through the engine, and answered by the crate `kairosdb`.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use hyper::{Method, StatusCode};
use plumbago_kairosdb::opentsdb::answer::{self, Column, Most};
use plumbago_kairosdb::opentsdb::{Query, Sub};
use plumbago_model::Series;
use plumbago_store::FetchRequest;

use super::find;
use crate::error::{ApiError, aborted, beyond};
use crate::handler::kairos::shape::{Failure, Protocol, json_text};
use crate::memory::Account;
use crate::params;
use crate::state::Api;

/// Most series in one read.
const SERIES_PER_READ: usize = 512;

/// How far beyond now points are looked for, in seconds.
const AHEAD: i64 = 300;

/// Most buckets that fill policies may make in a request.
const BUCKETS_MAX: usize = 1_000_000;

/// Most values that are looked at when series are aggregated: seconds of work.
const STEPS_MAX: u64 = 1_000_000_000;

/// How many times 8 bytes a point takes until it is answered: as it was read, with its time, downsampled, aggregated, as
/// text.
const POINT_COST: usize = 12;

/// Answers `/api/query`.
pub(crate) async fn opentsdb_query(api: Arc<Api>, request: Request) -> Response {
    match answered(&api, request).await {
        Ok(text) => json_text(StatusCode::OK, text),
        Err(failure) => Protocol::OpenTsdb.failure(&failure),
    }
}

async fn answered(api: &Arc<Api>, request: Request) -> Result<String, Failure> {
    api.check_tags()?;
    let query = Arc::new(read_query(api, request).await?);
    let now_ms = api.clock.now_ms();
    let limits = api.limits();
    api.memory.set_max(limits.memory_of_all());
    let mut reading =
        Reading { api, account: Account::new(&api.memory, limits.memory), series: 0, points: 0 };
    let mut most = Most { buckets: limits.points.min(BUCKETS_MAX), steps: STEPS_MAX };
    let mut results = Vec::with_capacity(query.subs.len());
    for (at, sub) in query.subs.iter().enumerate() {
        let names = find::selected(api, sub).await?;
        reading.count(names.len())?;
        let columns = reading.columns(&query, sub, names, now_ms).await?;
        let (text, left) = aggregated(api, &query, at, columns, most).await?;
        results.push(text);
        most = left;
    }
    Ok(answer::whole(&results))
}

async fn read_query(api: &Arc<Api>, request: Request) -> Result<Query, Failure> {
    let now_ms = api.clock.now_ms();
    let text = request.uri().query().unwrap_or_default().to_owned();
    let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
    let query = if request.method() == Method::POST {
        Query::parse(&params::body(request, &api.limits()).await?, now_ms)
    } else {
        Query::parse_pairs(pairs.iter().map(|(key, value)| (&**key, &**value)), now_ms)
    };
    let mut query = query.map_err(|text| Failure::new(StatusCode::BAD_REQUEST, text))?;
    query.arrays = pairs.iter().any(|(key, _)| key == "arrays");
    if query.subs.len() > api.limits().targets {
        return Err(beyond("queries", "targets", api.limits().targets).into());
    }
    Ok(query)
}

/// Makes the results of a sub-query, on a thread for large evaluations if there are many points.
async fn aggregated(
    api: &Arc<Api>,
    query: &Arc<Query>,
    at: usize,
    columns: Vec<Column>,
    mut most: Most,
) -> Result<(String, Most), Failure> {
    /// More points than this are not worked on where other requests wait.
    const FEW: usize = 10_000;
    let points: usize = columns.iter().map(|column| column.points.len()).sum();
    let made = if points <= FEW && columns.len() <= 10 && query.subs[at].downsample.is_none() {
        answer::results(query, at, columns, &mut most).map(|text| (text, most))
    } else {
        let turn = Arc::clone(&api.evaluations).acquire_owned().await.map_err(|_| aborted())?;
        let query = Arc::clone(query);
        let work = move || {
            let _turn = turn;
            answer::results(&query, at, columns, &mut most).map(|text| (text, most))
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| aborted())?
    };
    made.map_err(|text| Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text))
}

/// Reads the points of one request and counts them against its limits.
struct Reading<'a> {
    api: &'a Arc<Api>,
    account: Account,
    series: usize,
    points: usize,
}

impl Reading<'_> {
    fn count(&mut self, series: usize) -> Result<(), ApiError> {
        self.series += series;
        if self.series > self.api.limits().series {
            return Err(beyond("series", "series", self.api.limits().series));
        }
        Ok(())
    }

    async fn columns(
        &mut self,
        query: &Query,
        sub: &Sub,
        names: Vec<String>,
        now_ms: i64,
    ) -> Result<Vec<Column>, ApiError> {
        let now = now_ms.div_euclid(1000);
        let (from, until) = query.scan(sub);
        let (from, until) = (from - 1, (until - 1).min(now + AHEAD));
        let mut columns = Vec::with_capacity(names.len());
        if until <= from {
            return Ok(columns);
        }
        for part in names.chunks(SERIES_PER_READ) {
            let names = part.iter().map(|name| Arc::from(name.as_str())).collect();
            let series = self.api.source.fetch(&FetchRequest { names, from, until, now }).await?;
            let slots: usize = series.iter().map(|series| series.values.len()).sum();
            self.points += slots;
            if self.points > self.api.limits().points {
                return Err(beyond("points", "points", self.api.limits().points));
            }
            self.account.add_read(series.len(), slots.saturating_mul(POINT_COST))?;
            columns.extend(series.iter().map(|series| column(series, from, until)));
        }
        Ok(columns)
    }
}

/// The points of a series after one time and up to another, in seconds.
fn column(series: &Series, from: i64, until: i64) -> Column {
    let points = series.values.iter().enumerate().filter_map(|(at, value)| {
        let time = series.start + at as i64 * i64::from(series.step);
        (value.is_finite() && from < time && time <= until).then_some((time * 1000, *value))
    });
    Column { name: series.name.to_string(), points: points.collect() }
}
