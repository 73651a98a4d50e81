//! The figures of a destination.

use plumbago_telemetry::{Counter, Gauge, Registry};

/// Names of the conditions that a relay can raise: a destination is unreachable, a queue cannot be written,
/// and points are dropped.
pub const CONDITIONS: [&str; 3] = [AWAY, DISK, DROPPED];
/// Holds while a destination accepts no points.
pub(crate) const AWAY: &str = "relay";
/// Holds while the queue of a destination cannot be written.
pub(crate) const DISK: &str = "relay_disk";
/// Holds after points for a destination were dropped.
pub(crate) const DROPPED: &str = "relay_dropped";

/// The ledger of one destination: `accepted` + `recovered` = `sent` + `waiting` + `dropped` at any moment
/// when no point is being moved between these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// The destination, as `host:port`.
    pub destination: String,
    /// Number of points that this process accepted for this destination.
    pub accepted: u64,
    /// Number of points of earlier runs that the queue had at the start.
    pub recovered: u64,
    /// Number of points that were sent, each counted once.
    pub sent: u64,
    /// Number of points that wait in memory or on disk.
    pub waiting: u64,
    /// Number of points that are lost to this destination.
    pub dropped: u64,
}

/// Counters and gauges of one destination.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) accepted: Counter,
    pub(crate) recovered: Counter,
    pub(crate) sent: Counter,
    pub(crate) resent: Counter,
    /// Number of points dropped because the disk was slow, full or failed.
    pub(crate) dropped_disk: Counter,
    /// Number of points dropped because the queue had reached its limit.
    pub(crate) dropped_full: Counter,
    /// Number of points dropped because their file was damaged.
    pub(crate) dropped_damaged: Counter,
    pub(crate) connections: Counter,
    pub(crate) connected: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) bytes: Gauge,
    pub(crate) delay: Gauge,
}

impl Stats {
    pub(crate) fn new(registry: &Registry, destination: &str) -> Self {
        let labels = [("destination", destination)];
        let counter = |name, help| registry.counter(name, help, &labels);
        let gauge = |name, help| registry.gauge(name, help, &labels);
        let dropped = |reason| {
            let help = "Points that a destination of the relay will not get";
            registry.counter(
                "plumbago_relay_dropped_points_total",
                help,
                &[("destination", destination), ("reason", reason)],
            )
        };
        Self {
            accepted: counter(
                "plumbago_relay_accepted_points_total",
                "Points accepted for a destination of the relay",
            ),
            recovered: counter(
                "plumbago_relay_recovered_points_total",
                "Points of earlier runs that the queue of a destination had at the start",
            ),
            sent: counter(
                "plumbago_relay_sent_points_total",
                "Points sent to a destination, each counted once",
            ),
            resent: counter(
                "plumbago_relay_resent_points_total",
                "Points sent again after a broken connection",
            ),
            dropped_disk: dropped("disk"),
            dropped_full: dropped("queue_full"),
            dropped_damaged: dropped("damaged"),
            connections: counter("plumbago_relay_connections_total", "Connections made to a destination"),
            connected: gauge("plumbago_relay_connected", "1 while a destination is connected, else 0"),
            waiting: gauge("plumbago_relay_waiting_points", "Points that wait for a destination"),
            bytes: gauge("plumbago_relay_queue_bytes", "Bytes of a destination's queue on disk"),
            delay: gauge(
                "plumbago_relay_delay_seconds",
                "Age of the oldest point that waits for a destination, in seconds since it was accepted",
            ),
        }
    }

    /// Number of points that are lost to this destination.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped_disk.get() + self.dropped_full.get() + self.dropped_damaged.get()
    }
}
