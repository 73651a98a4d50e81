//! The counters of the listeners.
//!
//! *Received* counts everything that should contain a point: each line, each entry of a frame, and as one a
//! frame that cannot be decoded. Each is then either *accepted* by the sink or *rejected* for a reason. Once
//! no batch is waiting for the sink, received = accepted + rejected for each listener.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plumbago_telemetry::{Counter, Gauge, Histogram, Registry, Throttle};
use tracing::{debug, warn};

use crate::protocol::{Intake, Losses, TCP, Talk, TcpProtocol};
use crate::reject::{Reject, Sample, Tally};

/// Each listener logs at most one sample of a reason per minute.
const SAMPLE_EVERY_MS: i64 = 60_000;

/// A listener. There is one for each protocol over TCP and one for lines in datagrams. The API's port counts
/// as one too, for the points in its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Listener(usize);

impl Listener {
    /// The line protocol over UDP.
    pub const UDP: Self = Self(TCP.len());
    /// The line protocol over TCP, the first of [`TCP`].
    pub const LINE: Self = Self(0);
    /// Number of listeners.
    const COUNT: usize = TCP.len() + 2;
    /// Requests to the API's port.
    pub const API: Self = Self(TCP.len() + 1);

    /// All listeners.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The listeners on TCP, in the order of [`TCP`].
    pub fn over_tcp() -> impl Iterator<Item = Self> {
        (0..TCP.len()).map(Self)
    }

    /// The listener with this label. `None` if there is none.
    pub fn named(label: &str) -> Option<Self> {
        Self::all().find(|listener| listener.label() == label)
    }

    /// The value of the label `listener`, which is also the name of the section of settings.
    pub fn label(self) -> &'static str {
        match self.protocol() {
            Some(protocol) => protocol.name,
            None if self == Self::UDP => "udp",
            None => "api",
        }
    }

    /// Protocol and transport, for people: `pickle tcp`.
    pub fn title(self) -> String {
        match self.protocol() {
            None if self == Self::UDP => "line udp".to_owned(),
            None => "points api".to_owned(),
            Some(TcpProtocol { talk: Talk::Http, .. }) => "points http".to_owned(),
            Some(protocol) => format!("{} tcp", protocol.name),
        }
    }

    /// The protocol. `None` for [`Self::UDP`] and [`Self::API`].
    fn protocol(self) -> Option<&'static TcpProtocol> {
        TCP.get(self.0)
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Closed {
    /// The sender closed it.
    End,
    /// Reading failed.
    Error,
    /// The sender sent nothing for `idle_timeout`.
    Idle,
    /// The connection had been silent for a minute, and a new connection needed its slot.
    Evicted,
    /// The rest of the data cannot be decoded, or there is no memory for it.
    Refused,
    /// The TLS handshake failed.
    Handshake,
    /// The process is shutting down.
    Shutdown,
}

impl Closed {
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::End, "end"),
        (Self::Error, "error"),
        (Self::Idle, "idle"),
        (Self::Evicted, "evicted"),
        (Self::Refused, "refused"),
        (Self::Handshake, "handshake"),
        (Self::Shutdown, "shutdown"),
    ];
}

/// A refused text that was kept as a sample: the newest of each listener and reason, at most one per minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The listener that received the text.
    pub listener: Listener,
    /// The text, its reason and its sender.
    pub sample: Sample,
    /// When it arrived, in milliseconds since the epoch.
    pub at_ms: i64,
}

/// The counters of all listeners.
#[derive(Debug)]
pub struct Stats {
    listeners: [ListenerStats; Listener::COUNT],
    losses: LossCounters,
}

/// The counters of [`Losses`].
#[derive(Debug)]
struct LossCounters {
    cut: Counter,
    with_ttl: Counter,
    rounded: Counter,
}

impl LossCounters {
    fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        Self {
            cut: counter(
                "plumbago_ingest_cut_milliseconds_total",
                "points whose time was cut from milliseconds to seconds",
            ),
            with_ttl: counter(
                "plumbago_ingest_ignored_ttl_total",
                "points with a time to live, which is ignored: the storage rules decide",
            ),
            rounded: counter(
                "plumbago_ingest_rounded_integers_total",
                "whole numbers beyond 2^53, kept as the nearest double",
            ),
        }
    }
}

impl Stats {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> Self {
        Self {
            listeners: std::array::from_fn(|at| ListenerStats::new(Listener(at), registry)),
            losses: LossCounters::new(registry),
        }
    }

    /// The counters of one listener.
    pub fn of(&self, listener: Listener) -> &ListenerStats {
        &self.listeners[listener.0]
    }

    /// The samples of refused points that are kept, the newest first.
    pub fn refusals(&self) -> Vec<Refusal> {
        let kept = |one: &ListenerStats| {
            let refusals = one.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.iter().flatten().cloned().collect::<Vec<_>>()
        };
        let mut all: Vec<Refusal> = self.listeners.iter().flat_map(kept).collect();
        all.sort_by_key(|refusal| std::cmp::Reverse(refusal.at_ms));
        all
    }

    /// Counts what the points of a body or of lines have lost.
    pub(crate) fn note(&self, losses: Losses) {
        if losses != Losses::default() {
            self.losses.cut.add(losses.cut);
            self.losses.with_ttl.add(losses.with_ttl);
            self.losses.rounded.add(losses.rounded);
        }
    }

    /// Number of points received by all listeners.
    pub fn received(&self) -> u64 {
        self.listeners.iter().map(|one| one.received.get()).sum()
    }

    /// Number of points accepted from all listeners.
    pub fn accepted(&self) -> u64 {
        self.listeners.iter().map(|one| one.accepted.get()).sum()
    }

    /// Number of points rejected by all listeners for one reason.
    pub fn rejected_for(&self, reason: Reject) -> u64 {
        self.listeners.iter().map(|one| one.rejected[reason as usize].get()).sum()
    }

    /// Number of points rejected by all listeners for all reasons.
    pub fn rejected(&self) -> u64 {
        Reject::ALL.into_iter().map(|reason| self.rejected_for(reason)).sum()
    }

    /// Open connections of all listeners.
    pub fn active_connections(&self) -> u64 {
        self.listeners.iter().map(|one| *one.open.lock().unwrap_or_else(PoisonError::into_inner)).sum()
    }
}

/// The counters of one listener.
#[derive(Debug)]
pub struct ListenerStats {
    listener: Listener,
    received: Counter,
    accepted: Counter,
    rejected: [Counter; Reject::COUNT],
    messages: Counter,
    bytes: Counter,
    batch_seconds: Histogram,
    opened: Counter,
    closed: [Counter; Closed::ALL.len()],
    active: Gauge,
    open: Mutex<u64>,
    samples: [Throttle; Reject::COUNT],
    /// The newest sample of each reason.
    refusals: Mutex<[Option<Refusal>; Reject::COUNT]>,
}

impl ListenerStats {
    fn new(listener: Listener, registry: &Registry) -> Self {
        let label = ("listener", listener.label());
        let counter = |name: &str, help: &str| registry.counter(name, help, &[label]);
        Self {
            listener,
            received: counter("plumbago_ingest_received_total", "points received, accepted or not"),
            accepted: counter(
                "plumbago_ingest_passed_total",
                "points passed to the engine, which may refuse some of them",
            ),
            rejected: Reject::ALL.map(|reason| {
                let labels = [("stage", "ingest"), label, ("reason", reason.label())];
                let help = "points that were refused, by the stage that refused them and the reason";
                registry.counter("plumbago_rejected_points_total", help, &labels)
            }),
            messages: counter(
                "plumbago_ingest_messages_total",
                "lines, frames or bodies, empty ones included",
            ),
            bytes: counter("plumbago_ingest_bytes_total", "bytes read"),
            batch_seconds: registry.histogram(
                "plumbago_ingest_batch_seconds",
                "time until the engine has accepted a batch of points that was read at once",
                &[label],
            ),
            opened: counter("plumbago_ingest_connections_total", "connections accepted"),
            closed: Closed::ALL.map(|(_, cause)| {
                let labels = [label, ("cause", cause)];
                registry.counter("plumbago_ingest_connections_closed_total", "connections closed", &labels)
            }),
            active: registry.gauge("plumbago_ingest_active_connections", "open connections", &[label]),
            open: Mutex::new(0),
            samples: [const { Throttle::new(SAMPLE_EVERY_MS) }; Reject::COUNT],
            refusals: Mutex::new([const { None }; Reject::COUNT]),
        }
    }

    /// Number of points received.
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// Number of points accepted by the sink.
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Number of points rejected for one reason.
    pub fn rejected_for(&self, reason: Reject) -> u64 {
        self.rejected[reason as usize].get()
    }

    /// Number of points rejected for all reasons.
    pub fn rejected(&self) -> u64 {
        self.rejected.iter().map(Counter::get).sum()
    }

    /// Lines or frames received, empty ones included.
    pub fn messages(&self) -> u64 {
        self.messages.get()
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.opened.get()
    }

    /// Counts bytes and the result of parsing them, and resets the tally. The points count as accepted only
    /// once the sink has them: see [`Self::pushed`].
    pub(crate) fn parsed(&self, bytes: usize, intake: &mut Intake, now_ms: i64) {
        self.bytes.add(bytes as u64);
        self.messages.add(std::mem::take(&mut intake.messages));
        self.received.add(intake.received());
        self.report(&mut intake.tally, now_ms);
    }

    /// Counts points that the sink accepted.
    pub(crate) fn pushed(&self, points: usize) {
        self.accepted.add(points as u64);
    }

    /// Records how long the engine took to accept one batch.
    pub(crate) fn pushed_in(&self, duration: Duration) {
        self.batch_seconds.record(duration);
    }

    /// Counts points of a request that are refused before they were counted as received.
    pub(crate) fn lost(&self, points: usize, now_ms: i64) {
        if points > 0 {
            self.received.add(points as u64);
            self.dropped(points, now_ms);
        }
    }

    /// Counts points that were received and that the sink did not accept.
    pub(crate) fn dropped(&self, points: usize, now_ms: i64) {
        self.rejected[Reject::Overflow as usize].add(points as u64);
        if self.samples[Reject::Overflow as usize].pass(now_ms).is_some() {
            warn!(
                listener = self.listener.label(),
                points,
                "points dropped, because the engine's queues are full or the engine has failed; see /readyz"
            );
        }
    }

    fn report(&self, tally: &mut Tally, now_ms: i64) {
        for sample in tally.samples() {
            let reason = sample.reason;
            self.rejected[reason as usize].add(tally.count(reason));
            if self.samples[reason as usize].pass(now_ms).is_none() {
                continue;
            }
            self.keep(sample, now_ms);
            let origin = sample.origin.map(|address| address.to_string()).unwrap_or_default();
            let (listener, label, sample) = (self.listener.label(), reason.label(), sample.text.as_str());
            if reason.is_intended() {
                debug!(listener, reason = label, origin, sample, "point refused");
            } else {
                warn!(
                    listener,
                    reason = label,
                    origin,
                    sample,
                    "point refused; others refused within the next minute are only counted"
                );
            }
        }
        tally.clear();
    }

    fn keep(&self, sample: &Sample, at_ms: i64) {
        let refusal = Refusal { listener: self.listener, sample: sample.clone(), at_ms };
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals[sample.reason as usize] = Some(refusal);
    }

    pub(crate) fn opened(&self) {
        self.opened.add(1);
        self.change_open(|open| open + 1);
    }

    pub(crate) fn closed(&self, cause: Closed) {
        self.closed[cause as usize].add(1);
        self.change_open(|open| open.saturating_sub(1));
    }

    fn change_open(&self, change: impl FnOnce(u64) -> u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = change(*open);
        self.active.set(*open as f64);
    }
}
