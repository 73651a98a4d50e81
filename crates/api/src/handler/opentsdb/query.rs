//! OpenTSDB's queries: resolved in the index, read through the engine, and answered by the crate `kairosdb`.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use hyper::{Method, StatusCode};
use plumbago_kairosdb::opentsdb::Query;
use plumbago_kairosdb::opentsdb::answer::{self, Column, Most};
use plumbago_store::KnownSlots;

use super::find;
use crate::blocking::on_thread;
use crate::error::beyond;
use crate::handler::kairos::body;
use crate::handler::kairos::reading::{self, Reading};
use crate::protocol::{Failure, Protocol};
use crate::state::Api;

/// Maximum number of buckets that fill policies may make in a request.
const BUCKETS_MAX: usize = 1_000_000;

/// Maximum number of values that are read while series are aggregated. Reading this many takes some seconds.
const STEPS_MAX: u64 = 1_000_000_000;

/// The memory that a point takes until the answer is sent, in units of 8 bytes: the value as read, the same with its
/// time, its sum and its count, the downsampled point, the aggregated point, and its text.
const POINT_COST: usize = 17;

/// Answers `/api/query`.
pub(crate) async fn opentsdb_query(api: Arc<Api>, request: Request) -> Response {
    Protocol::OpenTsdb.answer(answered(&api, request).await)
}

async fn answered(api: &Arc<Api>, request: Request) -> Result<String, Failure> {
    api.check_tags()?;
    let query = Arc::new(read_query(api, request).await?);
    let now_ms = api.clock.now_ms();
    let mut reading = Reading::new(api, now_ms, POINT_COST);
    let mut most = Most { buckets: api.limits().points.min(BUCKETS_MAX), steps: STEPS_MAX };
    let mut results = Vec::with_capacity(query.subs.len());
    for (at, sub) in query.subs.iter().enumerate() {
        let names = find::selected(api, sub).await?;
        reading.count(names.len())?;
        let (from, until) = query.scan(sub);
        let (from, until) = (from - 1, reading.end(until - 1));
        let columns = reading.columns(names, from, until, |read| column(read, from, until)).await?;
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
        Query::parse(&body::of_query(api, request).await?, now_ms)
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
    /// With more points than this, the work moves to a thread on which no other requests wait.
    const FEW: usize = 10_000;
    let points: usize = columns.iter().map(|column| column.points.len()).sum();
    let made = if points <= FEW && columns.len() <= 10 && query.subs[at].downsample.is_none() {
        answer::results(query, at, columns, &mut most).map(|text| (text, most))
    } else {
        let query = Arc::clone(query);
        let work = move || answer::results(&query, at, columns, &mut most).map(|text| (text, most));
        on_thread(&api.evaluations, work).await?
    };
    made.map_err(|text| Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text))
}

/// The points of a series after one time and up to another, in seconds.
fn column(read: &KnownSlots, from: i64, until: i64) -> Column {
    let points = reading::amounts(read).filter(|(ms, _)| from * 1000 < *ms && *ms <= until * 1000);
    Column { name: read.name.to_string(), points: points.collect() }
}
