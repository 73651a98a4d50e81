//! What the listeners count.
//!
//! *Received* is everything that carried a point or should have: a line, an item of a frame, a frame
//! that could not be read (as one). Each ends as *accepted* (given to the sink) or *rejected* (by
//! reason); what is between the two waits for the sink. So, once nothing is under way:
//! received = accepted + rejected, for each listener.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use plumbago_telemetry::{Counter, Gauge, Registry, Throttle};
use tracing::{debug, warn};

use crate::protocol::Intake;
use crate::reject::{Reject, Tally};

/// One sample of a reason is logged each minute.
const SAMPLE_EVERY_MS: i64 = 60_000;

/// One of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Listener {
    /// The line protocol on TCP.
    Line,
    /// The line protocol on UDP.
    Udp,
    /// Pickle on TCP.
    Pickle,
    /// Protobuf on TCP.
    Protobuf,
}

impl Listener {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Line, Self::Udp, Self::Pickle, Self::Protobuf];

    /// The text of the label `listener`, and the name of its section.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Udp => "udp",
            Self::Pickle => "pickle",
            Self::Protobuf => "protobuf",
        }
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
    /// It was silent for longer than `idle_timeout`.
    Idle,
    /// It was silent, and others waited for its place.
    Evicted,
    /// What it sent cannot be understood further.
    Refused,
    /// The TLS handshake failed.
    Handshake,
    /// The process stops.
    Shutdown,
}

impl Closed {
    const ALL: [(Self, &'static str); 7] = [
        (Self::End, "end"),
        (Self::Error, "error"),
        (Self::Idle, "idle"),
        (Self::Evicted, "evicted"),
        (Self::Refused, "refused"),
        (Self::Handshake, "handshake"),
        (Self::Shutdown, "shutdown"),
    ];
}

/// The counters of all listeners.
#[derive(Debug)]
pub struct Stats([ListenerStats; 4]);

impl Stats {
    /// Registers them.
    pub fn new(registry: &Registry) -> Self {
        Self(Listener::ALL.map(|listener| ListenerStats::new(listener, registry)))
    }

    /// Those of one listener.
    pub fn of(&self, listener: Listener) -> &ListenerStats {
        &self.0[listener as usize]
    }

    /// Received by all listeners.
    pub fn received(&self) -> u64 {
        self.0.iter().map(|one| one.received.get()).sum()
    }

    /// Accepted by all listeners.
    pub fn accepted(&self) -> u64 {
        self.0.iter().map(|one| one.accepted.get()).sum()
    }

    /// Rejected by all listeners for one reason.
    pub fn rejected_for(&self, reason: Reject) -> u64 {
        self.0.iter().map(|one| one.rejected[reason as usize].get()).sum()
    }

    /// Rejected by all listeners for whatever reason.
    pub fn rejected(&self) -> u64 {
        Reject::ALL.into_iter().map(|reason| self.rejected_for(reason)).sum()
    }

    /// Connections open now.
    pub fn active_connections(&self) -> u64 {
        self.0.iter().map(|one| *one.open.lock().unwrap_or_else(PoisonError::into_inner)).sum()
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
    opened: Counter,
    closed: [Counter; Closed::ALL.len()],
    active: Gauge,
    open: Mutex<u64>,
    samples: [Throttle; Reject::COUNT],
}

impl ListenerStats {
    fn new(listener: Listener, registry: &Registry) -> Self {
        let label = ("listener", listener.label());
        let counter = |name: &str, help: &str| registry.counter(name, help, &[label]);
        Self {
            listener,
            received: counter("plumbago_ingest_received_total", "Points that came, accepted or not"),
            accepted: counter("plumbago_ingest_accepted_total", "Points given to the engine"),
            rejected: Reject::ALL.map(|reason| {
                let labels = [label, ("reason", reason.label())];
                registry.counter("plumbago_ingest_rejected_total", "Points refused", &labels)
            }),
            messages: counter("plumbago_ingest_messages_total", "Lines or frames, empty ones included"),
            bytes: counter("plumbago_ingest_bytes_total", "Bytes read"),
            opened: counter("plumbago_ingest_connections_total", "Connections accepted"),
            closed: Closed::ALL.map(|(_, cause)| {
                let labels = [label, ("cause", cause)];
                registry.counter("plumbago_ingest_connections_closed_total", "Connections ended", &labels)
            }),
            active: registry.gauge("plumbago_ingest_active_connections", "Connections open now", &[label]),
            open: Mutex::new(0),
            samples: [const { Throttle::new(SAMPLE_EVERY_MS) }; Reject::COUNT],
        }
    }

    /// Everything that came.
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// What the sink took.
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// What was refused for a reason.
    pub fn rejected_for(&self, reason: Reject) -> u64 {
        self.rejected[reason as usize].get()
    }

    /// Lines or frames.
    pub fn messages(&self) -> u64 {
        self.messages.get()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.opened.get()
    }

    /// Counts what was read and parsed, and forgets the tally. The points are not accepted before the
    /// sink took them.
    pub(crate) fn parsed(&self, bytes: usize, intake: &mut Intake, now_ms: i64) {
        self.bytes.add(bytes as u64);
        self.messages.add(std::mem::take(&mut intake.messages));
        self.received.add(intake.received());
        self.report(&mut intake.tally, now_ms);
    }

    /// Counts what the sink took.
    pub(crate) fn pushed(&self, points: usize) {
        self.accepted.add(points as u64);
    }

    /// Counts points that were already received and that the sink would not take.
    pub(crate) fn dropped(&self, points: usize, now_ms: i64) {
        self.rejected[Reject::Overflow as usize].add(points as u64);
        if self.samples[Reject::Overflow as usize].pass(now_ms).is_some() {
            warn!(
                listener = self.listener.label(),
                points, "the engine is behind or has failed: points are dropped"
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
            let origin = sample.origin.map(|address| address.to_string()).unwrap_or_default();
            let (listener, label, sample) = (self.listener.label(), reason.label(), sample.text.as_str());
            if reason.is_intended() {
                debug!(listener, reason = label, origin, sample, "point refused");
            } else {
                warn!(listener, reason = label, origin, sample, "point refused; more are counted only");
            }
        }
        tally.clear();
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
