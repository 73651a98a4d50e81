//! One peer: its connections, its counters and its problems.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use plumbago_telemetry::{Counter, Gauge, Registry, Throttle};

use super::connect::{self, Tls};
use super::trouble::{Kind, Trouble};
use super::wire::{self, Malformed};

/// Largest number of idle connections kept for each peer.
const IDLE_MAX: usize = 8;
/// How long a peer gets no requests after a timeout. Without this pause, every read would wait for the peer.
const PAUSE: Duration = Duration::from_secs(2);

/// Decodes the body of an answer.
pub(super) type Read<T> = fn(&[u8]) -> Result<T, Malformed>;

/// Another daemon, which is reached over HTTP.
pub(super) struct Peer {
    pub(super) address: String,
    token: String,
    tls: Option<Tls>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    trouble: Mutex<Trouble>,
    asked: Counter,
    failed: Counter,
    skipped: Counter,
    up: Gauge,
    throttle: Throttle,
}

/// Why a peer gave no usable answer.
enum Failure {
    /// There was no answer, or the answer was not complete HTTP.
    Away(io::Error),
    /// The peer answered with an error, or with a message that this version cannot read.
    Refused(String),
}

impl Peer {
    pub(super) fn new(address: &str, token: &str, tls: Option<Tls>, registry: &Registry) -> Self {
        let labels = [("peer", address)];
        let counter =
            |name: &str, help: &str| registry.counter(&format!("plumbago_peer_{name}"), help, &labels);
        Self {
            address: address.to_owned(),
            token: token.to_owned(),
            tls,
            idle: Mutex::default(),
            trouble: Mutex::default(),
            asked: counter("requests_total", "requests to another daemon"),
            failed: counter("failed_requests_total", "requests that another daemon did not answer"),
            skipped: counter(
                "skipped_requests_total",
                "requests not sent to a peer because it had just timed out",
            ),
            up: registry.gauge("plumbago_peer_up", "1 if the peer answered the last request", &labels),
            throttle: Throttle::new(10_000),
        }
    }

    /// Posts a message to the peer, and reads the answer with `read`. Returns `None` if the peer does not answer
    /// within `timeout`, refuses the request, or has just timed out.
    pub(super) async fn ask<T>(
        &self,
        (kind, read): (Kind, Read<T>),
        (path, body): (&str, &Bytes),
        timeout: Duration,
    ) -> Option<T> {
        if self.trouble().is_paused(Instant::now()) {
            self.skipped.add(1);
            return None;
        }
        self.asked.add(1);
        let answer = match tokio::time::timeout(timeout, self.answer(path, body)).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("no answer within {} ms (cluster.timeout)", timeout.as_millis());
                self.fail("a peer does not answer", &why);
                self.note(|trouble| trouble.went_away(why, Some(Instant::now() + PAUSE)));
                return None;
            }
        };
        match answer.and_then(|bytes| read(&bytes).map_err(|error| Failure::Refused(error.to_string()))) {
            Ok(answer) => {
                self.note(|trouble| trouble.answered(kind));
                Some(answer)
            }
            Err(Failure::Away(error)) => {
                let why = error.to_string();
                self.fail("a peer does not answer", &why);
                self.note(|trouble| trouble.went_away(why, None));
                None
            }
            Err(Failure::Refused(why)) => {
                self.fail("a peer refuses a request", &why);
                self.note(|trouble| trouble.refused(kind, why));
                None
            }
        }
    }

    /// The problems of the peer, as texts for operators.
    pub(super) fn troubles(&self) -> Vec<String> {
        let texts = self.trouble().texts();
        texts.into_iter().map(|text| format!("peer {}: {text}", self.address)).collect()
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Trouble)) {
        let mut trouble = self.trouble();
        change(&mut trouble);
        self.up.set(f64::from(u8::from(trouble.is_up())));
    }

    fn fail(&self, message: &str, why: &str) {
        self.failed.add(1);
        if let Some(suppressed) = self.throttle.pass_now() {
            tracing::warn!(peer = self.address, why, suppressed, "{message}");
        }
    }

    async fn answer(&self, path: &str, body: &Bytes) -> Result<Bytes, Failure> {
        // The peer may have closed idle connections. If none of them works, a new one is opened.
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_ok() {
                match self.send(sender, path, body).await {
                    Err(Failure::Away(_)) => {}
                    answered => return answered,
                }
            }
        }
        let sender = connect::connect(&self.address, self.tls.as_ref()).await.map_err(Failure::Away)?;
        self.send(sender, path, body).await
    }

    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn send(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        path: &str,
        body: &Bytes,
    ) -> Result<Bytes, Failure> {
        let sent = sender.send_request(self.request(path, body).map_err(Failure::Away)?).await;
        let response = sent.map_err(|error| Failure::Away(self.unanswered(error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), wire::ANSWER_BYTES_MAX).collect();
        let body = body.await.map_err(|error| Failure::Away(io::Error::other(error)))?.to_bytes();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
        drop(idle);
        if status != StatusCode::OK {
            let why: String = String::from_utf8_lossy(&body).trim().chars().take(200).collect();
            return Err(Failure::Refused(format!("{status}: {why}")));
        }
        Ok(body)
    }

    fn unanswered(&self, error: hyper::Error) -> io::Error {
        if error.is_parse() && self.tls.is_none() {
            let why = format!("{error}: if its port is encrypted, set cluster.ca");
            return io::Error::new(io::ErrorKind::InvalidData, why);
        }
        io::Error::other(error)
    }

    fn request(&self, path: &str, body: &Bytes) -> io::Result<Request<Full<Bytes>>> {
        let mut request = Request::post(path).header(HOST, &self.address);
        if !self.token.is_empty() {
            let mut token =
                HeaderValue::try_from(format!("Bearer {}", self.token)).map_err(io::Error::other)?;
            token.set_sensitive(true);
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::new(body.clone())).map_err(io::Error::other)
    }
}
