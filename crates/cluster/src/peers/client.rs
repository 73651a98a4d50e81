//! Requests pending rows from all peers at once. Waits no longer than `cluster.timeout` for any of them.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use plumbago_store::{FetchRequest, PeerAnswer, Peers};
use plumbago_telemetry::{Counter, Gauge, Registry, Throttle};

use super::config::Config;
use super::connect::{self, Tls};
use super::wire;
use plumbago_tls::CaError;

/// Most idle connections that are kept for each peer.
const IDLE_MAX: usize = 8;
/// How long a peer gets no requests after a timeout. Otherwise every read would wait for it.
const PAUSE: Duration = Duration::from_secs(2);

/// Requests pending rows from the peers of this daemon.
pub struct Client {
    peers: Vec<Peer>,
    path: String,
    timeout: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.peers.iter().map(|peer| &peer.address)).finish()
    }
}

struct Peer {
    address: String,
    token: String,
    tls: Option<Tls>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    /// Why the last request failed, and until when the peer gets no further requests. `None` if it succeeded.
    trouble: Mutex<Option<(String, Option<Instant>)>>,
    asked: Counter,
    failed: Counter,
    skipped: Counter,
    up: Gauge,
    throttle: Throttle,
}

impl Client {
    /// Makes a client for the peers in `config`. `path` is the URL path that requests are posted to. `token`
    /// is the token of this daemon's admin port, which is sent if `config` has none.
    ///
    /// # Errors
    /// If the file `cluster.ca` cannot be read or has no valid certificate.
    pub fn new(config: &Config, path: &str, token: &str, registry: &Registry) -> Result<Self, CaError> {
        let tls = match config.ca.as_os_str().is_empty() {
            true => None,
            false => Some(connect::tls(&config.ca)?),
        };
        let token = if config.token.is_empty() { token } else { &config.token };
        let peers = config.peers.iter().map(|address| Peer::new(address, token, tls.clone(), registry));
        Ok(Self { peers: peers.collect(), path: path.to_owned(), timeout: config.timeout.0 })
    }

    /// Returns whether there are no peers.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns a message for each peer whose last request failed, for operators.
    pub fn troubles(&self) -> Vec<String> {
        let trouble = |peer: &Peer| {
            let trouble = peer.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            let (why, _) = trouble.as_ref()?;
            Some(format!("peer {}: {why}; its newest points are missing in answers", peer.address))
        };
        self.peers.iter().filter_map(trouble).collect()
    }
}

#[async_trait]
impl Peers for Client {
    async fn pending(&self, request: &FetchRequest) -> Vec<PeerAnswer> {
        let body = Bytes::from(wire::request(request));
        let answers = join_all(self.peers.iter().map(|peer| peer.ask(&self.path, &body, self.timeout))).await;
        answers.into_iter().flatten().collect()
    }
}

impl Peer {
    fn new(address: &str, token: &str, tls: Option<Tls>, registry: &Registry) -> Self {
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

    async fn ask(&self, path: &str, body: &Bytes, timeout: Duration) -> Option<PeerAnswer> {
        if self.is_paused() {
            self.skipped.add(1);
            return None;
        }
        self.asked.add(1);
        match tokio::time::timeout(timeout, self.answer(path, body)).await {
            Ok(Ok(answer)) => {
                self.note(None);
                Some(answer)
            }
            Ok(Err(error)) => {
                self.note(Some((error.to_string(), None)));
                None
            }
            Err(_) => {
                let why = format!("no answer within {} ms (cluster.timeout)", timeout.as_millis());
                self.note(Some((why, Some(Instant::now() + PAUSE))));
                None
            }
        }
    }

    fn is_paused(&self) -> bool {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*trouble, Some((_, Some(until))) if Instant::now() < *until)
    }

    fn note(&self, trouble: Option<(String, Option<Instant>)>) {
        self.up.set(f64::from(u8::from(trouble.is_none())));
        if let Some((why, _)) = &trouble {
            self.failed.add(1);
            if let Some(suppressed) = self.throttle.pass_now() {
                tracing::warn!(peer = self.address, why, suppressed, "a peer does not answer");
            }
        }
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    async fn answer(&self, path: &str, body: &Bytes) -> io::Result<PeerAnswer> {
        // The peer may have closed idle connections. If none of them works, a new one is made.
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_ok()
                && let Ok(answer) = self.send(sender, path, body).await
            {
                return Ok(answer);
            }
        }
        let sender = connect::connect(&self.address, self.tls.as_ref()).await?;
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
    ) -> io::Result<PeerAnswer> {
        let sent = sender.send_request(self.request(path, body)?).await;
        let response = sent.map_err(|error| self.unanswered(error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), wire::ANSWER_BYTES_MAX).collect();
        let body = body.await.map_err(io::Error::other)?.to_bytes();
        if status != StatusCode::OK {
            let why: String = String::from_utf8_lossy(&body).trim().chars().take(200).collect();
            return Err(io::Error::other(format!("{status}: {why}")));
        }
        let answer = wire::read_answer(&body).map_err(io::Error::other)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
        Ok(answer)
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
