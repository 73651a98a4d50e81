//! A connection: reads a request, answers it, and reads the next.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plumbago_model::Clock;
use plumbago_telemetry::Registry;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::refused::Refused;
use super::reply::{POINT_BYTES, Reply};
use super::request::{self, Request};
use super::stats::Stats;
use super::{Cache, CacheError, Config, Points};
use crate::listener::lease::Lease;
use crate::listener::peers::Place;
use crate::stats::Closed;

const HEADER_BYTES: usize = 4;

/// A connection is closed if a frame has not arrived completely this long after its first byte.
const FRAME_TIME: Duration = Duration::from_secs(30);

/// A connection is closed if the client does not read this many bytes of a reply within this time.
const WRITE_BYTES: usize = 256 << 10;
const WRITE_TIME: Duration = Duration::from_secs(30);

/// The buffer of a frame grows by this many bytes, so that it never becomes much larger than the received
/// part.
const READ_BYTES: usize = 64 << 10;

/// Number of metrics of a bulk request that are looked up together.
const METRICS_AT_ONCE: usize = 500;

/// Permits for look-ups at the same time: a request needs one for each 64 metrics. A request that holds
/// permits never waits for a client or a remote store.
const LOOKUPS: usize = 32;
const METRICS_PER_LOOKUP: usize = 64;

/// State shared by all connections.
pub(super) struct Shared {
    pub(super) stats: Stats,
    pub(super) clock: Arc<dyn Clock>,
    cache: Arc<dyn Cache>,
    frame_bytes_max: usize,
    metrics_max: usize,
    reply_bytes_max: usize,
    idle_timeout: Option<Duration>,
    /// One permit per KiB that requests and replies may take.
    memory: Semaphore,
    lookups: Semaphore,
}

impl Shared {
    pub(super) fn new(
        config: &Config,
        cache: Arc<dyn Cache>,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Self {
        let memory_bytes = usize::try_from(config.memory_bytes).unwrap_or(usize::MAX);
        Self {
            stats: Stats::new(registry),
            clock,
            cache,
            frame_bytes_max: usize::try_from(config.frame_bytes_max).unwrap_or(usize::MAX),
            metrics_max: config.metrics_max,
            reply_bytes_max: (memory_bytes / 2).min(i32::MAX as usize),
            idle_timeout: (!config.idle_timeout.is_zero()).then_some(config.idle_timeout),
            memory: Semaphore::new((memory_bytes / 1024).min(Semaphore::MAX_PERMITS)),
            lookups: Semaphore::new(LOOKUPS),
        }
    }
}

pub(super) struct Connection<'a, S> {
    stream: S,
    origin: SocketAddr,
    place: &'a Place,
    lease: Lease<'a>,
    shared: &'a Shared,
}

/// Why a connection ends, and the refusal that is counted for it, if any.
struct End(Closed, Option<(Refused, String)>);

/// Why the reply to a request is an error.
struct NoAnswer(Refused, String);

impl End {
    fn refused(reason: Refused, sample: impl Into<String>) -> Self {
        Self(Closed::Refused, Some((reason, sample.into())))
    }
}

impl From<Closed> for End {
    fn from(cause: Closed) -> Self {
        Self(cause, None)
    }
}

impl From<CacheError> for NoAnswer {
    fn from(error: CacheError) -> Self {
        Self(Refused::Failed, error.0)
    }
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(stream: S, origin: SocketAddr, place: &'a Place, shared: &'a Shared) -> Self {
        Self { stream, origin, place, lease: Lease::new(&shared.memory), shared }
    }

    /// Answers requests until the connection ends. Returns the reason.
    pub(super) async fn run(mut self) -> Closed {
        loop {
            if let Err(End(cause, refusal)) = self.exchange().await {
                if let Some((reason, sample)) = refusal {
                    self.refuse(reason, &sample);
                }
                return cause;
            }
        }
    }

    /// Reads a request and writes its reply.
    async fn exchange(&mut self) -> Result<(), End> {
        let place = self.place;
        let frame = tokio::select! {
            biased;
            frame = self.frame() => frame?,
            () = place.stopped() => return Err(place.cause().into()),
        };
        let began = Instant::now();
        place.active(self.shared.clock.now_ms());
        let request = request::read(&frame, self.shared.metrics_max)
            .map_err(|refused| End::refused(refused.reason, refused.sample))?;
        drop(frame);
        self.shared.stats.requested(&request);
        let (reply, points) = match self.answer(request).await {
            Ok(answer) => answer,
            Err(NoAnswer(reason, text)) => {
                self.refuse(reason, &text);
                (Reply::error(&text), 0)
            }
        };
        self.write(&reply.frame()).await?;
        self.shared.stats.answered(points, began.elapsed());
        place.active(self.shared.clock.now_ms());
        self.lease.resize(0).await;
        Ok(())
    }

    /// Reads a frame and returns its content, without its length.
    async fn frame(&mut self) -> Result<Vec<u8>, End> {
        let mut header = [0; HEADER_BYTES];
        let first = self.stream.read(&mut header);
        let read = match self.shared.idle_timeout {
            None => first.await,
            Some(limit) => timeout(limit, first).await.map_err(|_| Closed::Idle)?,
        };
        let read = read.map_err(|_| Closed::Error)?;
        if read == 0 {
            return Err(Closed::End.into());
        }
        match timeout(FRAME_TIME, self.rest(header, read)).await {
            Ok(frame) => frame,
            Err(_) => Err(End::refused(Refused::SlowFrame, "a request did not arrive within 30 seconds")),
        }
    }

    /// Reads the rest of a frame. The first `read` bytes of its length are already in `header`.
    async fn rest(&mut self, mut header: [u8; HEADER_BYTES], read: usize) -> Result<Vec<u8>, End> {
        let half = || End(Closed::End, Some((Refused::HalfFrame, "half a request".to_owned())));
        self.stream.read_exact(&mut header[read..]).await.map_err(|_| half())?;
        let length = u32::from_be_bytes(header) as usize;
        if length > self.shared.frame_bytes_max {
            return Err(End::refused(Refused::FrameTooLarge, format!("a request of {length} bytes")));
        }
        let mut frame = Vec::new();
        while frame.len() < length {
            if frame.len() == frame.capacity() {
                frame.reserve_exact((length - frame.len()).min(READ_BYTES.max(frame.len())));
                self.hold(frame.capacity())
                    .await
                    .map_err(|NoAnswer(reason, text)| End::refused(reason, text))?;
            }
            let left = (frame.capacity().min(length) - frame.len()) as u64;
            let read = (&mut self.stream).take(left).read_buf(&mut frame).await;
            if read.map_err(|_| half())? == 0 {
                return Err(half());
            }
        }
        Ok(frame)
    }

    /// Answers a request. Returns the reply and the number of points in it.
    async fn answer(&mut self, request: Request) -> Result<(Reply, usize), NoAnswer> {
        let shared = self.shared;
        let cache = &shared.cache;
        let reply = match request {
            Request::Query(metric) => {
                let mut found = self.points(&[metric], shared.reply_bytes_max).await?;
                let points = found.pop().unwrap_or_default();
                self.hold(points.len() * POINT_BYTES).await?;
                return Ok((Reply::points(&points), points.len()));
            }
            Request::Bulk(metrics) => return self.bulk(&metrics).await,
            Request::Get { metric, key } => Reply::texts(&[("value", &cache.metadata(&metric, &key).await?)]),
            Request::Set { metric, key, value } => {
                let old = cache.set_metadata(&metric, &key, &value).await?;
                Reply::texts(&[("old_value", &old), ("new_value", &value)])
            }
            Request::Unknown(kind) => {
                return Err(NoAnswer(Refused::Type, format!("Invalid request type \"{kind}\"")));
            }
            Request::TooMany => {
                let most = shared.metrics_max;
                let text = format!("more than {most} metrics in one request (carbonlink.metrics_max)");
                return Err(NoAnswer(Refused::Metrics, text));
            }
        };
        Ok((reply, 0))
    }

    async fn bulk(&mut self, metrics: &[Arc<str>]) -> Result<(Reply, usize), NoAnswer> {
        let (mut reply, mut count) = (Reply::bulk(), 0);
        for part in metrics.chunks(METRICS_AT_ONCE) {
            let room = self.shared.reply_bytes_max.saturating_sub(reply.len());
            let found = self.points(part, room).await?;
            for (name, points) in part.iter().zip(&found) {
                reply.metric(name, points);
                count += points.len();
            }
            self.hold(reply.held_bytes()).await?;
        }
        reply.end_bulk();
        Ok((reply, count))
    }

    /// The points of these metrics, if they fit into this many bytes of a reply.
    async fn points(&self, metrics: &[Arc<str>], room: usize) -> Result<Vec<Points>, NoAnswer> {
        let permits = metrics.len().div_ceil(METRICS_PER_LOOKUP) as u32;
        let Ok(_turn) = self.shared.lookups.acquire_many(permits).await else { return Ok(Vec::new()) };
        match self.shared.cache.points(metrics, room / POINT_BYTES).await? {
            Some(points) => Ok(points),
            None => {
                let most = self.shared.reply_bytes_max;
                let text =
                    format!("the reply would have more than {most} bytes (half of carbonlink.memory_bytes)");
                Err(NoAnswer(Refused::Reply, text))
            }
        }
    }

    /// Reserves memory for a request or a reply.
    async fn hold(&mut self, bytes: usize) -> Result<(), NoAnswer> {
        if self.lease.resize(bytes).await {
            return Ok(());
        }
        let text = "no memory is free for this request; try again (carbonlink.memory_bytes)";
        Err(NoAnswer(Refused::Memory, text.to_owned()))
    }

    async fn write(&mut self, frame: &[u8]) -> Result<(), End> {
        for part in frame.chunks(WRITE_BYTES) {
            match timeout(WRITE_TIME, self.stream.write_all(part)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Closed::Error.into()),
                Err(_) => {
                    return Err(End::refused(
                        Refused::SlowReader,
                        "a client did not take its reply within 30 seconds",
                    ));
                }
            }
        }
        // TLS may hold back the last part until it is flushed.
        self.stream.flush().await.map_err(|_| Closed::Error.into())
    }

    fn refuse(&self, reason: Refused, sample: &str) {
        self.shared.stats.refuse(reason, sample, self.origin, self.shared.clock.now_ms());
    }
}
