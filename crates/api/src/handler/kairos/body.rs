//! Reads, decompresses and parses the bodies of points and of OpenTSDB's queries, within limits of size and
//! memory.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use plumbago_kairosdb::point::Points;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::blocking::on_thread;
use crate::error::{ApiError, beyond};
use crate::params;
use crate::points::BodyFault;
use crate::protocol::Failure;
use crate::state::Api;

/// A body up to this size needs no share of the memory, and is parsed on the thread that read it.
const SMALL_BYTES: usize = 64 << 10;

/// How long a request waits for memory.
const WAIT: Duration = Duration::from_secs(10);

/// The points of a request, and the memory that is reserved for them.
pub(super) struct Taken {
    pub(super) points: Points,
    /// Size of the body as received.
    pub(super) bytes: usize,
    _memory: Vec<OwnedSemaphorePermit>,
}

/// Reads the points of a request. A body that cannot be read is counted.
pub(super) async fn points(
    api: &Arc<Api>,
    request: Request,
    parse: fn(&[u8]) -> Points,
) -> Result<Taken, Failure> {
    let counted = |fault, failure: Failure| {
        api.writer.refuse(fault, failure.texts.first().map_or("", String::as_str));
        failure
    };
    let is_gzip = is_gzip(request.headers());
    let limit = api.limits().body.bytes();
    let announced = request.body().size_hint().upper().and_then(|upper| usize::try_from(upper).ok());
    if announced.is_some_and(|announced| announced > limit) {
        let error = beyond("bytes of the request's body", "body", limit);
        discard(request.into_body()).await;
        return Err(counted(BodyFault::TooLarge, error.into()));
    }
    let mut memory = Vec::new();
    let held = announced.unwrap_or(limit);
    memory.extend(lease(api, held).await.map_err(|failure| counted(BodyFault::Memory, failure))?);
    let body = params::body(request, &api.limits()).await.map_err(|error| {
        let fault = match error {
            ApiError::TooLarge(_) => BodyFault::TooLarge,
            _ => BodyFault::Half,
        };
        counted(fault, error.into())
    })?;
    let bytes = body.len();
    let parsed = if bytes <= SMALL_BYTES && !is_gzip {
        Ok(parse(&body))
    } else {
        aside(api, body, is_gzip, limit, parse).await?
    };
    let points = parsed.map_err(|(fault, text)| counted(fault, Failure::new(status_of(fault), text)))?;
    let more = points.bytes().saturating_sub(held);
    memory.extend(lease(api, more).await.map_err(|failure| counted(BodyFault::Memory, failure))?);
    Ok(Taken { points, bytes, _memory: memory })
}

/// Reads the body of a query of OpenTSDB. OpenTSDB accepts gzip for every body, KairosDB only for points.
pub(in crate::handler) async fn of_query(api: &Arc<Api>, request: Request) -> Result<Vec<u8>, Failure> {
    let is_gzip = is_encoded(request.headers());
    let limits = api.limits();
    let body = params::body(request, &limits).await?;
    if !is_gzip {
        return Ok(body.to_vec());
    }
    let limit = limits.body.bytes();
    let plain = on_thread(&api.evaluations, move || gunzip(&body, limit)).await?;
    plain.map_err(|(fault, text)| Failure::new(status_of(fault), text))
}

fn status_of(fault: BodyFault) -> StatusCode {
    match fault {
        BodyFault::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Decompresses and parses on a thread for blocking work. As many bodies are parsed at a time as there are
/// processors.
async fn aside(
    api: &Arc<Api>,
    body: Bytes,
    is_gzip: bool,
    limit: usize,
    parse: fn(&[u8]) -> Points,
) -> Result<Result<Points, (BodyFault, String)>, Failure> {
    let stopped = || Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the request was aborted");
    let turn = Arc::clone(&api.parses).acquire_owned().await.map_err(|_| stopped())?;
    let task = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        if is_gzip { Ok(parse(&gunzip(&body, limit)?)) } else { Ok(parse(&body)) }
    });
    task.await.map_err(|_| stopped())
}

/// Waits for a share of the memory that bodies of points may take.
async fn lease(api: &Arc<Api>, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Failure> {
    let Some(kib) = bytes.checked_sub(SMALL_BYTES).map(|bytes| bytes.div_ceil(1024)).filter(|kib| *kib > 0)
    else {
        return Ok(None);
    };
    let kib = u32::try_from(kib).unwrap_or(u32::MAX).min(api.write_memory_kib);
    let permit = timeout(WAIT, Arc::clone(&api.write_memory).acquire_many_owned(kib)).await;
    match permit {
        Ok(Ok(permit)) => Ok(Some(permit)),
        _ => Err(Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "there is no memory for the body now; send it again later",
        )),
    }
}

/// Whether the body is compressed with gzip. KairosDB accepts the header `Content-Encoding`, and an older
/// form in the content type.
fn is_gzip(headers: &HeaderMap) -> bool {
    is_encoded(headers) || has(headers, CONTENT_TYPE, "application/gzip")
}

fn is_encoded(headers: &HeaderMap) -> bool {
    has(headers, CONTENT_ENCODING, "gzip") || has(headers, CONTENT_ENCODING, "x-gzip")
}

/// Whether a header has this value, in any case.
fn has(headers: &HeaderMap, name: HeaderName, text: &str) -> bool {
    let is_text =
        |value: &HeaderValue| value.to_str().is_ok_and(|value| value.trim().eq_ignore_ascii_case(text));
    headers.get_all(name).iter().any(is_text)
}

/// Decompresses a body, unless it becomes larger than `limit`.
fn gunzip(body: &[u8], limit: usize) -> Result<Vec<u8>, (BodyFault, String)> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(body).take(limit as u64 + 1).read_to_end(&mut plain);
    if plain.len() > limit {
        let text = beyond("bytes of the decompressed body", "body", limit).to_string();
        return Err((BodyFault::TooLarge, text));
    }
    match read {
        Ok(_) => Ok(plain),
        Err(error) => Err((BodyFault::Damaged, format!("the body is not gzip: {error}"))),
    }
}

/// Reads and drops a refused body. Many clients give up when they cannot send all of it, and never read the answer.
async fn discard(mut body: Body) {
    let all = async {
        let mut dropped = 0;
        while dropped < DISCARD_BYTES {
            let Some(Ok(frame)) = body.frame().await else { return };
            dropped += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // The answer is sent in any case, whether this succeeds or not.
    let _ = timeout(Duration::from_secs(5), all).await;
}

const DISCARD_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn bombs_and_damage_are_refused() {
        let packed = |bytes: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let small = packed(b"[]");
        assert_eq!(gunzip(&small, 2).unwrap(), b"[]");
        assert_eq!(gunzip(&small, 1).unwrap_err().0, BodyFault::TooLarge);
        let bomb = packed(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(gunzip(&bomb, 4 << 20).unwrap_err().0, BodyFault::TooLarge);
        assert_eq!(gunzip(&small[..small.len() - 3], 100).unwrap_err().0, BodyFault::Damaged);
        assert_eq!(gunzip(b"[]", 100).unwrap_err().0, BodyFault::Damaged);
    }
}
