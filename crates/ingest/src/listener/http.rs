//! The HTTP listener. Each POST contains points. The answer says how many were accepted and refused.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::body::{Coding, Fault, Reader, discard};
use super::lease::Lease;
use super::peers::Place;
use crate::protocol::Intake;
use crate::protocol::post::{Content, Posted};
use crate::reject::{Reject, Tally};
use crate::stats::{Closed, Listener, ListenerStats};

/// How long a client may pause, within a request or between two, unless `idle_timeout` is set.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Largest head of a request, and largest size of one read.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a request waits for its turn, while batches of other requests go to the engine.
const TURN: Duration = Duration::from_secs(10);

/// How often a closing connection checks whether it still has a request in progress.
const CLOSING_PAUSE: Duration = Duration::from_millis(20);

/// After how many seconds clients should try again if their points cannot be accepted now.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// The shared state of the requests of one connection.
pub(super) struct Requests {
    pub(super) listener: Listener,
    pub(super) origin: SocketAddr,
    pub(super) body_bytes_max: usize,
    pub(super) pause_max: Duration,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) shared: Arc<Shared>,
}

/// Serves requests until the client disconnects or pauses for too long, or until the connection has to close. In the
/// last case requests in progress are answered.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    requests: Arc<Requests>,
    place: &Place,
) -> Closed {
    let busy = AtomicUsize::new(0);
    let service = service_fn(|request: Request<Incoming>| {
        place.active(requests.shared.clock.now_ms());
        let (busy, requests) = (Busy::new(&busy), Arc::clone(&requests));
        async move {
            let answer = requests.answer(request).await;
            drop(busy);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(requests.pause_max)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return requests.ended(ended),
        () = place.stopped() => {}
    }
    // Bytes that the kernel has already received are still read.
    if timeout(CLOSING_PAUSE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        while timeout(CLOSING_PAUSE, connection.as_mut()).await.is_err() && busy.load(Ordering::Relaxed) > 0 {
        }
    }
    place.cause()
}

/// Counts a request in progress.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Requests {
    fn stats(&self) -> &ListenerStats {
        self.shared.stats.of(self.listener)
    }

    /// Why a connection ended if it was not stopped.
    fn ended(&self, outcome: hyper::Result<()>) -> Closed {
        match outcome {
            Ok(()) => Closed::End,
            Err(error) if error.is_timeout() => Closed::Idle,
            Err(error) if error.is_parse() => {
                self.count(0, Reject::Request, &error.to_string());
                Closed::Refused
            }
            Err(_) => Closed::Error,
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match *request.method() {
            Method::GET | Method::HEAD => Response::new(Full::from("OK\n")),
            Method::POST => {
                // A separate task: if the client disconnects, its points must still reach the sink.
                let answer = self.tasks.clone().spawn(self.post(request)).await;
                answer.unwrap_or_else(|_| Answer::of(StatusCode::INTERNAL_SERVER_ERROR)).into_response()
            }
            _ => {
                discard(&mut request.into_body()).await;
                let text = "only GET and POST are answered";
                let answer = self.refuse(StatusCode::METHOD_NOT_ALLOWED, Reject::Request, text.into());
                let mut response = answer.into_response();
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
                response
            }
        }
    }

    async fn post(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (head, mut body) = request.into_parts();
        // A client that waits for permission to send its body does not send it after a refusal.
        let waits = head.headers.contains_key(header::EXPECT);
        let Some(coding) = Coding::of(&head.headers) else {
            if !waits {
                discard(&mut body).await;
            }
            let text = "the content coding is neither identity nor gzip";
            return self.refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reject::Request, text.into());
        };
        let content = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content = Content::of(content.unwrap_or_default());
        let lease = Lease::new(&self.shared.frame_memory);
        let mut reader = Reader::new(coding, self.body_bytes_max, lease);
        let outcome = reader.read(&mut body, self.pause_max, &self.stop).await;
        self.stats().parsed(reader.received, &mut Intake::default(), self.shared.clock.now_ms());
        match outcome {
            Ok(()) => self.take(content, &reader.bytes).await,
            Err(fault) => {
                drop(reader);
                if fault.leaves_a_rest() && !waits {
                    discard(&mut body).await;
                }
                self.fault(&fault)
            }
        }
    }

    /// Parses a body and pushes its points.
    async fn take(&self, content: Content, body: &[u8]) -> Answer {
        let Ok(Ok(_permit)) = timeout(TURN, self.shared.in_flight.acquire()).await else {
            return self.fault(&Fault::NoMemory);
        };
        let mut answer = Answer::of(StatusCode::OK);
        let mut posted = Posted::new(content, body);
        loop {
            let mut intake = Intake::for_bytes(body.len().min(super::READ_BYTES));
            intake.tally.origin = Some(self.origin);
            let relabel = self.shared.rules.current();
            let more = posted.part(&self.shared.context(&relabel), &mut intake);
            drop(relabel);
            answer.add(&intake.tally);
            self.stats().parsed(0, &mut intake, self.shared.clock.now_ms());
            let points = intake.points.len() as u64;
            if !self.shared.push(intake.points, self.stats()).await {
                answer.refused[Reject::Overflow as usize] += points;
                answer.status = StatusCode::SERVICE_UNAVAILABLE;
                answer.error = Some("the engine accepts no points now".into());
                return answer;
            }
            answer.accepted += points;
            if !more {
                return answer.judged();
            }
        }
    }

    fn fault(&self, fault: &Fault) -> Answer {
        self.refuse(fault.status(), fault.reason(), fault.text())
    }

    /// Counts a request that contained no points.
    fn refuse(&self, status: StatusCode, reason: Reject, text: Cow<'static, str>) -> Answer {
        self.count(1, reason, &text);
        let mut answer = Answer::of(status);
        answer.refused[reason as usize] = 1;
        answer.error = Some(text);
        answer
    }

    fn count(&self, messages: u64, reason: Reject, text: &str) {
        let mut intake = Intake { messages, ..Intake::default() };
        intake.tally.origin = Some(self.origin);
        intake.tally.reject(reason, text.as_bytes());
        self.stats().parsed(0, &mut intake, self.shared.clock.now_ms());
    }
}

/// The result of a request.
struct Answer {
    status: StatusCode,
    accepted: u64,
    refused: [u64; Reject::COUNT],
    error: Option<Cow<'static, str>>,
}

impl Answer {
    fn of(status: StatusCode) -> Self {
        Self { status, accepted: 0, refused: [0; Reject::COUNT], error: None }
    }

    fn add(&mut self, tally: &Tally) {
        for reason in Reject::ALL {
            self.refused[reason as usize] += tally.count(reason);
        }
    }

    /// Sets the status for a body that was parsed to its end.
    fn judged(mut self) -> Self {
        if self.refused[Reject::Frame as usize] > 0 {
            self.status = StatusCode::BAD_REQUEST;
            self.error = Some("the body is not what its Content-Type says".into());
        }
        self
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    /// `{"accepted":2,"refused":1,"reasons":{"fields":1}}`, with `"error"` if there is one.
    fn json(&self) -> String {
        let refused: u64 = self.refused.iter().sum();
        let mut text = format!("{{\"accepted\":{},\"refused\":{refused},\"reasons\":{{", self.accepted);
        let reasons = Reject::ALL.into_iter().map(|reason| (reason, self.refused[reason as usize]));
        for (at, (reason, count)) in reasons.filter(|(_, count)| *count > 0).enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}\"{reason}\":{count}", if at > 0 { "," } else { "" });
        }
        text.push('}');
        if let Some(error) = &self.error {
            let _ = write!(text, ",\"error\":\"{}\"", error.replace(['"', '\\'], "'"));
        }
        text.push_str("}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_json() {
        let mut answer = Answer::of(StatusCode::OK);
        answer.accepted = 2;
        assert_eq!(answer.json(), "{\"accepted\":2,\"refused\":0,\"reasons\":{}}\n");
        answer.refused[Reject::Fields as usize] = 3;
        answer.refused[Reject::Frame as usize] = 1;
        let parsed: serde_json::Value = serde_json::from_str(&answer.judged().json()).unwrap();
        let expected = serde_json::json!({
            "accepted": 2, "refused": 4, "reasons": {"fields": 3, "frame": 1},
            "error": "the body is not what its Content-Type says",
        });
        assert_eq!(parsed, expected);
    }
}
