//! Asks all peers at once, and waits for none of them longer than a read may wait.

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
use plumbago_engine::{FetchRequest, PeerAnswer, Peers};
use plumbago_telemetry::{Counter, Gauge, Registry, Throttle};

use crate::config::Config;
use crate::connect::{self, Tls, TlsError};
use crate::{PATH, wire};

/// Connections to a peer that are kept for the next read.
const IDLE_MAX: usize = 8;
/// A peer that did not answer in time is left alone for so long: else every read would wait for it.
const PAUSE: Duration = Duration::from_secs(2);

/// Asks the peers of this process.
pub struct Client {
    peers: Vec<Peer>,
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
    /// Why it did not answer the last time, and until when it is left alone.
    trouble: Mutex<Option<(String, Option<Instant>)>>,
    asked: Counter,
    failed: Counter,
    left_out: Counter,
    up: Gauge,
    throttle: Throttle,
}

impl Client {
    /// Asks the peers of the settings; `token` is that of our own admin port.
    pub fn new(config: &Config, token: &str, registry: &Registry) -> Result<Self, TlsError> {
        let tls = match config.ca.as_os_str().is_empty() {
            true => None,
            false => Some(connect::tls(&config.ca)?),
        };
        let token = if config.token.is_empty() { token } else { &config.token };
        let peers = config.peers.iter().map(|address| Peer::new(address, token, tls.clone(), registry));
        Ok(Self { peers: peers.collect(), timeout: config.timeout.0 })
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Peers that did not answer the last time, for people.
    pub fn troubles(&self) -> Vec<String> {
        let trouble = |peer: &Peer| {
            let trouble = peer.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            let (why, _) = trouble.as_ref()?;
            Some(format!("peer {}: {why}; what it has not written yet is missing in answers", peer.address))
        };
        self.peers.iter().filter_map(trouble).collect()
    }
}

#[async_trait]
impl Peers for Client {
    async fn unsent(&self, request: &FetchRequest) -> Vec<PeerAnswer> {
        let body = Bytes::from(wire::request(request));
        let answers = join_all(self.peers.iter().map(|peer| peer.ask(&body, self.timeout))).await;
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
            asked: counter("requests_total", "questions to another daemon"),
            failed: counter("failed_requests_total", "questions that another daemon did not answer"),
            left_out: counter(
                "left_out_total",
                "reads that did not wait for a daemon which had not answered",
            ),
            up: registry.gauge("plumbago_peer_up", "1 when it answered the last question", &labels),
            throttle: Throttle::new(10_000),
        }
    }

    async fn ask(&self, body: &Bytes, timeout: Duration) -> Option<PeerAnswer> {
        if self.is_left_alone() {
            self.left_out.add(1);
            return None;
        }
        self.asked.add(1);
        match tokio::time::timeout(timeout, self.answer(body)).await {
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

    fn is_left_alone(&self) -> bool {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*trouble, Some((_, Some(until))) if Instant::now() < *until)
    }

    fn note(&self, trouble: Option<(String, Option<Instant>)>) {
        self.up.set(f64::from(u8::from(trouble.is_none())));
        if let Some((why, _)) = &trouble {
            self.failed.add(1);
            if let Some(held_back) = self.throttle.pass_now() {
                tracing::warn!(peer = self.address, why, held_back, "a peer does not answer");
            }
        }
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    async fn answer(&self, body: &Bytes) -> io::Result<PeerAnswer> {
        // A connection that was kept may be closed by now: then a new one is tried.
        while let Some(mut sender) = self.kept() {
            if sender.ready().await.is_ok()
                && let Ok(answer) = self.over(sender, body).await
            {
                return Ok(answer);
            }
        }
        let sender = connect::connect(&self.address, self.tls.as_ref()).await?;
        self.over(sender, body).await
    }

    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn over(&self, mut sender: SendRequest<Full<Bytes>>, body: &Bytes) -> io::Result<PeerAnswer> {
        let sent = sender.send_request(self.request(body)?).await;
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
            let why = format!("{error}: is its port encrypted? then cluster.ca has to be set");
            return io::Error::new(io::ErrorKind::InvalidData, why);
        }
        io::Error::other(error)
    }

    fn request(&self, body: &Bytes) -> io::Result<Request<Full<Bytes>>> {
        let mut request = Request::post(PATH).header(HOST, &self.address);
        if !self.token.is_empty() {
            let mut token =
                HeaderValue::try_from(format!("Bearer {}", self.token)).map_err(io::Error::other)?;
            token.set_sensitive(true);
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::new(body.clone())).map_err(io::Error::other)
    }
}
